//! Dates and times as PostgreSQL reads and prints them. Calendars are proleptic Gregorian.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::interval::NANOS_PER_SECOND;
use super::zone::Zone;

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Years that are read: those of PostgreSQL's timestamps.
const YEARS: std::ops::RangeInclusive<i64> = -4712..=294_276;

/// Days since 1970-01-01 of a date; `None` if there is no such day.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

/// Year, month and day of a number of days since 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Appends a date.
pub(crate) fn write_date(days: i32, out: &mut String) {
    let (year, month, day) = civil_from_days(i64::from(days));
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    // Writing to a String cannot fail.
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}{era}");
}

/// Appends a time of day, given in nanoseconds.
pub(crate) fn write_time(nanos: i64, out: &mut String) {
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let fraction = nanos.rem_euclid(NANOS_PER_SECOND);
    if fraction > 0 {
        let digits = format!("{fraction:09}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// Appends a timestamp: days since 1970 and nanoseconds of the day. `zone` follows the time.
pub(crate) fn write_timestamp(days: i64, nanos: i64, zone: &str, out: &mut String) {
    let (year, month, day) = civil_from_days(days);
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02} ");
    write_time(nanos, out);
    out.push_str(zone);
    out.push_str(era);
}

/// Days since 1970; a time behind the date is read and left out.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let parsed = Parsed::of(text)?;
    parsed.days
}

/// Microseconds since midnight; a date before the time is left out, and so is a zone behind it.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let clock = match text.split_once([' ', 'T']) {
        Some((date, clock)) if date.contains('-') => clock,
        _ => text,
    };
    let (clock, _) = split_zone(clock)?;
    parse_clock(clock)
}

/// Microseconds since 1970, and the zone's offset in seconds where one is written.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, Option<i64>)> {
    let parsed = Parsed::of(text)?;
    let days = i64::from(parsed.days?);
    let micros = days.checked_mul(MICROS_PER_DAY)?.checked_add(parsed.time)?;
    Some((micros, parsed.zone))
}

/// A text taken apart.
struct Parsed {
    days: Option<i32>,
    /// Microseconds since midnight.
    time: i64,
    zone: Option<i64>,
}

impl Parsed {
    fn of(text: &str) -> Option<Self> {
        let (text, is_bc) = without_era(text.trim());
        let text = text.as_ref();
        if text.eq_ignore_ascii_case("epoch") {
            return Some(Self {
                days: Some(0),
                time: 0,
                zone: Some(0),
            });
        }
        let (date, clock) = split_clock(text);
        let (year, month, day) = date_fields(date)?;
        let year = if is_bc { 1 - year } else { year };
        let days = YEARS
            .contains(&year)
            .then(|| days_from_civil(year, month, day))
            .flatten();
        let Some(clock) = clock else {
            return Some(Self {
                days,
                time: 0,
                zone: None,
            });
        };
        let (clock, zone) = split_zone(clock)?;
        let time = parse_clock(clock)?;
        let local = i64::from(days.unwrap_or(0))
            .saturating_mul(MICROS_PER_DAY)
            .saturating_add(time);
        Some(Self {
            days,
            time,
            zone: zone.map(|zone| zone.offset_at_local(local)),
        })
    }
}

/// The text without the word BC or AD, and whether it is BC: that may stand behind the date, the time or the zone.
fn without_era(text: &str) -> (Cow<'_, str>, bool) {
    let is = |word: &str, era: &str| word.eq_ignore_ascii_case(era);
    match text.split_whitespace().find(|word| is(word, "bc") || is(word, "ad")) {
        Some(era) => {
            let rest: Vec<&str> = text.split_whitespace().filter(|word| *word != era).collect();
            (Cow::Owned(rest.join(" ")), is(era, "bc"))
        }
        None => (Cow::Borrowed(text), false),
    }
}

/// The date, and the time with its zone: the part from the word that has a colon in it.
fn split_clock(text: &str) -> (&str, Option<&str>) {
    let Some(colon) = text.find(':') else {
        return (text, None);
    };
    match text[..colon].rfind([' ', 'T', 't']) {
        Some(at) => (text[..at].trim_end(), Some(text[at + 1..].trim())),
        None => (text, None),
    }
}

/// A clock and its zone.
fn split_zone(text: &str) -> Option<(&str, Option<Zone>)> {
    let Some(at) = text.find(|c: char| matches!(c, '+' | '-') || c.is_ascii_alphabetic()) else {
        return Some((text.trim(), None));
    };
    let (clock, zone) = (text[..at].trim_end(), text[at..].trim());
    // `10:00 PM` is a time of its own.
    if zone.eq_ignore_ascii_case("am") || zone.eq_ignore_ascii_case("pm") {
        return Some((text, None));
    }
    Zone::parse(zone).map(|zone| (clock, Some(zone)))
}

/// Seconds east of Greenwich: `Z`, `UTC`, `+02`, `+02:30`, `-0800`.
pub(crate) fn parse_offset(zone: &str) -> Option<i64> {
    if ["z", "utc", "gmt", "zulu"]
        .iter()
        .any(|name| zone.eq_ignore_ascii_case(name))
    {
        return Some(0);
    }
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+')?),
    };
    let parts: Vec<&str> = match digits.contains(':') {
        true => digits.split(':').collect(),
        false if digits.is_ascii() && digits.len() == 4 => vec![&digits[..2], &digits[2..]],
        false => vec![digits],
    };
    let number = |at: usize, max: i64| match parts.get(at) {
        Some(part) if (1..=2).contains(&part.len()) => part.parse().ok().filter(|n: &i64| (0..=max).contains(n)),
        Some(_) => None,
        None => Some(0),
    };
    let seconds = number(0, 15)? * 3600 + number(1, 59)? * 60 + number(2, 59)?;
    (parts.len() <= 3).then_some(sign * seconds)
}

/// `hours:minutes[:seconds[.fraction]] [AM | PM]` in microseconds; 24:00:00 is the end of the day.
fn parse_clock(text: &str) -> Option<i64> {
    let text = text.trim();
    let (clock, half) = match text.len().checked_sub(2).and_then(|at| text.split_at_checked(at)) {
        Some((clock, half)) if half.eq_ignore_ascii_case("am") => (clock.trim_end(), Some(0)),
        Some((clock, half)) if half.eq_ignore_ascii_case("pm") => (clock.trim_end(), Some(12)),
        _ => (text, None),
    };
    let mut parts = clock.split(':');
    let digits = |part: &str| {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<i64>().ok()).flatten()
    };
    let mut hours = digits(parts.next()?)?;
    let minutes = digits(parts.next()?)?;
    let (seconds, fraction) = match parts.next() {
        Some(part) => part.split_once('.').unwrap_or((part, "")),
        None => ("0", ""),
    };
    if let Some(half) = half {
        if !(1..=12).contains(&hours) {
            return None;
        }
        hours = hours % 12 + half;
    }
    let seconds = digits(seconds)?;
    let nanos = fraction_nanos(fraction)?;
    let micros = ((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND + (nanos + 500) / 1000;
    let in_range = hours <= 24 && minutes < 60 && seconds <= 60 && micros <= MICROS_PER_DAY;
    (in_range && parts.next().is_none()).then_some(micros)
}

fn fraction_nanos(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut scale = NANOS_PER_SECOND;
    Some(digits.bytes().take(9).fold(0, |nanos, digit| {
        scale /= 10;
        nanos + i64::from(digit - b'0') * scale
    }))
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The number of a month by its name or at least three letters of it.
fn month_named(word: &str) -> Option<u32> {
    let word = word.to_ascii_lowercase();
    let at = MONTHS
        .iter()
        .position(|month| word.len() >= 3 && month.starts_with(&word))?;
    Some(at as u32 + 1)
}

/// Year, month and day: `2024-02-29`, `2024/2/29`, `20240229`, `2/29/2024`, `Feb 29, 2024`, `29 February 2024`.
fn date_fields(text: &str) -> Option<(i64, u32, u32)> {
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits(text) {
        return match text.len() {
            8 => Some((
                text[..4].parse().ok()?,
                text[4..6].parse().ok()?,
                text[6..].parse().ok()?,
            )),
            _ => None,
        };
    }
    let parts: Vec<&str> = text
        .split([' ', ',', '-', '/', '.'])
        .filter(|part| !part.is_empty())
        .collect();
    let [first, second, third] = parts.as_slice() else {
        return None;
    };
    let small = |part: &str| match part.len() {
        1 | 2 if all_digits(part) => part.parse::<u32>().ok(),
        _ => None,
    };
    let year = |part: &str| match part.len() {
        3..=6 if all_digits(part) => part.parse::<i64>().ok(),
        _ => None,
    };
    if let Some(month) = month_named(first) {
        return Some((year(third)?, month, small(second)?));
    }
    if let Some(month) = month_named(second) {
        return match year(first) {
            Some(first) => Some((first, month, small(third)?)),
            None => Some((year(third)?, month, small(first)?)),
        };
    }
    match year(first) {
        Some(year) => Some((year, small(second)?, small(third)?)),
        // Month first, as PostgreSQL's DateStyle has it.
        None => Some((year(third)?, small(first)?, small(second)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(micros: i64) -> String {
        let mut out = String::new();
        let (days, rest) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
        write_timestamp(days, rest * 1000, "", &mut out);
        out
    }

    #[test]
    fn days_and_dates_are_each_others_reverse() {
        for days in (-1_000_000..1_000_000).step_by(37) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day).map(i64::from), Some(days));
        }
        assert_eq!(days_from_civil(1970, 1, 1), Some(0));
        assert_eq!(days_from_civil(2000, 3, 1), Some(11_017));
        assert_eq!(days_from_civil(2023, 2, 29), None);
    }

    #[test]
    fn timestamps_are_read_as_postgresql_reads_them() {
        for (text, expected, zone) in [
            ("2024-02-29", "2024-02-29 00:00:00", None),
            ("20240229", "2024-02-29 00:00:00", None),
            ("2024-2-9 7:05", "2024-02-09 07:05:00", None),
            ("2024-02-29T12:00:00.25Z", "2024-02-29 12:00:00.25", Some(0)),
            ("2024-02-29 12:00:00+02:30", "2024-02-29 12:00:00", Some(9000)),
            ("2024-02-29 12:00:00 -0800", "2024-02-29 12:00:00", Some(-28_800)),
            ("Feb 29, 2024 10:00 PM", "2024-02-29 22:00:00", None),
            ("29 February 2024", "2024-02-29 00:00:00", None),
            ("2/29/2024 12:00 am", "2024-02-29 00:00:00", None),
            ("2024-02-29 24:00:00", "2024-03-01 00:00:00", None),
            ("2024-02-29 23:59:59.9999996", "2024-03-01 00:00:00", None),
            ("0044-03-15 BC", "0044-03-15 00:00:00 BC", None),
            ("0044-03-15 12:00 bc +01", "0044-03-15 12:00:00 BC", Some(3600)),
            ("2024-07-01 12:00 Europe/Berlin", "2024-07-01 12:00:00", Some(7200)),
            ("2024-01-01 12:00:00 PST", "2024-01-01 12:00:00", Some(-28_800)),
            ("epoch", "1970-01-01 00:00:00", Some(0)),
        ] {
            let (micros, found) = parse_timestamp(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((shown(micros).as_str(), found), (expected, zone), "{text}");
        }
        for text in [
            "",
            "2023-02-29",
            "2024-13-01",
            "5",
            "2024-02",
            "2024-02-29 25:00",
            "2024-02-29 10:61",
            "tomorrowish",
            "2024-02-29 10:00 ZZ",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        for (text, micros) in [
            ("00:00", 0),
            ("23:59:59.999999", MICROS_PER_DAY - 1),
            ("04:05:06 PM", (16 * 3600 + 5 * 60 + 6) * MICROS_PER_SECOND),
            ("2024-01-01 01:00:00", 3600 * MICROS_PER_SECOND),
            ("24:00:00", MICROS_PER_DAY),
        ] {
            assert_eq!(parse_time(text), Some(micros), "{text}");
        }
        for text in ["5", "25:00", "13:00 PM", "1:2:3:4"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
