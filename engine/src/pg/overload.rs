//! Functions of DataFusion that PostgreSQL has for other types too.
//!
//! DataFusion chooses a function by its name alone. One of these is DataFusion's own, and another one where it is called with types
//! that DataFusion's does not take, or takes otherwise than PostgreSQL.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::function::udf;
use super::{bytes, strings, time};

/// Whether a call with these types is ours.
type When = fn(&[DataType]) -> bool;

/// The functions by the name that DataFusion has for them.
pub(crate) fn functions(theirs: &impl FunctionRegistry) -> Result<Vec<Arc<ScalarUDF>>> {
    let of_bytes = bytes::OVERLOADS.iter().map(|spec| (spec, has_bytes as When));
    let of_booleans = strings::OVERLOADS.iter().map(|spec| (spec, has_boolean as When));
    let of_zones = std::iter::once((&time::DATE_TRUNC, takes_other_times as When));
    let specs = of_bytes.chain(of_booleans).chain(of_zones);
    let all = specs
        .map(|(spec, when)| (udf(spec), when))
        .chain([(crate::math::round(), is_float as When)]);
    all.map(|(ours, when)| Ok(overload(theirs.udf(ours.name())?, ours, when)))
        .collect()
}

/// `substring`, which DataFusion calls without looking its name up.
pub(super) fn substring() -> Option<Arc<ScalarUDF>> {
    let ours = bytes::OVERLOADS.iter().find(|spec| spec.name == "substr")?;
    Some(overload(datafusion::functions::unicode::substr(), udf(ours), has_bytes))
}

fn overload(theirs: Arc<ScalarUDF>, ours: Arc<ScalarUDF>, when: When) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Overload {
        signature: Signature::user_defined(theirs.signature().volatility),
        theirs,
        ours,
        when: ByAddress(when),
    }))
}

fn has_bytes(types: &[DataType]) -> bool {
    types
        .iter()
        .any(|ty| matches!(ty, DataType::Binary | DataType::BinaryView))
}

fn has_boolean(types: &[DataType]) -> bool {
    types.contains(&DataType::Boolean)
}

fn is_float(types: &[DataType]) -> bool {
    matches!(types, [ty] if ty.is_floating() || matches!(ty, DataType::Utf8 | DataType::Utf8View))
}

/// A zone as third argument, or an interval to be cut off.
fn takes_other_times(types: &[DataType]) -> bool {
    types.len() == 3 || matches!(types, [_, DataType::Interval(_)])
}

#[derive(Clone, Copy, Debug)]
struct ByAddress(When);

impl PartialEq for ByAddress {
    fn eq(&self, _: &Self) -> bool {
        // The functions beside it tell which one it is.
        true
    }
}

impl Eq for ByAddress {}

impl std::hash::Hash for ByAddress {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Overload {
    theirs: Arc<ScalarUDF>,
    ours: Arc<ScalarUDF>,
    when: ByAddress,
    signature: Signature,
}

impl Overload {
    fn choose<'a>(&self, mut types: impl Iterator<Item = &'a DataType>) -> &ScalarUDF {
        let types: Vec<DataType> = types.by_ref().cloned().collect();
        if (self.when.0)(&types) {
            &self.ours
        } else {
            &self.theirs
        }
    }

    fn of_fields(&self, fields: &[FieldRef]) -> &ScalarUDF {
        self.choose(fields.iter().map(|field| field.data_type()))
    }
}

impl ScalarUDFImpl for Overload {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> = given
            .iter()
            .map(|ty| Arc::new(Field::new("", ty.clone(), true)))
            .collect();
        let fields = fields_with_udf(&fields, self.of_fields(&fields))?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.choose(types.iter()).return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.of_fields(args.arg_fields).return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.of_fields(&args.arg_fields).invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args
            .iter()
            .map(|arg| info.get_data_type(arg))
            .collect::<Result<Vec<_>>>()?;
        self.choose(types.iter()).simplify(args, info)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let types: Vec<DataType> = inputs.iter().map(|input| input.range.data_type()).collect();
        self.choose(types.iter()).output_ordering(inputs)
    }
}
