//! Functions of BYTEA.

use std::fmt::Write as _;

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
    Spec::new("encode", &[&[Bytes, Text]], Gives::Type(ColumnType::Text), |args| {
        encoded(bytes(&args[0]), text(&args[1])).map(of_text)
    }),
    Spec::new("decode", &[&[Text, Text]], BYTES, |args| {
        decoded(text(&args[0]), text(&args[1])).map(of_bytes)
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

/// What DataFusion has for texts.
pub(super) static OVERLOADS: &[Spec] = &[
    Spec::new("btrim", &[&[Bytes, Bytes]], BYTES, |args| {
        Ok(of_bytes(trimmed(bytes(&args[0]), bytes(&args[1]), true, true)))
    }),
    Spec::new("ltrim", &[&[Bytes, Bytes]], BYTES, |args| {
        Ok(of_bytes(trimmed(bytes(&args[0]), bytes(&args[1]), true, false)))
    }),
    Spec::new("rtrim", &[&[Bytes, Bytes]], BYTES, |args| {
        Ok(of_bytes(trimmed(bytes(&args[0]), bytes(&args[1]), false, true)))
    }),
    Spec::new("substr", &[&[Bytes, Int], &[Bytes, Int, Int]], BYTES, |args| {
        let bytes = bytes(&args[0]);
        let start = int(&args[1]);
        let end = match args.get(2).map(int) {
            Some(length) if length < 0 => return Err(EngineError::bad_value("a length is not negative")),
            Some(length) => start.saturating_add(length),
            None => i64::MAX,
        };
        let place = |at: i64| usize::try_from(at.saturating_sub(1)).unwrap_or(0).min(bytes.len());
        Ok(of_bytes(bytes[place(start)..place(end.max(start))].to_vec()))
    }),
    Spec::new("reverse", &[&[Bytes]], BYTES, |args| {
        Ok(of_bytes(bytes(&args[0]).iter().rev().copied().collect()))
    }),
    Spec::new("character_length", &[&[Bytes]], INT4, |args| {
        Ok(of_length(bytes(&args[0]).len()))
    }),
    Spec::new("octet_length", &[&[Bytes]], INT4, |args| {
        Ok(of_length(bytes(&args[0]).len()))
    }),
    Spec::new("bit_length", &[&[Bytes]], INT4, |args| {
        Ok(of_length(bytes(&args[0]).len() * 8))
    }),
];

fn of_length(length: usize) -> ScalarValue {
    ScalarValue::Int32(i32::try_from(length).ok())
}

fn trimmed(bytes: &[u8], set: &[u8], at_start: bool, at_end: bool) -> Vec<u8> {
    let is_kept = |byte: &u8| !set.contains(byte);
    let start = if at_start {
        bytes.iter().position(is_kept)
    } else {
        Some(0)
    };
    let end = if at_end {
        bytes.iter().rposition(is_kept).map(|at| at + 1)
    } else {
        Some(bytes.len())
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end => bytes[start..end].to_vec(),
        _ => Vec::new(),
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// How long a line of `encode(…, 'base64')` is.
const BASE64_LINE: usize = 76;

fn encoded(bytes: &[u8], form: &str) -> Result<String, EngineError> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => Ok(crate::text::hex(bytes)),
        "base64" => Ok(base64(bytes)),
        "escape" => {
            let mut out = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 128.. => {
                        let _ = write!(out, "\\{byte:03o}");
                    }
                    byte => out.push(char::from(*byte)),
                }
            }
            Ok(out)
        }
        _ => Err(no_encoding(form)),
    }
}

fn no_encoding(form: &str) -> EngineError {
    EngineError::bad_value(format!("there is no encoding `{form}`: hex, base64 and escape are"))
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut line = 0;
    for group in bytes.chunks(3) {
        if line == BASE64_LINE {
            out.push('\n');
            line = 0;
        }
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let number = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let sign = BASE64[(number >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(sign) } else { '=' });
        }
        line += 4;
    }
    out
}

fn decoded(text: &str, form: &str) -> Result<Vec<u8>, EngineError> {
    let wrong = || EngineError::bad_value(format!("the text is no {}", form.to_ascii_lowercase()));
    match form.to_ascii_lowercase().as_str() {
        "hex" => crate::text::parse_hex(text).ok_or_else(wrong),
        "base64" => of_base64(text).ok_or_else(wrong),
        "escape" => crate::text::parse_escaped_bytes(text).ok_or_else(wrong),
        _ => Err(no_encoding(form)),
    }
}

fn of_base64(text: &str) -> Option<Vec<u8>> {
    let signs: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bare = signs.len() - signs.iter().rev().take_while(|sign| **sign == b'=').count();
    if !signs.len().is_multiple_of(4) || signs.len() - bare > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(signs.len() * 3 / 4);
    for group in signs[..bare].chunks(4) {
        let mut number = 0_u32;
        for place in 0..4 {
            let value = match group.get(place) {
                Some(sign) => BASE64.iter().position(|known| known == sign)? as u32,
                None => 0,
            };
            number = number << 6 | value;
        }
        let [_, rest @ ..] = number.to_be_bytes();
        bytes.extend(&rest[..group.len() - 1]);
    }
    Some(bytes)
}

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
