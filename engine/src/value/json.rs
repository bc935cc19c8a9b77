//! JSON and JSONB documents. Both are kept as text: JSON as it was given, JSONB in PostgreSQL's normal form, which puts
//! keys in order of length and then of bytes, keeps the last of equal keys, and puts one blank behind `:` and `,`.
//! A part of a normal form is itself one.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::ops::Range;

/// Objects and arrays inside each other.
const DEPTH_MAX: usize = 512;

/// One value of a document, and where it stands in the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    Array(Vec<Node>),
    /// In the order in which it was written, equal keys included.
    Object(Vec<(String, Node)>),
}

/// Reads a document.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.unexpected());
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> String {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => format!("`{found}` at character {}", self.text[..self.at].chars().count() + 1),
            None => "it ends too early".to_owned(),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        self.blanks();
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} deep"));
        }
        self.blanks();
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::Text(self.text()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(Node {
            value,
            place: start..self.at,
        })
    }

    fn word(&mut self) -> Result<Value, String> {
        for (word, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected())
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.unexpected())
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<String, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.unexpected());
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn text(&mut self) -> Result<String, String> {
        let start = self.at;
        self.at += 1;
        let mut is_escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    self.at += 2;
                }
                Some(0..=0x1f) => return Err("a control character stands inside a string".into()),
                Some(_) => self.at += 1,
                None => return Err("a closing `\"` is missing".into()),
            }
        }
        self.at += 1;
        if is_escaped {
            // Escapes, surrogates included, are serde_json's business.
            let quoted = self.text.get(start..self.at).ok_or("a string is broken off")?;
            serde_json::from_str(quoted).map_err(|_| "a string has an escape that is none".to_owned())
        } else {
            Ok(self.text[start + 1..self.at - 1].to_owned())
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut fields = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(fields));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.text()?;
            self.expect(b':')?;
            fields.push((key, self.value(depth + 1)?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(fields));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }
}

/// The normal form of JSONB.
///
/// # Errors
/// What is wrong with the document.
pub(crate) fn normal(text: &str) -> Result<String, String> {
    let node = parse(text)?;
    let mut out = String::with_capacity(text.len());
    node.write(&mut out);
    Ok(out)
}

impl Node {
    /// A value that stands nowhere yet.
    pub(crate) fn new(value: Value) -> Self {
        Self { value, place: 0..0 }
    }

    /// Appends the normal form.
    pub(crate) fn write(&self, out: &mut String) {
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(digits) => out.push_str(&plain_number(digits)),
            Value::Text(text) => write_text(text, out),
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Value::Object(fields) => {
                out.push('{');
                for (at, (key, value)) in in_order(fields).into_iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    write_text(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The normal form by itself.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// The member of an object, the last one of equal keys.
    pub(crate) fn field(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Object(fields) => fields
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The element of an array; negative numbers count from the end.
    pub(crate) fn element(&self, at: i64) -> Option<&Node> {
        match &self.value {
            Value::Array(items) => items.get(array_at(items.len(), at)?),
            _ => None,
        }
    }

    /// Follows keys and numbers of elements.
    pub(crate) fn path<'a>(&'a self, steps: impl IntoIterator<Item = &'a str>) -> Option<&'a Node> {
        steps.into_iter().try_fold(self, |node, step| match &node.value {
            Value::Array(_) => node.element(step.trim().parse().ok()?),
            _ => node.field(step),
        })
    }

    /// As `->>` shows it: strings without quotes, SQL's NULL for `null`.
    pub(crate) fn shown(&self, text: &str) -> Option<String> {
        match &self.value {
            Value::Null => None,
            Value::Text(text) => Some(text.clone()),
            _ => Some(text[self.place.clone()].to_owned()),
        }
    }

    /// The kind of value, as `jsonb_typeof` names it.
    pub(crate) const fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// JSONB's order: by kind (null, string, number, boolean, array, object), then by value; arrays and objects first by
    /// their number of elements.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let rank = |node: &Self| match &node.value {
            Value::Null => 0,
            Value::Text(_) => 1,
            Value::Number(_) => 2,
            Value::Bool(_) => 3,
            Value::Array(_) => 4,
            Value::Object(_) => 5,
        };
        match (&self.value, &other.value) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
            (Value::Array(a), Value::Array(b)) => {
                let pairs = a.iter().zip(b).map(|(a, b)| a.compare(b));
                a.len().cmp(&b.len()).then_with(|| first_difference(pairs))
            }
            (Value::Object(a), Value::Object(b)) => {
                let (a, b) = (in_order(a), in_order(b));
                let pairs = a
                    .iter()
                    .zip(&b)
                    .map(|((a, x), (b, y))| key_order(a, b).then_with(|| x.compare(y)));
                a.len().cmp(&b.len()).then_with(|| first_difference(pairs))
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }

    /// Whether everything in `other` is in here too.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Object(_), Value::Object(wanted)) => wanted
                .iter()
                .all(|(key, value)| self.field(key).is_some_and(|found| found.contains_part(value))),
            (Value::Array(items), Value::Array(wanted)) => wanted
                .iter()
                .all(|value| items.iter().any(|item| item.contains_part(value))),
            // An array contains a primitive value that stands in it, at the top only.
            (Value::Array(items), Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
                items.iter().any(|item| item.compare(other).is_eq())
            }
            _ => self.compare(other).is_eq(),
        }
    }

    fn contains_part(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => self.contains(other),
            _ => self.compare(other).is_eq(),
        }
    }

    /// Whether a key of the object, or a string of the array, or the string itself is `key`.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        match &self.value {
            Value::Object(fields) => fields.iter().any(|(name, _)| name == key),
            Value::Array(items) => items
                .iter()
                .any(|item| matches!(&item.value, Value::Text(text) if text == key)),
            Value::Text(text) => text == key,
            _ => false,
        }
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The place of element `at` among `count`; negative numbers count from the end.
pub(crate) fn array_at(count: usize, at: i64) -> Option<usize> {
    let at = if at < 0 { at.checked_add(count as i64)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < count)
}

fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Fields in JSONB's order, the last of equal keys only.
pub(crate) fn in_order(fields: &[(String, Node)]) -> Vec<(&str, &Node)> {
    let mut sorted: Vec<(&str, &Node)> = fields.iter().map(|(key, value)| (key.as_str(), value)).collect();
    sorted.sort_by(|(a, _), (b, _)| key_order(a, b));
    let mut kept: Vec<(&str, &Node)> = Vec::with_capacity(sorted.len());
    for field in sorted {
        match kept.last_mut() {
            Some(last) if last.0 == field.0 => *last = field,
            _ => kept.push(field),
        }
    }
    kept
}

/// Sign, digits without leading zeros, and how many of them stand behind the point.
fn number_parts(text: &str) -> (bool, String, i64) {
    let (is_negative, bare) = match text.strip_prefix('-') {
        Some(bare) => (true, bare),
        None => (false, text),
    };
    let (mantissa, exponent) = bare.split_once(['e', 'E']).unwrap_or((bare, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let scale = fraction.len() as i64 - exponent;
    (is_negative, digits.trim_start_matches('0').to_owned(), scale)
}

/// Digits that are written out for an exponent; beyond, the number stays as it was written.
const PLAIN_DIGITS_MAX: i64 = 1000;

/// A number without exponent.
fn plain_number(text: &str) -> String {
    let (is_negative, mut digits, mut scale) = number_parts(text);
    if scale.abs() > PLAIN_DIGITS_MAX {
        return text.to_owned();
    }
    if scale < 0 {
        if !digits.is_empty() {
            digits.extend(std::iter::repeat_n('0', (-scale) as usize));
        }
        scale = 0;
    }
    let is_zero = digits.is_empty();
    let scale = scale as usize;
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    let mut out = String::new();
    if is_negative && !is_zero {
        out.push('-');
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.push_str(whole);
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn compare_numbers(a: &str, b: &str) -> Ordering {
    let normal = |text: &str| {
        let (is_negative, digits, scale) = number_parts(text);
        // Digits as if a point stood before them, and by which power of ten that is off.
        let power = digits.len() as i64 - scale;
        let digits = digits.trim_end_matches('0').to_owned();
        let power = if digits.is_empty() { i64::MIN } else { power };
        (is_negative && !digits.is_empty(), power, digits)
    };
    let (a, b) = (normal(a), normal(b));
    let size = a.1.cmp(&b.1).then_with(|| a.2.cmp(&b.2));
    match (a.0, b.0) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// Appends a JSON string as PostgreSQL writes it.
pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_a_normal_form() {
        for (text, expected) in [
            (
                r#" { "bb":1 , "a" : [ 1,2 ] , "bb":{"x":null} } "#,
                r#"{"a": [1, 2], "bb": {"x": null}}"#,
            ),
            ("1e3", "1000"),
            ("1.50", "1.50"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.5e-3", "0.0015"),
            ("12e1", "120"),
            (r#""\u00e9\n\"""#, r#""é\n\"""#),
            ("[]", "[]"),
            ("{}", "{}"),
            ("true", "true"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "01",
            "1.",
            "nul",
            "\"\\x\"",
            "1 2",
            "\"\\ud800\"",
            "\"a\nb\"",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn jsonb_is_compared_by_value() {
        let compare = |a: &str, b: &str| parse(a).expect(a).compare(&parse(b).expect(b));
        assert_eq!(compare("1.0", "1"), Ordering::Equal);
        assert_eq!(compare("1e2", "100.00"), Ordering::Equal);
        assert_eq!(compare("-2", "1"), Ordering::Less);
        assert_eq!(compare("9", "10"), Ordering::Less);
        assert_eq!(compare("-9", "-10"), Ordering::Greater);
        assert_eq!(compare("0.5", "0.25"), Ordering::Greater);
        assert_eq!(compare(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#), Ordering::Equal);
        assert_eq!(compare("[1,2]", "[3]"), Ordering::Greater);
        assert_eq!(compare("null", r#""a""#), Ordering::Less);
    }

    #[test]
    fn documents_contain_parts() {
        let contains = |a: &str, b: &str| parse(a).expect(a).contains(&parse(b).expect(b));
        assert!(contains(r#"{"a":{"b":1,"c":2},"d":3}"#, r#"{"a":{"c":2}}"#));
        assert!(contains("[1,[2,3]]", "[[3]]"));
        assert!(contains("[1,2,3]", "3"));
        assert!(!contains("[1,2]", "[4]"));
        assert!(!contains(r#"{"a":[1]}"#, r#"{"a":1}"#));
    }
}
