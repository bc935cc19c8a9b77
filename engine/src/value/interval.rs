//! Intervals: months, days and a time, each by itself.

use std::fmt::Write as _;

use arrow::datatypes::IntervalMonthDayNano;

use super::moment::write_time;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub(crate) const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SECOND;

/// Appends an interval as PostgreSQL prints it: `1 year 2 mons -3 days 04:05:06.7`.
pub(crate) fn write(value: IntervalMonthDayNano, out: &mut String) {
    let start = out.len();
    let mut was_negative = false;
    let mut unit = |count: i64, name: &str| {
        if count == 0 {
            return;
        }
        if out.len() > start {
            out.push(' ');
        }
        // A plus is printed where a minus came before, so that the sign does not carry over.
        let plus = if was_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(out, "{plus}{count} {name}{plural}");
        was_negative = count < 0;
    };
    unit(i64::from(value.months / 12), "year");
    unit(i64::from(value.months % 12), "mon");
    unit(i64::from(value.days), "day");
    let is_empty = out.len() == start;
    if value.nanoseconds != 0 || is_empty {
        if !is_empty {
            out.push(' ');
        }
        if value.nanoseconds < 0 {
            out.push('-');
        } else if was_negative {
            out.push('+');
        }
        write_clock(value.nanoseconds.unsigned_abs(), out);
    }
}

/// Hours are not bounded by a day; what is finer than a microsecond is left out.
fn write_clock(nanos: u64, out: &mut String) {
    // Whole microseconds below 2^63 nanoseconds fit.
    write_time((nanos / 1000 * 1000) as i64, out);
}

/// Reads what PostgreSQL reads: `1 year 2 months`, `3 days 04:05:06`, `1-2`, `P1Y2M3DT4H5M6S`, `1 day ago`, `@ 1 minute`.
/// A bare number counts seconds. `None` for other text and for intervals that are too long.
pub(crate) fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    let sum = match text.strip_prefix(['P', 'p']) {
        Some(iso) => parse_iso(iso)?,
        None => parse_words(text)?,
    };
    sum.finish()
}

/// Microseconds, since that is what is kept; everything in wide numbers until the end.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

const MICROS_PER_SECOND: i128 = 1_000_000;
const MICROS_PER_DAY: i128 = 86_400 * MICROS_PER_SECOND;

impl Sum {
    /// Adds `number` units; a fraction goes to the next smaller ones, a month having 30 days.
    fn add(&mut self, number: Fixed, unit: &str) -> Option<()> {
        let unit = unit.trim_end_matches('.').to_ascii_lowercase();
        let singular = match unit.as_str() {
            "s" | "ms" | "us" => unit.as_str(),
            other => other.strip_suffix('s').unwrap_or(other),
        };
        match singular {
            "millennium" | "millennia" | "mil" => self.add_months(number, 12_000),
            "century" | "centurie" | "cent" | "c" => self.add_months(number, 1_200),
            "decade" | "dec" => self.add_months(number, 120),
            "year" | "yr" | "y" => self.add_months(number, 12),
            "month" | "mon" => self.add_months(number, 1),
            "week" | "w" => self.add_days(number, 7),
            "day" | "d" => self.add_days(number, 1),
            "hour" | "hr" | "h" => self.add_micros(number, 3_600 * MICROS_PER_SECOND),
            "minute" | "min" | "m" => self.add_micros(number, 60 * MICROS_PER_SECOND),
            "second" | "sec" | "s" => self.add_micros(number, MICROS_PER_SECOND),
            "millisecond" | "msec" | "ms" => self.add_micros(number, 1_000),
            "microsecond" | "usec" | "us" => self.add_micros(number, 1),
            _ => None,
        }
    }

    fn add_months(&mut self, number: Fixed, months: i128) -> Option<()> {
        let scaled = number.0.checked_mul(months)?;
        self.months += scaled / FIXED_ONE;
        self.add_days(Fixed(scaled % FIXED_ONE), 30)
    }

    fn add_days(&mut self, number: Fixed, days: i128) -> Option<()> {
        let scaled = number.0.checked_mul(days)?;
        self.days += scaled / FIXED_ONE;
        self.add_micros(Fixed(scaled % FIXED_ONE), MICROS_PER_DAY)
    }

    fn add_micros(&mut self, number: Fixed, micros: i128) -> Option<()> {
        let scaled = number.0.checked_mul(micros)?;
        let half = if scaled < 0 { -FIXED_ONE / 2 } else { FIXED_ONE / 2 };
        self.micros += (scaled + half) / FIXED_ONE;
        Some(())
    }

    fn negate(&mut self) {
        self.months = -self.months;
        self.days = -self.days;
        self.micros = -self.micros;
    }

    fn finish(self) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano::new(
            self.months.try_into().ok()?,
            self.days.try_into().ok()?,
            self.micros.checked_mul(1000)?.try_into().ok()?,
        ))
    }
}

/// A decimal number in billionths of a billionth of nothing less than PostgreSQL keeps.
#[derive(Clone, Copy)]
struct Fixed(i128);

const FIXED_ONE: i128 = 1_000_000_000_000;
const FIXED_DIGITS: usize = 12;

impl Fixed {
    fn parse(text: &str) -> Option<Self> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || whole.len() > 18 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(FIXED_DIGITS)];
        let mut value: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        for at in 0..FIXED_DIGITS {
            value = value * 10 + fraction.as_bytes().get(at).map_or(0, |digit| i128::from(digit - b'0'));
        }
        Some(Self(if is_negative { -value } else { value }))
    }
}

fn parse_words(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let text = text.strip_prefix('@').unwrap_or(text);
    let mut words = text.split_whitespace().flat_map(split_unit).peekable();
    words.peek()?;
    let (mut has_part, mut is_ago) = (false, false);
    while let Some(word) = words.next() {
        if is_ago {
            return None;
        }
        if word.eq_ignore_ascii_case("ago") {
            if !has_part {
                return None;
            }
            is_ago = true;
        } else if word.contains(':') {
            sum.micros += parse_clock(word)?;
        } else if let Some((years, months)) = year_month(word) {
            sum.months += years * 12 + months;
        } else {
            let number = Fixed::parse(word)?;
            match words.peek() {
                Some(unit)
                    if !unit.eq_ignore_ascii_case("ago") && unit.starts_with(|c: char| c.is_ascii_alphabetic()) =>
                {
                    sum.add(number, unit)?;
                    words.next();
                }
                // `1 04:05:06`: days come before a time; a number at the end counts seconds.
                Some(next) if next.contains(':') => sum.add(number, "day")?,
                None => sum.add(number, "second")?,
                Some(_) => return None,
            }
        }
        has_part = true;
    }
    if is_ago {
        sum.negate();
    }
    Some(sum)
}

/// `1day` is `1` and `day`.
fn split_unit(word: &str) -> impl Iterator<Item = &str> {
    let at = word
        .find(|character: char| character.is_ascii_alphabetic())
        .filter(|at| *at > 0 && !word.contains(':'))
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(at);
    [number, unit].into_iter().filter(|part| !part.is_empty())
}

/// `-1-2`: one year and two months, back.
fn year_month(word: &str) -> Option<(i128, i128)> {
    let (sign, bare) = match word.strip_prefix('-') {
        Some(bare) => (-1, bare),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let (years, months) = bare.split_once('-')?;
    Some((
        sign * i128::from(years.parse::<u32>().ok()?),
        sign * i128::from(months.parse::<u32>().ok()?),
    ))
}

/// `[-]hours:minutes[:seconds[.fraction]]` in microseconds.
fn parse_clock(word: &str) -> Option<i128> {
    let (sign, bare) = match word.strip_prefix('-') {
        Some(bare) => (-1, bare),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = bare.split(':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok().filter(|minutes| *minutes < 60)?;
    let seconds = Fixed::parse(parts.next().unwrap_or("0"))?;
    if parts.next().is_some() || !(0..61 * FIXED_ONE).contains(&seconds.0) {
        return None;
    }
    let whole = (i128::from(hours) * 3600 + i128::from(minutes) * 60) * MICROS_PER_SECOND;
    Some(sign * (whole + (seconds.0 + 500_000) / (FIXED_ONE / MICROS_PER_SECOND)))
}

/// `1Y2M3DT4H5M6S`.
fn parse_iso(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let (days, time) = match text.split_once(['T', 't']) {
        Some((days, time)) => (days, Some(time)),
        None => (text, None),
    };
    if days.is_empty() && time.is_none_or(str::is_empty) {
        return None;
    }
    let mut fields = |mut rest: &str, is_time: bool| {
        while !rest.is_empty() {
            let at = rest.find(|character: char| character.is_ascii_alphabetic())?;
            let number = Fixed::parse(&rest[..at])?;
            let unit = match (&rest[at..=at], is_time) {
                ("Y" | "y", false) => "year",
                ("M" | "m", false) => "month",
                ("W" | "w", false) => "week",
                ("D" | "d", false) => "day",
                ("H" | "h", true) => "hour",
                ("M" | "m", true) => "minute",
                ("S" | "s", true) => "second",
                _ => return None,
            };
            sum.add(number, unit)?;
            rest = &rest[at + 1..];
        }
        Some(())
    };
    fields(days, false)?;
    fields(time.unwrap_or(""), true)?;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_printed_as_in_postgresql() {
        for (text, expected) in [
            ("1 day", "1 day"),
            ("1 year 2 months 3 days 04:05:06.7", "1 year 2 mons 3 days 04:05:06.7"),
            ("-1 day", "-1 days"),
            ("1 mon -1 day", "1 mon -1 days"),
            ("-1 mon 1 day 02:00", "-1 mons +1 day 02:00:00"),
            ("-1 day 2 hours", "-1 days +02:00:00"),
            ("90 minutes", "01:30:00"),
            ("1.5 days", "1 day 12:00:00"),
            ("0.5 month", "15 days"),
            ("1 week", "7 days"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("1-2", "1 year 2 mons"),
            ("3 04:05", "3 days 04:05:00"),
            ("30", "00:00:30"),
            ("2 days ago", "-2 days"),
            ("@ 1 minute", "00:01:00"),
            ("100 hours", "100:00:00"),
            ("0 seconds", "00:00:00"),
            ("1 decade", "10 years"),
            ("500 ms", "00:00:00.5"),
        ] {
            let value = parse(text).unwrap_or_else(|| panic!("{text}"));
            let mut printed = String::new();
            write(value, &mut printed);
            assert_eq!(printed, expected, "{text}");
        }
        for text in ["", "day", "1 foo", "1 foo 2", "P", "1:2:3:4", "ago", "1 ago day"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
