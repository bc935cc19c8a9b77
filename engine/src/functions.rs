//! Functions that answer from the session: who is asked, and what is selected.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::temporal_conversions::timestamp_us_to_datetime;
use candor_proto::NodeName;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::context::StatementContext;

/// A function without arguments whose value the session fixes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SessionFunction {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for SessionFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

/// What the functions of one statement answer with.
#[derive(Clone, Debug)]
pub(crate) struct SessionValues {
    node: NodeName,
    namespace: Option<String>,
    database: Option<String>,
    now_micros: i64,
}

impl SessionValues {
    pub(crate) fn of(ctx: &StatementContext) -> Self {
        Self {
            node: ctx.node.clone(),
            namespace: ctx.namespace.clone(),
            database: ctx.database.clone(),
            now_micros: ctx.now_micros,
        }
    }

    /// Fixes the instant of `now()`.
    pub(crate) fn fix_now(&self, props: &mut ExecutionProps) {
        props.query_execution_start_time = timestamp_us_to_datetime(self.now_micros).map(|now| now.and_utc());
    }

    /// The functions themselves.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Arc<ScalarUDF>> {
        let text = |value: Option<&str>| ScalarValue::Utf8View(value.map(str::to_owned));
        let database = text(self.database.as_deref());
        let named = [
            // `session::context()` arrives as a function of two names.
            ("session.context", self.context()),
            ("session.node", text(Some(self.node.as_str()))),
            ("current_namespace", text(self.namespace.as_deref())),
            ("current_database", database.clone()),
            ("current_schema", database),
            ("version", text(Some(concat!("Candor ", env!("CARGO_PKG_VERSION"))))),
        ];
        named.into_iter().map(|(name, value)| {
            Arc::new(ScalarUDF::from(SessionFunction {
                name,
                value,
                signature: Signature::nullary(Volatility::Stable),
            }))
        })
    }

    /// `{node, namespace, database}`, NULL where none is selected.
    fn context(&self) -> ScalarValue {
        let values = [
            ("node", Some(self.node.as_str())),
            ("namespace", self.namespace.as_deref()),
            ("database", self.database.as_deref()),
        ];
        let columns = values.map(|(name, value)| -> (FieldRef, ArrayRef) {
            let field = Field::new(name, DataType::Utf8View, true);
            (Arc::new(field), Arc::new(StringViewArray::from(vec![value])))
        });
        ScalarValue::Struct(Arc::new(StructArray::from(columns.to_vec())))
    }
}
