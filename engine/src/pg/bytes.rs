//! Functions of BYTEA.

use arrow::datatypes::DataType;
use candor_storage::ColumnType;
use datafusion::common::ScalarValue;

use super::function::Kind::{Bytes, Int, Text};
use super::function::{Gives, Spec, int, of_text, text};
use crate::error::EngineError;

const BYTES: Gives = Gives::Type(ColumnType::Bytes);
const INT4: Gives = Gives::Type(ColumnType::Int32);

pub(super) static CONCAT: Spec = Spec::new("bytea_concat", &[&[Bytes, Bytes]], BYTES, |args| {
    Ok(of_bytes([bytes(&args[0]), bytes(&args[1])].concat()))
});

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("get_bit", &[&[Bytes, Int]], INT4, |args| {
        let bytes = bytes(&args[0]);
        let at = index(int(&args[1]), bytes.len() * 8)?;
        Ok(ScalarValue::Int32(Some(i32::from(bytes[at / 8] >> (at % 8) & 1))))
    }),
    Spec::new("set_bit", &[&[Bytes, Int, Int]], BYTES, |args| {
        let mut bytes = bytes(&args[0]).to_vec();
        let at = index(int(&args[1]), bytes.len() * 8)?;
        match int(&args[2]) {
            0 => bytes[at / 8] &= !(1 << (at % 8)),
            1 => bytes[at / 8] |= 1 << (at % 8),
            other => return Err(EngineError::bad_value(format!("a bit is 0 or 1, not {other}"))),
        }
        Ok(of_bytes(bytes))
    }),
    Spec::new(
        "convert_from",
        &[&[Bytes, Text]],
        Gives::Type(ColumnType::Text),
        |args| {
            check_encoding(text(&args[1]))?;
            let text = String::from_utf8(bytes(&args[0]).to_vec());
            text.map(of_text)
                .map_err(|_| EngineError::bad_value("the bytes are not UTF-8"))
        },
    ),
    Spec::new("convert_to", &[&[Text, Text]], BYTES, |args| {
        check_encoding(text(&args[1]))?;
        Ok(of_bytes(text(&args[0]).as_bytes().to_vec()))
    }),
    Spec::new("get_byte", &[&[Bytes, Int]], INT4, |args| {
        let bytes = bytes(&args[0]);
        let at = index(int(&args[1]), bytes.len())?;
        Ok(ScalarValue::Int32(Some(i32::from(bytes[at]))))
    }),
    Spec::new("set_byte", &[&[Bytes, Int, Int]], BYTES, |args| {
        let mut bytes = bytes(&args[0]).to_vec();
        let at = index(int(&args[1]), bytes.len())?;
        bytes[at] = int(&args[2]) as u8;
        Ok(of_bytes(bytes))
    }),
];

fn check_encoding(name: &str) -> Result<(), EngineError> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "sqlascii" => Ok(()),
        _ => Err(EngineError::bad_value(format!(
            "texts are UTF-8 here, and `{name}` is not"
        ))),
    }
}

fn index(at: i64, count: usize) -> Result<usize, EngineError> {
    match usize::try_from(at) {
        Ok(index) if index < count => Ok(index),
        _ => Err(EngineError::bad_value(format!(
            "index {at} is outside of {count} bytes"
        ))),
    }
}

fn bytes(value: &ScalarValue) -> &[u8] {
    match value {
        ScalarValue::BinaryView(Some(bytes)) | ScalarValue::Binary(Some(bytes)) => bytes,
        _ => &[],
    }
}

fn of_bytes(bytes: Vec<u8>) -> ScalarValue {
    debug_assert_eq!(ColumnType::Bytes.arrow(), DataType::BinaryView);
    ScalarValue::BinaryView(Some(bytes))
}
