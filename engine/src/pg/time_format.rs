//! The patterns of `to_char`, `to_date` and `to_timestamp`.

use std::fmt::Write as _;

use arrow::datatypes::IntervalMonthDayNano;

use crate::value::moment::{self, MICROS_PER_DAY, MICROS_PER_SECOND};

/// Patterns, longer ones before those that they start with.
const PATTERNS: [&str; 50] = [
    "HH24", "HH12", "YYYY", "IYYY", "Y,YYY", "MONTH", "Month", "month", "A.M.", "P.M.", "a.m.", "p.m.", "SSSSS",
    "SSSS", "YYY", "IDDD", "DDD", "DAY", "Day", "day", "MON", "Mon", "mon", "YY", "HH", "MI", "MM", "MS", "US", "SS",
    "DD", "DY", "Dy", "dy", "ID", "IW", "WW", "AM", "PM", "am", "pm", "CC", "TZ", "tz", "OF", "BC", "AD", "Q", "J",
    "Y",
];

enum Token<'a> {
    Pattern {
        name: &'static str,
        /// No blanks or zeros to fill.
        is_bare: bool,
        /// `TH` or `th` behind it.
        ordinal: Option<bool>,
    },
    Plain(&'a str),
}

fn tokens(format: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = format;
    let mut is_bare = false;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            is_bare = true;
            rest = after;
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            tokens.push(Token::Plain(inside));
            rest = after;
            continue;
        }
        let names_case = |name: &str| name.bytes().any(|byte| byte.is_ascii_lowercase());
        // Only names of months and days, and the halves of a day, show the case of their pattern.
        let shows_case = |name: &str| {
            matches!(
                name.to_ascii_uppercase().as_str(),
                "MONTH" | "MON" | "DAY" | "DY" | "AM" | "PM" | "A.M." | "P.M." | "TZ"
            )
        };
        let found = PATTERNS.iter().chain(&["D", "W"]).find(|name| {
            let head = rest.get(..name.len());
            head.is_some_and(|head| {
                let is_like = head.eq_ignore_ascii_case(name);
                if shows_case(name) {
                    head == **name || (is_like && !names_case(name) && !PATTERNS.contains(&head))
                } else {
                    is_like
                }
            })
        });
        let Some(name) = found else {
            let (plain, after) = rest.split_at(first.len_utf8());
            tokens.push(Token::Plain(plain));
            rest = after;
            continue;
        };
        rest = &rest[name.len()..];
        let ordinal = ["TH", "th"].iter().position(|suffix| rest.starts_with(suffix));
        rest = if ordinal.is_some() { &rest[2..] } else { rest };
        tokens.push(Token::Pattern {
            name,
            is_bare,
            ordinal: ordinal.map(|at| at == 0),
        });
        is_bare = false;
    }
    tokens
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A timestamp, given in microseconds since 1970.
/// Patterns that are not known stand for themselves.
pub(super) fn write(micros: i64, has_zone: bool, format: &str) -> String {
    let days = micros.div_euclid(MICROS_PER_DAY);
    let (year, month, day) = moment::civil_from_days(days);
    let weekday = (days + 4).rem_euclid(7);
    let first = moment::days_from_civil(year, 1, 1).map_or(days, i64::from);
    let calendar = Calendar {
        year,
        month: i64::from(month),
        day: i64::from(day),
        weekday,
        day_of_year: days - first + 1,
        days,
        has_zone,
    };
    let mut out = String::new();
    for token in tokens(format) {
        match token {
            Token::Plain(text) => out.push_str(text),
            Token::Pattern { name, is_bare, ordinal } => {
                let start = out.len();
                if !calendar.write(name, is_bare, &mut out) {
                    write_clock(name, is_bare, micros.rem_euclid(MICROS_PER_DAY), &mut out);
                }
                write_ordinal(ordinal, start, &mut out);
            }
        }
    }
    out
}

fn write_ordinal(ordinal: Option<bool>, start: usize, out: &mut String) {
    let Some(is_upper) = ordinal else { return };
    let number: u64 = out[start..].trim().parse().unwrap_or(0);
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    out.push_str(&if is_upper {
        suffix.to_uppercase()
    } else {
        suffix.to_owned()
    });
}

struct Calendar {
    year: i64,
    month: i64,
    day: i64,
    /// From Sunday, 0.
    weekday: i64,
    day_of_year: i64,
    days: i64,
    has_zone: bool,
}

fn number(value: i64, width: usize, is_bare: bool, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = if is_bare {
        write!(out, "{value}")
    } else {
        write!(out, "{value:0width$}")
    };
}

/// A name in the case of its pattern, filled with blanks to nine characters.
fn name(name: &str, pattern: &str, is_bare: bool, out: &mut String) {
    let is_upper = pattern.chars().nth(1).is_some_and(char::is_uppercase);
    let cased = match (is_upper, pattern.starts_with(char::is_uppercase)) {
        (true, _) => name.to_uppercase(),
        (false, true) => name.to_owned(),
        (false, false) => name.to_lowercase(),
    };
    let _ = if is_bare || pattern.len() < 3 || pattern.eq_ignore_ascii_case("mon") {
        write!(out, "{cased}")
    } else {
        write!(out, "{cased:<9}")
    };
}

impl Calendar {
    /// Writes a part of the date; false if the pattern is none.
    fn write(&self, pattern: &str, is_bare: bool, out: &mut String) -> bool {
        let (iso_year, iso_week) = self.iso_week();
        let shown = if self.year > 0 { self.year } else { 1 - self.year };
        match pattern {
            "YYYY" => number(shown, 4, is_bare, out),
            "YYY" => number(shown % 1000, 3, is_bare, out),
            "YY" => number(shown % 100, 2, is_bare, out),
            "Y" => number(shown % 10, 1, is_bare, out),
            "Y,YYY" => {
                let _ = write!(out, "{},{:03}", shown / 1000, shown % 1000);
            }
            "IYYY" => number(iso_year, 4, is_bare, out),
            "IW" => number(iso_week, 2, is_bare, out),
            "MM" => number(self.month, 2, is_bare, out),
            "DD" => number(self.day, 2, is_bare, out),
            "DDD" => number(self.day_of_year, 3, is_bare, out),
            "D" => number(self.weekday + 1, 1, is_bare, out),
            "ID" => number((self.weekday + 6) % 7 + 1, 1, is_bare, out),
            "WW" => number((self.day_of_year - 1) / 7 + 1, 2, is_bare, out),
            "W" => number((self.day - 1) / 7 + 1, 1, is_bare, out),
            "Q" => number((self.month - 1) / 3 + 1, 1, is_bare, out),
            "CC" => number((shown + 99) / 100, 2, is_bare, out),
            "J" => number(self.days + 2_440_588, 1, is_bare, out),
            "MONTH" | "Month" | "month" => name(MONTHS[self.month as usize - 1], pattern, is_bare, out),
            "MON" | "Mon" | "mon" => name(&MONTHS[self.month as usize - 1][..3], pattern, is_bare, out),
            "DAY" | "Day" | "day" => {
                // `Day` has three letters as `Mon` has, and is filled.
                let start = out.len();
                name(DAYS[self.weekday as usize], pattern, true, out);
                let blanks = if is_bare {
                    0
                } else {
                    9_usize.saturating_sub(out.len() - start)
                };
                out.extend(std::iter::repeat_n(' ', blanks));
            }
            "DY" | "Dy" | "dy" => name(&DAYS[self.weekday as usize][..3], pattern, is_bare, out),
            "BC" | "AD" => out.push_str(if self.year > 0 { "AD" } else { "BC" }),
            "TZ" => out.push_str(if self.has_zone { "UTC" } else { "" }),
            "tz" => out.push_str(if self.has_zone { "utc" } else { "" }),
            "OF" => out.push_str(if self.has_zone { "+00" } else { "" }),
            _ => return false,
        }
        true
    }

    /// Year and week by ISO 8601: a week belongs to the year of its Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days - (self.weekday + 6) % 7 + 3;
        let (year, ..) = moment::civil_from_days(thursday);
        let first = moment::days_from_civil(year, 1, 1).map_or(thursday, i64::from);
        (year, (thursday - first) / 7 + 1)
    }
}

fn write_clock(pattern: &str, is_bare: bool, micros: i64, out: &mut String) {
    let seconds = micros / MICROS_PER_SECOND;
    let hours = seconds / 3600;
    match pattern {
        "HH24" => number(hours, 2, is_bare, out),
        "HH12" | "HH" => number((hours + 11) % 12 + 1, 2, is_bare, out),
        "MI" => number(seconds / 60 % 60, 2, is_bare, out),
        "SS" => number(seconds % 60, 2, is_bare, out),
        "MS" => number(micros % MICROS_PER_SECOND / 1000, 3, is_bare, out),
        "US" => number(micros % MICROS_PER_SECOND, 6, is_bare, out),
        "SSSS" | "SSSSS" => number(seconds, 1, is_bare, out),
        "AM" | "PM" => out.push_str(if hours < 12 { "AM" } else { "PM" }),
        "am" | "pm" => out.push_str(if hours < 12 { "am" } else { "pm" }),
        "A.M." | "P.M." => out.push_str(if hours < 12 { "A.M." } else { "P.M." }),
        "a.m." | "p.m." => out.push_str(if hours < 12 { "a.m." } else { "p.m." }),
        _ => {}
    }
}

/// An interval: its parts as they are.
pub(super) fn write_interval(span: IntervalMonthDayNano, format: &str) -> String {
    let mut out = String::new();
    let micros = span.nanoseconds / 1000;
    let hours = micros / 3600 / MICROS_PER_SECOND;
    for token in tokens(format) {
        match token {
            Token::Plain(text) => out.push_str(text),
            Token::Pattern { name, is_bare, .. } => match name {
                "YYYY" => number(i64::from(span.months / 12), 4, is_bare, &mut out),
                "MM" => number(i64::from(span.months % 12), 2, is_bare, &mut out),
                "DD" => number(i64::from(span.days), 2, is_bare, &mut out),
                "HH24" => number(hours, 2, is_bare, &mut out),
                other => write_clock(other, is_bare, micros.rem_euclid(MICROS_PER_DAY), &mut out),
            },
        }
    }
    out
}

/// Reads a text by a format: microseconds since 1970.
///
/// # Errors
/// What does not go with the format.
pub(super) fn parse(text: &str, format: &str) -> Result<i64, String> {
    let mut parts = Parts::default();
    let mut rest = text.trim_start();
    for token in tokens(format) {
        match token {
            Token::Plain(plain) => {
                let is_separator = plain.chars().all(|c| !c.is_alphanumeric());
                match rest.strip_prefix(plain) {
                    Some(after) => rest = after,
                    // Any separator stands for any other, also for none.
                    None if is_separator => {
                        let next = rest.chars().next();
                        if let Some(next) = next.filter(|c| !c.is_alphanumeric() && *c != '-' && *c != '+') {
                            rest = &rest[next.len_utf8()..];
                        }
                    }
                    None => rest = rest.get(plain.len()..).unwrap_or(""),
                }
            }
            Token::Pattern { name, ordinal, .. } => {
                rest = parts.take(name, rest.trim_start())?;
                rest = if ordinal.is_some() {
                    rest.get(2..).unwrap_or("")
                } else {
                    rest
                };
            }
        }
    }
    parts
        .micros()
        .ok_or_else(|| format!("`{text}` is not a date by the format `{format}`"))
}

struct Parts {
    year: i64,
    month: u32,
    day: u32,
    day_of_year: Option<i64>,
    clock: i64,
    hours: i64,
    half: Option<i64>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            year: 1,
            month: 1,
            day: 1,
            day_of_year: None,
            clock: 0,
            hours: 0,
            half: None,
        }
    }
}

/// Up to `width` digits, and what follows them.
fn digits(text: &str, width: usize) -> Result<(i64, &str), String> {
    let count = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
    match text[..count].parse() {
        Ok(number) => Ok((number, &text[count..])),
        Err(_) => Err(format!("`{text}` starts with no number")),
    }
}

fn named<'a>(text: &'a str, names: &[&str], is_short: bool) -> Result<(usize, &'a str), String> {
    for (at, name) in names.iter().enumerate() {
        let name = if is_short { &name[..3] } else { name };
        if text
            .get(..name.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(name))
        {
            return Ok((at, &text[name.len()..]));
        }
    }
    Err(format!("`{text}` starts with no name of a month or day"))
}

impl Parts {
    fn take<'a>(&mut self, pattern: &str, text: &'a str) -> Result<&'a str, String> {
        let number = |width: usize| digits(text, width);
        let (value, rest) = match pattern {
            "YYYY" | "IYYY" => number(4)?,
            "YYY" | "DDD" | "MS" => number(3)?,
            "YY" | "MM" | "DD" | "HH24" | "HH12" | "HH" | "MI" | "SS" => number(2)?,
            "US" => number(6)?,
            "SSSS" | "SSSSS" => number(5)?,
            "MONTH" | "Month" | "month" | "MON" | "Mon" | "mon" => {
                let (at, rest) = named(text, &MONTHS, pattern.len() == 3)?;
                (at as i64 + 1, rest)
            }
            "DAY" | "Day" | "day" | "DY" | "Dy" | "dy" => {
                let (_, rest) = named(text, &DAYS, pattern.len() == 2)?;
                (0, rest)
            }
            "AM" | "PM" | "am" | "pm" => half(text, 2)?,
            "A.M." | "P.M." | "a.m." | "p.m." => half(text, 4)?,
            other => return Err(format!("`{other}` is not read by to_date and to_timestamp here")),
        };
        let read = text.len() - rest.len();
        match pattern {
            "YYYY" | "IYYY" => self.year = value,
            "YYY" => self.year = if value < 520 { 2000 } else { 1000 } + value,
            "YY" => self.year = if value < 70 { 2000 } else { 1900 } + value,
            "MM" | "MONTH" | "Month" | "month" | "MON" | "Mon" | "mon" => self.month = value as u32,
            "DD" => self.day = value as u32,
            "DDD" => self.day_of_year = Some(value),
            "HH24" | "HH12" | "HH" if value < 24 => self.hours = value,
            "MI" if value < 60 => self.clock += value * 60 * MICROS_PER_SECOND,
            "SS" if value < 60 => self.clock += value * MICROS_PER_SECOND,
            // A fraction: `5` is half a second.
            "MS" => self.clock += value * 1000 * 10_i64.pow(3 - read as u32),
            "US" => self.clock += value * 10_i64.pow(6 - read as u32),
            "SSSS" | "SSSSS" => self.clock += value * MICROS_PER_SECOND,
            "HH24" | "HH12" | "HH" | "MI" | "SS" => return Err(format!("{value} is out of range for {pattern}")),
            "AM" | "PM" | "am" | "pm" | "A.M." | "P.M." | "a.m." | "p.m." => self.half = Some(value),
            _ => {}
        }
        Ok(rest)
    }

    fn micros(&self) -> Option<i64> {
        let days = match self.day_of_year {
            Some(day) => i64::from(moment::days_from_civil(self.year, 1, 1)?) + day - 1,
            None => i64::from(moment::days_from_civil(self.year, self.month, self.day)?),
        };
        let hours = match self.half {
            Some(half) => self.hours % 12 + half,
            None => self.hours,
        };
        Some(days * MICROS_PER_DAY + hours * 3600 * MICROS_PER_SECOND + self.clock)
    }
}

/// Hours to add for AM or PM.
fn half(text: &str, width: usize) -> Result<(i64, &str), String> {
    match text.bytes().next().map(|byte| byte.to_ascii_lowercase()) {
        Some(b'a') => Ok((0, text.get(width..).unwrap_or(""))),
        Some(b'p') => Ok((12, text.get(width..).unwrap_or(""))),
        _ => Err(format!("`{text}` starts with neither AM nor PM")),
    }
}

/// A number by a pattern of `9`, `0`, `.`, `,`, `D`, `G`, `S`, `MI` and `FM`.
///
/// # Errors
/// A pattern that is not known.
pub(super) fn write_number(value: i128, scale: i8, format: &str) -> Result<String, String> {
    let (is_bare, format) = match format.strip_prefix("FM").or_else(|| format.strip_prefix("fm")) {
        Some(format) => (true, format),
        None => (false, format),
    };
    let (whole_format, decimal_format) = match format.find(['.', 'D']) {
        Some(at) => (&format[..at], Some(&format[at + 1..])),
        None => (format, None),
    };
    let decimals = decimal_format.map_or(0, |part| part.bytes().filter(|b| matches!(b, b'9' | b'0')).count());
    let digits = rescaled(value, scale, decimals).ok_or("the number is too long for the pattern")?;
    let places = whole_format.bytes().filter(|b| matches!(b, b'9' | b'0')).count();
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = decimals + 1);
    let (whole, fraction) = text.split_at(text.len() - decimals);
    let whole = if whole == "0" && places > 0 && decimals > 0 && !whole_format.contains('0') {
        ""
    } else {
        whole
    };
    let is_negative = digits < 0;
    let overflows = whole.len() > places;
    let mut out = write_whole(whole_format, whole, places, overflows)?;
    let signed = ["S", "MI"].iter().any(|sign| format.contains(sign));
    if let Some(part) = decimal_format {
        out.push('.');
        write_fraction(part, fraction, is_bare, overflows, &mut out)?;
    }
    let sign = if is_negative {
        "-"
    } else if signed && format.contains('S') {
        "+"
    } else {
        " "
    };
    let lead = out.len() - out.trim_start().len();
    if format.ends_with('S') || format.ends_with("MI") {
        out.push_str(if is_negative || format.ends_with('S') {
            sign
        } else {
            " "
        });
    } else {
        out.insert_str(lead, sign);
    }
    Ok(if is_bare { out.trim().to_owned() } else { out })
}

/// The value with another number of decimals, halves away from zero.
fn rescaled(value: i128, scale: i8, decimals: usize) -> Option<i128> {
    let shift = decimals as i64 - i64::from(scale);
    let factor = 10_i128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    if shift >= 0 {
        return value.checked_mul(factor);
    }
    let (quotient, rest) = (value / factor, value % factor);
    Some(quotient + if rest.abs() * 2 >= factor { value.signum() } else { 0 })
}

fn write_whole(format: &str, whole: &str, places: usize, overflows: bool) -> Result<String, String> {
    let mut out = String::new();
    let padded = format!("{whole:>places$}");
    let mut digits = padded.chars();
    let mut started = false;
    let mut from_zero = false;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '9' | '0' => {
                let digit = digits.next().unwrap_or(' ');
                from_zero |= character == '0';
                match digit {
                    _ if overflows => out.push('#'),
                    ' ' if from_zero => out.push('0'),
                    digit => out.push(digit),
                }
                started |= digit != ' ' || from_zero;
            }
            ',' | 'G' => out.push(if started || overflows { ',' } else { ' ' }),
            'S' => {}
            'M' if characters.next_if_eq(&'I').is_some() => {}
            ' ' => out.push(' '),
            other => return Err(format!("`{other}` is not a pattern of numbers here")),
        }
    }
    Ok(out)
}

fn write_fraction(format: &str, digits: &str, is_bare: bool, overflows: bool, out: &mut String) -> Result<(), String> {
    let start = out.len();
    let mut digits = digits.chars();
    let mut kept = start;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '9' | '0' => {
                let digit = digits.next().unwrap_or('0');
                out.push(if overflows { '#' } else { digit });
                if digit != '0' || character == '0' {
                    kept = out.len();
                }
            }
            'S' => {}
            'M' if characters.next_if_eq(&'I').is_some() => {}
            other => return Err(format!("`{other}` is not a pattern of numbers here")),
        }
    }
    // Without filling, zeros at the end go that the pattern does not ask for.
    if is_bare {
        out.truncate(kept);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_by_patterns() {
        let (micros, _) = moment::parse_timestamp("2024-02-09 17:05:06.789012").expect("reads");
        for (format, expected) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-02-09 17:05:06"),
            ("DD Mon YYYY", "09 Feb 2024"),
            ("FMMonth FMDDth", "February 9th"),
            ("Day, DD", "Friday   , 09"),
            ("HH12:MI AM", "05:05 PM"),
            ("HH:MI a.m.", "05:05 p.m."),
            ("MS US", "789 789012"),
            ("YY Q IW DDD D", "24 1 06 040 6"),
            ("\"year\" YYYY", "year 2024"),
        ] {
            assert_eq!(write(micros, false, format), expected, "{format}");
        }
    }

    #[test]
    fn texts_are_read_by_patterns() {
        for (text, format, expected) in [
            ("09 Feb 2024", "DD Mon YYYY", "2024-02-09 00:00:00"),
            ("20240209", "YYYYMMDD", "2024-02-09 00:00:00"),
            ("2024-02-09 05:06 PM", "YYYY-MM-DD HH12:MI AM", "2024-02-09 17:06:00"),
            ("09/02/24", "DD/MM/YY", "2024-02-09 00:00:00"),
        ] {
            let (expected, _) = moment::parse_timestamp(expected).expect("reads");
            assert_eq!(parse(text, format), Ok(expected), "{text}");
        }
        assert!(parse("2024-02-30", "YYYY-MM-DD").is_err());
        assert!(parse("x", "YYYY").is_err());
    }

    #[test]
    fn numbers_are_written_by_patterns() {
        for (value, scale, format, expected) in [
            (1_234_567, 2, "999,999.99", "  12,345.67"),
            (125, 0, "999", " 125"),
            (-125, 0, "999", "-125"),
            (5, 1, "0.99", " 0.50"),
            (12, 0, "00000", " 00012"),
            (1_485, 1, "FM999.009", "148.50"),
            (1_234, 0, "999", " ###"),
            (-48, 0, "99MI", "48-"),
        ] {
            assert_eq!(
                write_number(value, scale, format).as_deref(),
                Ok(expected),
                "{value} {format}"
            );
        }
    }
}
