//! Functions that make documents of values of any type.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use candor_storage::ColumnType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::EngineError;
use crate::text::{TextWriter, holds_documents};
use crate::value::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    /// One value.
    Value,
    /// A list of all values.
    List,
    /// Keys and values in turn.
    Object,
    /// `"key": value`, for the aggregates of objects.
    Member,
}

const NAMES: [(&str, Form, bool); 8] = [
    ("to_json", Form::Value, false),
    ("to_jsonb", Form::Value, true),
    ("json_build_array", Form::List, false),
    ("jsonb_build_array", Form::List, true),
    ("json_build_object", Form::Object, false),
    ("jsonb_build_object", Form::Object, true),
    ("json_member", Form::Member, false),
    ("array_to_json", Form::Value, false),
];

pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    NAMES.into_iter().map(|(name, form, is_normal)| {
        let signature = match form {
            Form::Value => Signature::any(1, Volatility::Immutable),
            Form::Member => Signature::any(2, Volatility::Immutable),
            Form::List | Form::Object => Signature::one_of(
                vec![
                    datafusion::logical_expr::TypeSignature::VariadicAny,
                    datafusion::logical_expr::TypeSignature::Nullary,
                ],
                Volatility::Immutable,
            ),
        };
        Arc::new(ScalarUDF::from(Build {
            name,
            form,
            is_normal,
            signature,
        }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Build {
    name: &'static str,
    form: Form,
    /// Whether a JSONB comes out.
    is_normal: bool,
    signature: Signature,
}

impl Build {
    const fn ty(&self) -> ColumnType {
        match (self.form, self.is_normal) {
            (Form::Member, _) => ColumnType::Text,
            (_, true) => ColumnType::Jsonb,
            (_, false) => ColumnType::Json,
        }
    }
}

impl ScalarUDFImpl for Build {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.ty().field(self.name, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|arg| arg.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let built: ArrayRef = Arc::new(self.build(&arrays, &args.arg_fields, rows)?);
        if is_constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&built, 0)?))
        } else {
            Ok(ColumnarValue::Array(built))
        }
    }
}

impl Build {
    fn build(&self, arrays: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<arrow::array::StringViewArray> {
        let columns = arrays
            .iter()
            .zip(fields)
            .map(|(array, field)| Ok((TextWriter::new(array.as_ref())?, field.as_ref())))
            .collect::<Result<Vec<_>, EngineError>>()?;
        if self.form == Form::Object && columns.len() % 2 != 0 {
            return exec_err!("{} takes keys and values in turn", self.name);
        }
        let mut builder = StringViewBuilder::new();
        for row in 0..rows {
            match self.row(&columns, row)? {
                Some(text) => builder.append_value(text),
                None => builder.append_null(),
            }
        }
        Ok(builder.finish())
    }

    fn row(&self, columns: &[(TextWriter<'_>, &Field)], row: usize) -> Result<Option<String>, EngineError> {
        let mut out = String::new();
        match self.form {
            Form::Value => {
                if columns[0].0.is_null(row) {
                    return Ok(None);
                }
                write_value(&columns[0], row, &mut out);
            }
            Form::List => {
                out.push('[');
                for (at, column) in columns.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_value(column, row, &mut out);
                }
                out.push(']');
            }
            Form::Object => {
                out.push('{');
                for (at, pair) in columns.chunks(2).enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_key(&pair[0].0, row, &mut out)?;
                    out.push_str(" : ");
                    write_value(&pair[1], row, &mut out);
                }
                out.push('}');
            }
            Form::Member => {
                write_key(&columns[0].0, row, &mut out)?;
                out.push_str(" : ");
                write_value(&columns[1], row, &mut out);
            }
        }
        if self.is_normal {
            json::normal(&out).map(Some).map_err(EngineError::bad_value)
        } else {
            Ok(Some(out))
        }
    }
}

fn write_key(writer: &TextWriter<'_>, row: usize, out: &mut String) -> Result<(), EngineError> {
    match writer.value(row) {
        Some(key) => {
            json::write_text(&key, out);
            Ok(())
        }
        None => Err(EngineError::bad_value("the key of a JSON object is not NULL")),
    }
}

fn write_value((writer, field): &(TextWriter<'_>, &Field), row: usize, out: &mut String) {
    let start = out.len();
    writer.write_json(row, holds_documents(field), out);
    // JSON's own form of a point in time has a `T` in it.
    if matches!(field.data_type(), DataType::Timestamp(..)) && !writer.is_null(row) {
        let text = out
            .split_off(start)
            .replacen(' ', "T", 1)
            .replacen("+00\"", "+00:00\"", 1);
        out.push_str(&text);
    }
}
