//! Values as text: reading them exactly, and writing them as PostgreSQL does.
//!
//! Literals of INSERT, fields of CSV files and JSON values come through here on their way into a column. Nothing passes
//! through floating point that is not stored as floating point: a NUMERIC keeps every digit, and a digit too many is
//! an error.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, RecordBatch,
    StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::compute::kernels::cast_utils::{Parser, parse_interval_month_day_nano, string_to_datetime};
use arrow::datatypes::{DataType, Date32Type, Time64MicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use candor_storage::ColumnType;

use crate::error::EngineError;

/// Builds one column out of texts.
pub(crate) struct TextColumn {
    ty: ColumnType,
    builder: Builder,
}

enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
}

macro_rules! each_builder {
    ($value:expr, $builder:ident => $body:expr) => {
        match $value {
            Builder::Bool($builder) => $body,
            Builder::Int16($builder) => $body,
            Builder::Int32($builder) => $body,
            Builder::Int64($builder) => $body,
            Builder::Float32($builder) => $body,
            Builder::Float64($builder) => $body,
            Builder::Decimal($builder) => $body,
            Builder::Text($builder) => $body,
            Builder::Bytes($builder) => $body,
            Builder::Date($builder) => $body,
            Builder::Time($builder) => $body,
            Builder::Timestamp($builder) => $body,
            Builder::Interval($builder) => $body,
        }
    };
}

impl TextColumn {
    pub(crate) fn new(ty: ColumnType) -> Self {
        let builder = match ty {
            ColumnType::Bool => Builder::Bool(BooleanBuilder::new()),
            ColumnType::Int16 => Builder::Int16(Int16Builder::new()),
            ColumnType::Int32 => Builder::Int32(Int32Builder::new()),
            ColumnType::Int64 => Builder::Int64(Int64Builder::new()),
            ColumnType::Float32 => Builder::Float32(Float32Builder::new()),
            ColumnType::Float64 => Builder::Float64(Float64Builder::new()),
            ColumnType::Decimal { .. } => Builder::Decimal(Decimal128Builder::new().with_data_type(ty.arrow())),
            ColumnType::Text | ColumnType::Varchar(_) => Builder::Text(StringViewBuilder::new()),
            ColumnType::Bytes => Builder::Bytes(BinaryViewBuilder::new()),
            ColumnType::Date => Builder::Date(Date32Builder::new()),
            ColumnType::Time => Builder::Time(Time64MicrosecondBuilder::new()),
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                Builder::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(ty.arrow()))
            }
            ColumnType::Interval => Builder::Interval(IntervalMonthDayNanoBuilder::new()),
        };
        Self { ty, builder }
    }

    pub(crate) fn push_null(&mut self) {
        each_builder!(&mut self.builder, builder => builder.append_null());
    }

    /// Reads one value.
    ///
    /// # Errors
    /// What is wrong with it, in words, without its place.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), String> {
        let ty = self.ty;
        match &mut self.builder {
            Builder::Bool(builder) => builder.append_value(parse_bool(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Int16(builder) => builder.append_value(parse_integer(text, ty)?),
            Builder::Int32(builder) => builder.append_value(parse_integer(text, ty)?),
            Builder::Int64(builder) => builder.append_value(parse_integer(text, ty)?),
            Builder::Float32(builder) => builder.append_value(parse_float32(text)?),
            Builder::Float64(builder) => builder.append_value(parse_float64(text)?),
            Builder::Decimal(builder) => builder.append_value(parse_decimal(text, ty)?),
            Builder::Text(builder) => {
                check_length(text, ty)?;
                builder.append_value(text);
            }
            Builder::Bytes(builder) => builder.append_value(parse_bytes(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Date(builder) => builder.append_value(parse_date(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Time(builder) => builder.append_value(parse_time(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Timestamp(builder) => builder.append_value(parse_timestamp(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Interval(builder) => {
                builder.append_value(parse_interval_month_day_nano(text.trim()).map_err(|_| not_a(text, ty))?);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> ArrayRef {
        each_builder!(&mut self.builder, builder => Arc::new(builder.finish()))
    }
}

fn not_a(text: &str, ty: ColumnType) -> String {
    format!("`{}` is not a value of type {ty}", shortened(text))
}

/// Long values say too much in a message.
fn shortened(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Refuses a text longer than its VARCHAR(n) allows.
pub(crate) fn check_length(text: &str, ty: ColumnType) -> Result<(), String> {
    let ColumnType::Varchar(limit) = ty else {
        return Ok(());
    };
    // A character has at least one byte: short texts need no counting.
    if text.len() <= limit as usize {
        return Ok(());
    }
    match text.chars().count() {
        length if length > limit as usize => Err(format!("a text of {length} characters is too long for {ty}")),
        _ => Ok(()),
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "yes" | "on" | "y" | "1" => Some(true),
        "f" | "false" | "no" | "off" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn parse_integer<T: TryFrom<i128>>(text: &str, ty: ColumnType) -> Result<T, String> {
    let whole = match text.trim().parse::<i64>() {
        Ok(whole) => i128::from(whole),
        // `5.0` and `1e3` are whole numbers too.
        Err(_) => match scaled(text, 0) {
            Scaled::Exact(whole) => whole,
            Scaled::TooFine => return Err(format!("{} does not fit {ty} without loss", shortened(text.trim()))),
            Scaled::TooLarge => return Err(format!("{} is out of range for {ty}", shortened(text.trim()))),
            Scaled::NotANumber => return Err(not_a(text, ty)),
        },
    };
    T::try_from(whole).map_err(|_| format!("{whole} is out of range for {ty}"))
}

fn parse_float64(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let value: f64 = trimmed.parse().map_err(|_| not_a(text, ColumnType::Float64))?;
    if value.is_infinite() && !trimmed.to_ascii_lowercase().contains("inf") {
        return Err(format!(
            "{} is out of range for {}",
            shortened(trimmed),
            ColumnType::Float64
        ));
    }
    Ok(value)
}

fn parse_float32(text: &str) -> Result<f32, String> {
    let trimmed = text.trim();
    let value: f32 = trimmed.parse().map_err(|_| not_a(text, ColumnType::Float32))?;
    if value.is_infinite() && !trimmed.to_ascii_lowercase().contains("inf") {
        return Err(format!(
            "{} is out of range for {}",
            shortened(trimmed),
            ColumnType::Float32
        ));
    }
    Ok(value)
}

fn parse_decimal(text: &str, ty: ColumnType) -> Result<i128, String> {
    let ColumnType::Decimal { precision, scale } = ty else {
        return Err(not_a(text, ty));
    };
    match scaled(text, i32::from(scale)) {
        Scaled::Exact(value) if value.unsigned_abs() < 10_u128.pow(u32::from(precision)) => Ok(value),
        Scaled::Exact(_) | Scaled::TooLarge => Err(format!("{} is out of range for {ty}", shortened(text.trim()))),
        Scaled::TooFine => Err(format!("{} does not fit {ty} without loss", shortened(text.trim()))),
        Scaled::NotANumber => Err(not_a(text, ty)),
    }
}

enum Scaled {
    /// The number times ten to the power of the scale.
    Exact(i128),
    /// It has more digits behind the point than the scale.
    TooFine,
    TooLarge,
    NotANumber,
}

/// Reads a decimal number with optional exponent, digit for digit.
fn scaled(text: &str, scale: i32) -> Scaled {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => match exponent.parse::<i32>() {
            Ok(exponent) => (mantissa, exponent),
            Err(_) => return Scaled::NotANumber,
        },
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first() {
        Some(b'-') => (true, &mantissa[1..]),
        Some(b'+') => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return Scaled::NotANumber;
    }
    let fraction = fraction.trim_end_matches('0');
    // The digits as one whole number, and by which power of ten it is off.
    let Some(value) = whole.bytes().chain(fraction.bytes()).try_fold(0_i128, |value, digit| {
        value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
    }) else {
        return Scaled::TooLarge;
    };
    let value = if negative { -value } else { value };
    let shift = exponent
        .saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX))
        .saturating_add(scale);
    shift_decimal(value, shift)
}

fn shift_decimal(value: i128, shift: i32) -> Scaled {
    if value == 0 {
        return Scaled::Exact(0);
    }
    match (shift, 10_i128.checked_pow(shift.unsigned_abs())) {
        (0.., Some(factor)) => value.checked_mul(factor).map_or(Scaled::TooLarge, Scaled::Exact),
        (0.., None) => Scaled::TooLarge,
        (_, Some(factor)) if value % factor == 0 => Scaled::Exact(value / factor),
        _ => Scaled::TooFine,
    }
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let hex = text.strip_prefix("\\x").or_else(|| text.strip_prefix("\\X"))?;
    if hex.len() % 2 != 0 || !hex.is_ascii() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    text.get(1..)?.contains('-').then(|| Date32Type::parse(text)).flatten()
}

fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    text.contains(':').then(|| Time64MicrosecondType::parse(text)).flatten()
}

/// Microseconds since 1970; a zone in the text counts, without one it is UTC.
fn parse_timestamp(text: &str) -> Option<i64> {
    let utc: Tz = "+00:00".parse().ok()?;
    let moment = string_to_datetime(&utc, text.trim()).ok()?;
    // Halves of a microsecond go up, as PostgreSQL rounds them.
    let round_up = i64::from(moment.timestamp_subsec_nanos() % 1000 >= 500);
    moment.timestamp_micros().checked_add(round_up)
}

/// Writes the values of one array as text.
pub(crate) struct TextWriter<'a> {
    array: &'a dyn Array,
    formatter: Option<ArrayFormatter<'a>>,
}

const FORMAT: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f+00"));

impl<'a> TextWriter<'a> {
    pub(crate) fn new(array: &'a dyn Array) -> Result<Self, EngineError> {
        let formatter = match array.data_type() {
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary => None,
            _ => Some(ArrayFormatter::try_new(array, &FORMAT)?),
        };
        Ok(Self { array, formatter })
    }

    /// The value of `row`, or `None` for NULL.
    pub(crate) fn value(&self, row: usize) -> Option<String> {
        if self.array.is_null(row) {
            return None;
        }
        match &self.formatter {
            Some(formatter) => Some(formatter.value(row).to_string()),
            None => Some(format!("\\x{}", hex(bytes_at(self.array, row)?))),
        }
    }
}

fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
    use arrow::array::AsArray as _;
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Some(array.as_binary_view().value(row)),
        _ => None,
    }
}

/// Two hexadecimal digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// One row of keys for a message: `(1, 'a')`.
pub(crate) fn key_text(keys: &RecordBatch, row: usize) -> String {
    let values = keys.columns().iter().map(|column| {
        let writer = TextWriter::new(column.as_ref());
        writer
            .ok()
            .and_then(|writer| writer.value(row))
            .unwrap_or_else(|| "NULL".into())
    });
    format!("({})", values.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ty: ColumnType, text: &str) -> Result<String, String> {
        let mut column = TextColumn::new(ty);
        column.push(text)?;
        let array = column.finish();
        Ok(TextWriter::new(array.as_ref())
            .expect("writes")
            .value(0)
            .expect("not null"))
    }

    #[test]
    fn values_come_back_digit_for_digit() {
        let decimal = ColumnType::Decimal {
            precision: 38,
            scale: 10,
        };
        for (ty, text, expected) in [
            (ColumnType::Int64, "9223372036854775807", "9223372036854775807"),
            (ColumnType::Int64, "-9223372036854775808", "-9223372036854775808"),
            (ColumnType::Int32, "1e3", "1000"),
            (ColumnType::Int16, " 5.0 ", "5"),
            (
                decimal,
                "1234567890123456789012345678.0123456789",
                "1234567890123456789012345678.0123456789",
            ),
            (decimal, "-0.0000000001", "-0.0000000001"),
            (decimal, "1.5e-9", "0.0000000015"),
            (ColumnType::Decimal { precision: 4, scale: 2 }, "99.990", "99.99"),
            (ColumnType::Float64, "0.1", "0.1"),
            (ColumnType::Date, "1998-09-02", "1998-09-02"),
            (ColumnType::Time, "23:59:59.999999", "23:59:59.999999"),
            (
                ColumnType::Timestamp,
                "2024-02-29 12:00:00.25",
                "2024-02-29 12:00:00.250",
            ),
            (
                ColumnType::TimestampTz,
                "2024-02-29T12:00:00+02:00",
                "2024-02-29 10:00:00+00",
            ),
            (ColumnType::Bytes, "\\x00ff", "\\x00ff"),
            (ColumnType::Bool, "yes", "true"),
            (ColumnType::Varchar(2), "éé", "éé"),
        ] {
            assert_eq!(read(ty, text).as_deref(), Ok(expected), "{text} as {ty}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let decimal = ColumnType::Decimal { precision: 4, scale: 2 };
        for (ty, text, reason) in [
            (ColumnType::Int16, "32768", "out of range"),
            (ColumnType::Int64, "9223372036854775808", "out of range"),
            (ColumnType::Int32, "1.5", "without loss"),
            (ColumnType::Int32, "", "is not a value"),
            (ColumnType::Int32, "0x10", "is not a value"),
            (decimal, "100", "out of range"),
            (decimal, "1.005", "without loss"),
            (decimal, "NaN", "is not a value"),
            (decimal, "1e99999", "out of range"),
            (ColumnType::Float64, "1e999", "out of range"),
            (ColumnType::Float32, "1e39", "out of range"),
            (ColumnType::Date, "5", "is not a value"),
            (ColumnType::Date, "2023-02-29", "is not a value"),
            (ColumnType::Time, "5", "is not a value"),
            (ColumnType::Bytes, "\\x0", "is not a value"),
            (ColumnType::Bytes, "\\xé1", "is not a value"),
            (ColumnType::Varchar(2), "abc", "too long"),
        ] {
            let error = read(ty, text).expect_err(text);
            assert!(error.contains(reason), "{text} as {ty}: {error}");
        }
    }
}
