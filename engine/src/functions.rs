//! Functions that answer from the session: who is asked, and what is selected.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::scalar::ScalarStructBuilder;
use datafusion::common::{Result, ScalarValue};
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

/// The session's functions for one statement.
pub(crate) fn session_functions(ctx: &StatementContext) -> Result<Vec<Arc<ScalarUDF>>> {
    let text = |value: Option<&str>| ScalarValue::Utf8View(value.map(str::to_owned));
    let database = text(ctx.database.as_deref());
    let named = [
        // `session::context()` arrives as a function of two names.
        ("session.context", context_value(ctx)?),
        ("session.node", text(Some(ctx.node.as_str()))),
        ("current_namespace", text(ctx.namespace.as_deref())),
        ("current_database", database.clone()),
        ("current_schema", database),
        ("version", text(Some(concat!("Candor ", env!("CARGO_PKG_VERSION"))))),
    ];
    Ok(named
        .into_iter()
        .map(|(name, value)| {
            Arc::new(ScalarUDF::from(SessionFunction {
                name,
                value,
                signature: Signature::nullary(Volatility::Stable),
            }))
        })
        .collect())
}

/// `{node, namespace, database}`, NULL where none is selected.
fn context_value(ctx: &StatementContext) -> Result<ScalarValue> {
    let fields = ["node", "namespace", "database"].map(|name| Arc::new(Field::new(name, DataType::Utf8View, true)));
    let values = [
        Some(ctx.node.as_str()),
        ctx.namespace.as_deref(),
        ctx.database.as_deref(),
    ];
    let mut builder = ScalarStructBuilder::new();
    for (field, value) in Fields::from(fields.to_vec()).iter().zip(values) {
        builder = builder.with_scalar(Arc::clone(field), ScalarValue::Utf8View(value.map(str::to_owned)));
    }
    builder.build()
}
