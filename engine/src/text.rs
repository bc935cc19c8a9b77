//! Values as text: reading them exactly, and writing them as PostgreSQL does.
//!
//! Literals of INSERT, fields of CSV files and JSON values come through here on their way into a column. Nothing passes
//! through floating point that is not stored as floating point: a NUMERIC keeps every digit, and a digit too many is
//! an error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, BinaryViewBuilder, BooleanBuilder, Date32Array, Date32Builder, Decimal128Builder,
    Float32Array, Float32Builder, Float64Array, Float64Builder, Int16Builder, Int32Builder, Int64Array, Int64Builder,
    IntervalMonthDayNanoArray, IntervalMonthDayNanoBuilder, ListArray, NullBufferBuilder, RecordBatch,
    StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use candor_storage::ColumnType;

use crate::error::EngineError;
use crate::plain;
use crate::value::array::{self, Item};
use crate::value::json::{self, Node, Value};
use crate::value::{float, interval, moment, uuid};

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
    List(ListColumn),
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
            Builder::List($builder) => $body,
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
            ColumnType::Text
            | ColumnType::Varchar(_)
            | ColumnType::Uuid
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Enum(_) => Builder::Text(StringViewBuilder::new()),
            ColumnType::Bytes => Builder::Bytes(BinaryViewBuilder::new()),
            ColumnType::Date => Builder::Date(Date32Builder::new()),
            ColumnType::Time => Builder::Time(Time64MicrosecondBuilder::new()),
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                Builder::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(ty.arrow()))
            }
            ColumnType::Interval => Builder::Interval(IntervalMonthDayNanoBuilder::new()),
            ColumnType::Array { .. } => Builder::List(ListColumn::new(ty)),
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
            Builder::Text(builder) => builder.append_value(read_text(text, ty)?),
            Builder::Bytes(builder) => builder.append_value(parse_bytes(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Date(builder) => {
                let date = plain::date(text).or_else(|| moment::parse_date(text));
                builder.append_value(date.ok_or_else(|| not_a(text, ty))?);
            }
            Builder::Time(builder) => builder.append_value(moment::parse_time(text).ok_or_else(|| not_a(text, ty))?),
            Builder::Timestamp(builder) => {
                builder.append_value(read_timestamp(text, ty).ok_or_else(|| not_a(text, ty))?);
            }
            Builder::Interval(builder) => {
                builder.append_value(interval::parse(text).ok_or_else(|| not_a(text, ty))?);
            }
            Builder::List(builder) => {
                let items = array::parse(text).map_err(|reason| format!("{}: {reason}", not_a(text, ty)))?;
                builder.push_items(&items, ty)?;
            }
        }
        Ok(())
    }

    /// Takes one value out of a JSON document, which stands in `text`: documents as they are, lists as arrays.
    ///
    /// # Errors
    /// As [`TextColumn::push`].
    pub(crate) fn push_json(&mut self, node: &Node, text: &str) -> Result<(), String> {
        match (&node.value, self.ty) {
            (Value::Null, _) => {
                self.push_null();
                Ok(())
            }
            (_, ColumnType::Json | ColumnType::Jsonb)
            | (Value::Bool(_) | Value::Array(_) | Value::Object(_), ColumnType::Text | ColumnType::Varchar(_))
            | (Value::Bool(_), ColumnType::Bool) => self.push(&text[node.place.clone()]),
            (Value::Array(_), ColumnType::Array { .. }) => match (items_of(node, text), &mut self.builder) {
                (Item::List(items), Builder::List(builder)) => builder.push_items(&items, self.ty),
                _ => Err(not_a(text, self.ty)),
            },
            (Value::Bool(_), ty) => Err(format!("a BOOLEAN is not a value of type {ty}")),
            (Value::Number(_), ColumnType::Bool) => Err("a number is not a BOOLEAN".to_owned()),
            (Value::Number(text) | Value::Text(text), _) => self.push(text),
            (Value::Array(_) | Value::Object(_), ty) => Err(format!("an object or array is not a value of type {ty}")),
        }
    }

    pub(crate) fn finish(mut self) -> ArrayRef {
        each_builder!(&mut self.builder, builder => Arc::new(builder.finish()))
    }
}

/// An array column in the making.
struct ListColumn {
    item: Box<TextColumn>,
    ends: Vec<i32>,
    valid: NullBufferBuilder,
    count: i32,
}

impl ListColumn {
    fn new(ty: ColumnType) -> Self {
        Self {
            item: Box::new(TextColumn::new(ty.item().unwrap_or(ColumnType::Text))),
            ends: vec![0],
            valid: NullBufferBuilder::new(0),
            count: 0,
        }
    }

    fn append_null(&mut self) {
        self.ends.push(self.count);
        self.valid.append_null();
    }

    fn push_items(&mut self, items: &[Item], ty: ColumnType) -> Result<(), String> {
        for item in items {
            match (item, &mut self.item.builder) {
                (Item::Null, _) => self.item.push_null(),
                (Item::List(items), Builder::List(inner)) => inner.push_items(items, self.item.ty)?,
                (Item::Text(text), builder) if !matches!(builder, Builder::List(_)) => self.item.push(text)?,
                _ => return Err(format!("the array has another number of dimensions than {ty}")),
            }
            self.count = self.count.checked_add(1).ok_or("the arrays have too many elements")?;
        }
        self.ends.push(self.count);
        self.valid.append_non_null();
        Ok(())
    }

    fn finish(&mut self) -> ListArray {
        let item = std::mem::replace(&mut *self.item, TextColumn::new(ColumnType::Bool));
        let values = item.finish();
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let ends = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.ends)));
        ListArray::new(field, ends, values, self.valid.finish())
    }
}

/// A JSON list as the items of an array; objects stay documents.
fn items_of(node: &Node, text: &str) -> Item {
    match &node.value {
        Value::Null => Item::Null,
        Value::Text(text) => Item::Text(text.clone()),
        Value::Array(nodes) => Item::List(nodes.iter().map(|node| items_of(node, text)).collect()),
        _ => Item::Text(text[node.place.clone()].to_owned()),
    }
}

/// What a column of one of the types that are kept as text keeps.
fn read_text(text: &str, ty: ColumnType) -> Result<Cow<'_, str>, String> {
    let because = |reason: String| format!("{}: {reason}", not_a(text, ty));
    match ty {
        ColumnType::Uuid => uuid::canonical(text).map(Cow::Owned).ok_or_else(|| not_a(text, ty)),
        ColumnType::Json => json::parse(text).map(|_| Cow::Borrowed(text)).map_err(because),
        ColumnType::Jsonb => json::normal(text).map(Cow::Owned).map_err(because),
        _ => check_length(text, ty).map(|()| Cow::Borrowed(text)),
    }
}

/// Microseconds since 1970: a zone in the text counts for TIMESTAMPTZ, which is UTC without one; TIMESTAMP has none.
fn read_timestamp(text: &str, ty: ColumnType) -> Option<i64> {
    let (micros, zone) = moment::parse_timestamp(text)?;
    match zone {
        Some(offset) if ty == ColumnType::TimestampTz => micros.checked_sub(offset * moment::MICROS_PER_SECOND),
        _ => Some(micros),
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
    if let Some(whole) = plain::integer(text)
        && let Ok(whole) = T::try_from(i128::from(whole))
    {
        return Ok(whole);
    }
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
    let value: f64 = float::parse(text).ok_or_else(|| not_a(text, ColumnType::Float64))?;
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
    let value: f32 = float::parse(text).ok_or_else(|| not_a(text, ColumnType::Float32))?;
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
    if let Some(value) = usize::try_from(scale)
        .ok()
        .and_then(|scale| plain::decimal(text, scale))
        && u128::from(value.unsigned_abs()) < 10_u128.pow(u32::from(precision))
    {
        return Ok(value.into());
    }
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

/// Hexadecimal digits behind `\x`, with blanks between bytes; or the older form, in which a backslash stands before
/// three octal digits or another backslash.
fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let Some(hex) = text.strip_prefix("\\x").or_else(|| text.strip_prefix("\\X")) else {
        return parse_escaped_bytes(text);
    };
    // Other databases write `\x` before each byte.
    let pieces = hex.split("\\x").map(parse_hex);
    Some(pieces.collect::<Option<Vec<_>>>()?.concat())
}

/// Pairs of digits, between which blanks may stand.
pub(crate) fn parse_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// The older form of bytes: `\101` is a byte, `\\` a backslash.
pub(crate) fn parse_escaped_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', more @ ..] => {
                bytes.push(b'\\');
                rest = more;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = more;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// Writes the values of one array as PostgreSQL's text of them.
pub struct TextWriter<'a> {
    array: &'a dyn Array,
    form: Form<'a>,
}

enum Form<'a> {
    /// Booleans, integers, NUMERIC, text, and what no column can hold.
    Display(Box<ArrayFormatter<'a>>),
    Bytes,
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Date(&'a Date32Array),
    /// Parts of a second since midnight, and how many nanoseconds each is.
    Time(Int64Array, i64),
    /// Parts of a second since 1970, how many there are in a second, and the zone as it is shown.
    Timestamp(Int64Array, i64, &'static str),
    Interval(IntervalMonthDayNanoArray),
    /// Parts of a second, and how many nanoseconds each is.
    Duration(Int64Array, i64),
    List(&'a ListArray, Box<TextWriter<'a>>),
}

const FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

const NANOS_PER_DAY: i64 = interval::NANOS_PER_DAY;

const fn parts_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

impl<'a> TextWriter<'a> {
    /// Prepares the values of `array`.
    ///
    /// # Errors
    /// A type that has no text form.
    pub fn new(array: &'a dyn Array) -> Result<Self, EngineError> {
        let whole = |array: &dyn Array| Ok::<_, ArrowError>(cast(array, &DataType::Int64)?.as_primitive().clone());
        let form = match array.data_type() {
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary => Form::Bytes,
            DataType::Float32 => Form::Float32(array.as_primitive()),
            DataType::Float64 => Form::Float64(array.as_primitive()),
            DataType::Date32 => Form::Date(array.as_primitive()),
            DataType::Time32(unit) => {
                let narrow = cast(array, &DataType::Int32)?;
                Form::Time(
                    whole(narrow.as_ref())?,
                    interval::NANOS_PER_SECOND / parts_per_second(*unit),
                )
            }
            DataType::Time64(unit) => Form::Time(whole(array)?, interval::NANOS_PER_SECOND / parts_per_second(*unit)),
            DataType::Timestamp(unit, zone) => {
                let shown = if zone.is_some() { "+00" } else { "" };
                Form::Timestamp(whole(array)?, parts_per_second(*unit), shown)
            }
            DataType::Interval(_) => {
                let wide = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
                Form::Interval(wide.as_primitive().clone())
            }
            DataType::Duration(unit) => {
                Form::Duration(whole(array)?, interval::NANOS_PER_SECOND / parts_per_second(*unit))
            }
            DataType::List(_) => {
                let list: &ListArray = array.as_list();
                Form::List(list, Box::new(TextWriter::new(list.values().as_ref())?))
            }
            _ => Form::Display(Box::new(ArrayFormatter::try_new(array, &FORMAT)?)),
        };
        Ok(Self { array, form })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || *self.array.data_type() == DataType::Null
    }

    /// The value of `row`, or `None` for NULL.
    pub fn value(&self, row: usize) -> Option<String> {
        if self.is_null(row) {
            return None;
        }
        let mut out = String::new();
        self.write(row, &mut out);
        Some(out)
    }

    /// Appends the value of `row`, which is not NULL.
    pub fn write(&self, row: usize, out: &mut String) {
        match &self.form {
            Form::Display(formatter) => {
                // A value that cannot be shown is shown as nothing: none of the stored types has such values.
                let _ = write!(out, "{}", formatter.value(row));
            }
            Form::Bytes => {
                out.push_str("\\x");
                out.push_str(&hex(bytes_at(self.array, row).unwrap_or_default()));
            }
            Form::Float32(array) => float::write_f32(array.value(row), out),
            Form::Float64(array) => float::write_f64(array.value(row), out),
            Form::Date(array) => moment::write_date(array.value(row), out),
            Form::Time(array, nanos) => moment::write_time(array.value(row) * nanos, out),
            Form::Timestamp(array, per_second, zone) => {
                let parts = array.value(row);
                let per_day = per_second * 86_400;
                let nanos = parts.rem_euclid(per_day) * (interval::NANOS_PER_SECOND / per_second);
                moment::write_timestamp(parts.div_euclid(per_day), nanos, zone, out);
            }
            Form::Interval(array) => interval::write(array.value(row), out),
            Form::Duration(array, nanos) => {
                let total = i128::from(array.value(row)) * i128::from(*nanos);
                let days = (total / i128::from(NANOS_PER_DAY)) as i32;
                let rest = (total % i128::from(NANOS_PER_DAY)) as i64;
                interval::write(IntervalMonthDayNano::new(0, days, rest), out);
            }
            Form::List(list, items) => write_list(list, items, row, out),
        }
    }
}

impl TextWriter<'_> {
    /// Appends the value of `row` as JSON: numbers that JSON knows and booleans bare, arrays as lists, documents as they
    /// are, NULL as `null`, and everything else as a string.
    pub(crate) fn write_json(&self, row: usize, is_document: bool, out: &mut String) {
        if self.is_null(row) {
            out.push_str("null");
            return;
        }
        if let Form::List(list, items) = &self.form {
            out.push('[');
            let (from, to) = (
                list.value_offsets()[row] as usize,
                list.value_offsets()[row + 1] as usize,
            );
            for at in from..to {
                if at > from {
                    out.push(',');
                }
                items.write_json(at, is_document, out);
            }
            out.push(']');
            return;
        }
        let start = out.len();
        self.write(row, out);
        let is_bare = match &self.form {
            Form::Float32(array) => array.value(row).is_finite(),
            Form::Float64(array) => array.value(row).is_finite(),
            _ => is_document || self.array.data_type().is_numeric() || *self.array.data_type() == DataType::Boolean,
        };
        if !is_bare {
            let text = out.split_off(start);
            json::write_text(&text, out);
        }
    }
}

/// Whether the values of a column, or of its arrays, are JSON documents.
pub(crate) fn holds_documents(field: &Field) -> bool {
    let is_document = |ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb);
    match ColumnType::from_field(field) {
        Some(ColumnType::Array { element, .. }) => is_document(element.into()),
        Some(ty) => is_document(ty),
        None => false,
    }
}

fn write_list(list: &ListArray, items: &TextWriter<'_>, row: usize, out: &mut String) {
    out.push('{');
    let (from, to) = (
        list.value_offsets()[row] as usize,
        list.value_offsets()[row + 1] as usize,
    );
    for at in from..to {
        if at > from {
            out.push(',');
        }
        match items.value(at) {
            None => out.push_str("NULL"),
            Some(text) if matches!(items.form, Form::List(..)) => out.push_str(&text),
            Some(text) => array::write_element(&text, out),
        }
    }
    out.push('}');
}

fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
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
                "2024-02-29 12:00:00.25",
            ),
            (
                ColumnType::TimestampTz,
                "2024-02-29T12:00:00+02:00",
                "2024-02-29 10:00:00+00",
            ),
            (ColumnType::Bytes, "\\x00ff", "\\x00ff"),
            (ColumnType::Bytes, "\\xAA\\xffe0", "\\xaaffe0"),
            (ColumnType::Bool, "yes", "true"),
            (ColumnType::Bytes, "a\\\\b\\001", "\\x615c6201"),
            (
                ColumnType::Timestamp,
                "2024-02-29 12:00:00+02:00",
                "2024-02-29 12:00:00",
            ),
            (
                ColumnType::Interval,
                "1 year 2 months 3 days 04:05:06",
                "1 year 2 mons 3 days 04:05:06",
            ),
            (ColumnType::Json, "{ \"a\":1 }", "{ \"a\":1 }"),
            (ColumnType::Jsonb, "{ \"a\":1 }", "{\"a\": 1}"),
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
            (ColumnType::Bytes, "\\xaa\\xa", "is not a value"),
            (ColumnType::Bytes, "\\9", "is not a value"),
            (ColumnType::Uuid, "x", "is not a value"),
            (ColumnType::Jsonb, "{", "ends too early"),
            (ColumnType::Interval, "5 parsecs", "is not a value"),
            (ColumnType::Bytes, "\\xé1", "is not a value"),
            (ColumnType::Varchar(2), "abc", "too long"),
        ] {
            let error = read(ty, text).expect_err(text);
            assert!(error.contains(reason), "{text} as {ty}: {error}");
        }
    }
}
