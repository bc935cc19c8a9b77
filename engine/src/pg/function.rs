//! Functions of one row's values, described by what they take and give.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use candor_storage::{ColumnType, ElementType};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::EngineError;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Float,
    Numeric,
    Bool,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Bytes,
    /// Texts in a list.
    Texts,
    /// A list of anything.
    List,
    Any,
}

/// What a function gives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gives {
    Type(ColumnType),
    /// The type of the first argument.
    First,
    /// The type of the second argument.
    OfSecond,
    /// TIMESTAMPTZ of a TIMESTAMP as second argument, and the other way round.
    Second,
}

/// A list of texts.
pub(super) const TEXTS: Gives = Gives::Type(ColumnType::Array {
    element: ElementType::Text,
    depth: 1,
});

/// One function.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The parameters of each form it has. The last parameter may stand again and again if `variadic`.
    pub(super) takes: &'static [&'static [Kind]],
    pub(super) variadic: bool,
    pub(super) gives: Gives,
    /// Whether NULL goes in; otherwise NULL comes out without a call.
    pub(super) sees_null: bool,
    pub(super) volatility: Volatility,
    pub(super) body: fn(&[ScalarValue]) -> Result<ScalarValue, EngineError>,
}

impl Spec {
    /// A function that is NULL of NULL and gives the same for the same.
    pub(super) const fn new(
        name: &'static str,
        takes: &'static [&'static [Kind]],
        gives: Gives,
        body: fn(&[ScalarValue]) -> Result<ScalarValue, EngineError>,
    ) -> Self {
        Self {
            name,
            takes,
            variadic: false,
            gives,
            sees_null: false,
            volatility: Volatility::Immutable,
            body,
        }
    }

    pub(super) const fn seeing_null(self) -> Self {
        Self {
            sees_null: true,
            ..self
        }
    }

    pub(super) const fn variadic(self) -> Self {
        Self { variadic: true, ..self }
    }

    pub(super) const fn volatile(self) -> Self {
        Self {
            volatility: Volatility::Volatile,
            ..self
        }
    }
}

/// The function as DataFusion calls it.
pub(super) fn udf(spec: &'static Spec) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(RowFunction {
        spec: ByName(spec),
        signature: Signature::user_defined(spec.volatility),
    }))
}

/// A call of a function that has no name in SQL.
pub(super) fn call(spec: &'static Spec, args: Vec<datafusion::logical_expr::Expr>) -> datafusion::logical_expr::Expr {
    udf(spec).call(args)
}

#[derive(Clone, Copy, Debug)]
struct ByName(&'static Spec);

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl std::hash::Hash for ByName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowFunction {
    spec: ByName,
    signature: Signature,
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.spec.0.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let spec = self.spec.0;
        let fit = |form: &&[Kind]| {
            let kinds = spread(form, given.len(), spec.variadic)?;
            let each = kinds.iter().zip(given).map(|(kind, ty)| fit_of(*kind, ty));
            each.sum::<Option<u32>>().map(|score| (score, kinds))
        };
        let mut best: Option<(u32, Vec<Kind>)> = None;
        for (score, kinds) in spec.takes.iter().filter_map(fit) {
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, kinds));
            }
        }
        let Some((_, kinds)) = best else {
            let types: Vec<String> = given.iter().map(shown).collect();
            return plan_err!("there is no function {}({})", spec.name, types.join(", "));
        };
        Ok(kinds.iter().zip(given).map(|(kind, ty)| taken(*kind, ty)).collect())
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match (self.spec.0.gives, args.first()) {
            (Gives::Type(ty), _) => Ok(ty.arrow()),
            (Gives::First, Some(first)) => Ok(first.clone()),
            (Gives::OfSecond, _) if args.len() > 1 => Ok(args[1].clone()),
            (Gives::Second, _) => match args.get(1) {
                Some(DataType::Timestamp(_, None)) => Ok(ColumnType::TimestampTz.arrow()),
                _ => Ok(ColumnType::Timestamp.arrow()),
            },
            _ => plan_err!("{} takes a value", self.spec.0.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let Gives::Type(ty) = self.spec.0.gives {
            return Ok(Arc::new(ty.field(self.spec.0.name, true)));
        }
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.spec.0.name, self.return_type(&types)?, true);
        let first = args
            .arg_fields
            .first()
            .filter(|_| matches!(self.spec.0.gives, Gives::First));
        let metadata = first.map(|first| first.metadata().clone());
        Ok(Arc::new(field.with_metadata(metadata.unwrap_or_default())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let spec = self.spec.0;
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
            && spec.volatility == Volatility::Immutable;
        let rows = if is_constant { 1 } else { args.number_rows };
        let ty = args.return_field.data_type();
        let arrays = args
            .args
            .iter()
            .map(|arg| arg.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            values.push(self.row(&arrays, row, ty)?);
        }
        if is_constant {
            return Ok(ColumnarValue::Scalar(values.remove(0)));
        }
        let array = match rows {
            0 => new_null_array(ty, 0),
            _ => ScalarValue::iter_to_array(values)?,
        };
        Ok(ColumnarValue::Array(array))
    }
}

impl RowFunction {
    fn row(&self, arrays: &[ArrayRef], row: usize, ty: &DataType) -> Result<ScalarValue> {
        let null = || ScalarValue::try_from(ty);
        let is_null = |array: &ArrayRef| array.is_null(row) || *array.data_type() == DataType::Null;
        if !self.spec.0.sees_null && arrays.iter().any(is_null) {
            return null();
        }
        let args = arrays
            .iter()
            .map(|array| ScalarValue::try_from_array(array, row))
            .collect::<Result<Vec<_>>>()?;
        match (self.spec.0.body)(&args)? {
            ScalarValue::Null => null(),
            value if value.data_type() == *ty => Ok(value),
            value => value.cast_to(ty),
        }
    }
}

/// The parameters for `count` arguments.
fn spread(form: &[Kind], count: usize, variadic: bool) -> Option<Vec<Kind>> {
    if form.len() == count {
        return Some(form.to_vec());
    }
    let last = form.last().filter(|_| variadic && count + 1 >= form.len())?;
    Some((0..count).map(|at| *form.get(at).unwrap_or(last)).collect())
}

/// How far a type is from a parameter; `None` if it cannot go there. A table, so that one parameter stands under another.
#[allow(clippy::match_same_arms)]
fn fit_of(kind: Kind, ty: &DataType) -> Option<u32> {
    let is_decimal = matches!(ty, DataType::Decimal128(..));
    Some(match (kind, ty) {
        (Kind::Any, _) => 1,
        (_, DataType::Null) => 1,
        (Kind::Text, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => 0,
        (Kind::Int, ty) if ty.is_integer() => 0,
        (Kind::Float, DataType::Float32 | DataType::Float64) => 0,
        (Kind::Float, ty) if ty.is_integer() || is_decimal => 3,
        (Kind::Numeric, _) if is_decimal => 0,
        (Kind::Numeric, ty) if ty.is_integer() => 2,
        (Kind::Bool, DataType::Boolean) => 0,
        (Kind::Date, DataType::Date32) => 0,
        (Kind::Time, DataType::Time64(_) | DataType::Time32(_)) => 0,
        (Kind::Timestamp, DataType::Timestamp(_, None)) => 0,
        (Kind::Timestamp, DataType::Date32) => 2,
        (Kind::TimestampTz, DataType::Timestamp(_, Some(_))) => 0,
        (Kind::TimestampTz, DataType::Date32 | DataType::Timestamp(_, None)) => 3,
        (Kind::Interval, DataType::Interval(_) | DataType::Duration(_)) => 0,
        (Kind::Bytes, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => 0,
        (Kind::List, DataType::List(_)) => 0,
        (Kind::Texts, DataType::List(item)) if is_text(item.data_type()) => 0,
        // A literal has no type until it is used.
        (Kind::List, _) => return None,
        (_, ty) if is_text(ty) => 4,
        _ => return None,
    })
}

fn is_text(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
    )
}

/// The type that an argument arrives with.
fn taken(kind: Kind, ty: &DataType) -> DataType {
    match kind {
        Kind::Text => DataType::Utf8View,
        Kind::Int => DataType::Int64,
        Kind::Float => DataType::Float64,
        Kind::Numeric => match ty {
            DataType::Decimal128(..) => ty.clone(),
            ty if ty.is_integer() => DataType::Decimal128(20, 0),
            _ => DataType::Decimal128(38, 10),
        },
        Kind::Bool => DataType::Boolean,
        Kind::Date => DataType::Date32,
        Kind::Time => DataType::Time64(TimeUnit::Microsecond),
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Kind::Bytes => DataType::BinaryView,
        Kind::Texts => DataType::new_list(DataType::Utf8View, true),
        Kind::List | Kind::Any => ty.clone(),
    }
}

fn shown(ty: &DataType) -> String {
    ColumnType::from_arrow(ty).map_or_else(|| ty.to_string(), |ty| ty.sql_name().to_lowercase())
}

// Arguments have the types of their parameters, and NULL is no argument of most functions, so a value of another kind
// below is as good as none.

pub(super) fn text(value: &ScalarValue) -> &str {
    value.try_as_str().flatten().unwrap_or_default()
}

pub(super) fn int(value: &ScalarValue) -> i64 {
    match value {
        ScalarValue::Int64(Some(value)) => *value,
        ScalarValue::Int32(Some(value)) => i64::from(*value),
        _ => 0,
    }
}

pub(super) fn float(value: &ScalarValue) -> f64 {
    match value {
        ScalarValue::Float64(Some(value)) => *value,
        _ => 0.0,
    }
}

pub(super) fn of_text(text: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8View(Some(text.into()))
}

pub(super) const fn of_int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

/// `pg_typeof(value)`: the name of the type as PostgreSQL prints it.
pub(super) fn type_of() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TypeOf(Signature::any(1, Volatility::Immutable))))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf(Signature);

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &'static str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = args
            .arg_fields
            .first()
            .map_or_else(|| "unknown".to_owned(), |field| pg_name(field));
        Ok(ColumnarValue::Scalar(of_text(name)))
    }
}

/// A type as PostgreSQL names it in its catalogs.
pub(crate) fn pg_name(field: &Field) -> String {
    if *field.data_type() == DataType::Null {
        return "unknown".to_owned();
    }
    match ColumnType::from_field(field) {
        Some(ty) => pg_type_name(ty),
        None => field.data_type().to_string(),
    }
}

/// A column's type as PostgreSQL names it in its catalogs, without length or precision.
pub(crate) fn pg_type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Decimal { .. } => "numeric".to_owned(),
        ColumnType::Varchar(_) => "character varying".to_owned(),
        ColumnType::Time => "time without time zone".to_owned(),
        ColumnType::Timestamp => "timestamp without time zone".to_owned(),
        ColumnType::TimestampTz => "timestamp with time zone".to_owned(),
        ColumnType::Array { element, .. } => format!("{}[]", pg_type_name(element.into())),
        other => other.sql_name().to_lowercase(),
    }
}

/// `gen_random_uuid()`.
pub(super) fn random_uuid() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(RandomUuid {
        signature: Signature::nullary(Volatility::Volatile),
        aliases: vec!["uuid".to_owned(), "uuid_generate_v4".to_owned()],
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RandomUuid {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for RandomUuid {
    fn name(&self) -> &'static str {
        "gen_random_uuid"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(ColumnType::Uuid.field(self.name(), false)))
    }

    /// The bytes come from DataFusion's own function, which has a source of random numbers.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let theirs = ScalarFunctionArgs {
            return_field: Arc::new(Field::new("uuid", DataType::Utf8, false)),
            ..args
        };
        let texts = datafusion::functions::string::uuid()
            .invoke_with_args(theirs)?
            .to_array(rows)?;
        Ok(ColumnarValue::Array(arrow::compute::cast(&texts, &DataType::Utf8View)?))
    }
}
