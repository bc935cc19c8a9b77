//! Arithmetic and functions of dates, times and intervals.

use arrow::datatypes::IntervalMonthDayNano;
use candor_storage::ColumnType;
use datafusion::common::ScalarValue;

use super::function::Kind::{self, Date, Float, Int, Interval, Numeric, Text, Time, Timestamp, TimestampTz};
use super::function::{Gives, Spec, float, int, of_text, text};
use super::time_format;
use crate::error::EngineError;
use crate::value::interval::NANOS_PER_DAY;
use crate::value::moment::{self, MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::value::zone::Zone;

type Answer = Result<ScalarValue, EngineError>;

const DATE: Gives = Gives::Type(ColumnType::Date);
const TIME: Gives = Gives::Type(ColumnType::Time);
const TIMESTAMP: Gives = Gives::Type(ColumnType::Timestamp);
const TIMESTAMPTZ: Gives = Gives::Type(ColumnType::TimestampTz);
const INTERVAL: Gives = Gives::Type(ColumnType::Interval);
const TEXT: Gives = Gives::Type(ColumnType::Text);
const SPAN_TYPE: ColumnType = ColumnType::Decimal {
    precision: 38,
    scale: 0,
};
const SECONDS: ColumnType = ColumnType::Decimal {
    precision: 20,
    scale: 6,
};

/// Nanoseconds, a month having 30 days.
pub(super) fn span_of(span: IntervalMonthDayNano) -> i128 {
    let days = i128::from(span.months) * 30 + i128::from(span.days);
    days * i128::from(NANOS_PER_DAY) + i128::from(span.nanoseconds)
}

const MOMENTS: &[&[Kind]] = &[&[Timestamp, Timestamp], &[TimestampTz, TimestampTz]];

/// How long an interval is where a month has 30 days: what intervals are compared by.
pub(super) static SPAN: Spec = Spec::new("interval_span", &[&[Interval]], Gives::Type(SPAN_TYPE), |args| {
    Ok(ScalarValue::Decimal128(Some(span_of(interval(&args[0]))), 38, 0))
});
pub(super) static DATE_MINUS: Spec = Spec::new("date_mi", &[&[Date, Date]], Gives::Type(ColumnType::Int32), |args| {
    let days = date(&args[0]).checked_sub(date(&args[1]));
    days.map(|days| ScalarValue::Int32(Some(days))).ok_or_else(out_of_range)
});
pub(super) static DATE_PLUS: Spec = Spec::new("date_pli", &[&[Date, Int]], DATE, |args| {
    of_days(i64::from(date(&args[0])).checked_add(int(&args[1])))
});
pub(super) static DATE_LESS: Spec = Spec::new("date_mii", &[&[Date, Int]], DATE, |args| {
    of_days(i64::from(date(&args[0])).checked_sub(int(&args[1])))
});
pub(super) static DATE_AT: Spec = Spec::new("datetime_pl", &[&[Date, Time]], TIMESTAMP, |args| {
    of_micros(
        i64::from(date(&args[0]))
            .checked_mul(MICROS_PER_DAY)
            .and_then(|days| days.checked_add(micros(&args[1]))),
    )
});
pub(super) static TIME_PLUS: Spec = Spec::new("time_pl_interval", &[&[Time, Interval]], TIME, |args| {
    Ok(of_time(micros(&args[0]) + interval(&args[1]).nanoseconds / 1000))
});
pub(super) static TIME_LESS: Spec = Spec::new("time_mi_interval", &[&[Time, Interval]], TIME, |args| {
    Ok(of_time(micros(&args[0]) - interval(&args[1]).nanoseconds / 1000))
});
pub(super) static TIME_MINUS: Spec = Spec::new("time_mi_time", &[&[Time, Time]], INTERVAL, |args| {
    Ok(of_interval(0, 0, (micros(&args[0]) - micros(&args[1])) * 1000))
});
pub(super) static TIMESTAMP_MINUS: Spec = Spec::new("timestamp_mi", MOMENTS, INTERVAL, |args| {
    let micros = micros(&args[0])
        .checked_sub(micros(&args[1]))
        .ok_or_else(out_of_range)?;
    let days = i32::try_from(micros / MICROS_PER_DAY).map_err(|_| out_of_range())?;
    Ok(of_interval(0, days, micros % MICROS_PER_DAY * 1000))
});
pub(super) static INTERVAL_TIMES: Spec = Spec::new("interval_mul", &[&[Interval, Float]], INTERVAL, |args| {
    scaled(interval(&args[0]), float(&args[1]))
});
pub(super) static INTERVAL_DIVIDED: Spec =
    Spec::new("interval_div", &[&[Interval, Float]], INTERVAL, |args| {
        match float(&args[1]) {
            0.0 => Err(EngineError::DivisionByZero),
            divisor => scaled(interval(&args[0]), 1.0 / divisor),
        }
    });
/// `extract(field FROM …)` where the answer may have a fraction, or DataFusion knows no such field.
pub(super) static EXTRACT: Spec = Spec::new(
    "extract_numeric",
    &[
        &[Text, Date],
        &[Text, Timestamp],
        &[Text, TimestampTz],
        &[Text, Time],
        &[Text, Interval],
    ],
    Gives::Type(SECONDS),
    extract,
);

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("age", MOMENTS, INTERVAL, |args| age(micros(&args[0]), micros(&args[1]))),
    Spec::new("justify_days", &[&[Interval]], INTERVAL, |args| {
        let span = interval(&args[0]);
        Ok(justified_days(span))
    }),
    Spec::new("justify_hours", &[&[Interval]], INTERVAL, |args| {
        let span = justified_hours(interval(&args[0]));
        Ok(of_interval(span.months, span.days, span.nanoseconds))
    }),
    Spec::new("justify_interval", &[&[Interval]], INTERVAL, |args| {
        Ok(justified(interval(&args[0])))
    }),
    Spec::new(
        "make_timestamp",
        &[&[Int, Int, Int, Int, Int, Float]],
        TIMESTAMP,
        make_timestamp,
    ),
    Spec::new(
        "make_timestamptz",
        &[
            &[Int, Int, Int, Int, Int, Float],
            &[Int, Int, Int, Int, Int, Float, Text],
        ],
        TIMESTAMPTZ,
        |args| match (make_timestamp(args)?, args.get(6)) {
            (ScalarValue::TimestampMicrosecond(Some(local), _), Some(zone)) => {
                let name = text(zone).trim();
                let zone = Zone::parse(name).ok_or_else(|| no_zone(name))?;
                of_micros(local.checked_sub(zone.offset_at_local(local) * MICROS_PER_SECOND))
            }
            (moment, _) => Ok(moment),
        },
    ),
    // `date_trunc` where the unit is a value of the row, or one that DataFusion does not cut off.
    Spec::new(
        "date_trunc_any",
        &[&[Text, Interval], &[Text, Timestamp], &[Text, TimestampTz]],
        Gives::OfSecond,
        date_trunc,
    ),
    Spec::new("make_date", &[&[Int, Int, Int]], DATE, |args| {
        of_days(days_of(&args[0], &args[1], &args[2])).map_err(|_| no_such_moment())
    }),
    Spec::new("make_time", &[&[Int, Int, Float]], TIME, |args| {
        let (hours, minutes, seconds) = (int(&args[0]), int(&args[1]), float(&args[2]));
        if !(0..24).contains(&hours) || !(0..60).contains(&minutes) || !(0.0..60.0).contains(&seconds) {
            return Err(EngineError::Overflow {
                message: "there is no such time".to_owned(),
            });
        }
        let fraction = (seconds * MICROS_PER_SECOND as f64).round() as i64;
        Ok(of_time((hours * 60 + minutes) * 60 * MICROS_PER_SECOND + fraction))
    }),
    Spec::new(
        "make_interval",
        &[
            &[Int],
            &[Int, Int],
            &[Int, Int, Int],
            &[Int, Int, Int, Int],
            &[Int, Int, Int, Int, Int],
            &[Int; 6],
            &[Int, Int, Int, Int, Int, Int, Float],
        ],
        INTERVAL,
        make_interval,
    ),
    Spec::new(
        "isfinite",
        &[&[Timestamp], &[TimestampTz], &[Date], &[Interval]],
        Gives::Type(ColumnType::Bool),
        |_| Ok(ScalarValue::Boolean(Some(true))),
    ),
    Spec::new(
        "to_char",
        &[
            &[Timestamp, Text],
            &[TimestampTz, Text],
            &[Date, Text],
            &[Interval, Text],
            &[Time, Text],
            &[Numeric, Text],
            &[Float, Text],
        ],
        TEXT,
        to_char,
    ),
    Spec::new("to_date", &[&[Text, Text], &[Text]], DATE, |args| {
        if let [value, format] = args {
            let micros = time_format::parse(text(value), text(format)).map_err(EngineError::bad_value)?;
            return of_days(Some(micros.div_euclid(MICROS_PER_DAY)));
        }
        let days = moment::parse_date(text(&args[0]));
        let days = days.ok_or_else(|| EngineError::bad_value(format!("`{}` is not a date", text(&args[0]))))?;
        of_days(Some(i64::from(days)))
    }),
    Spec::new(
        "to_timestamp",
        &[&[Float], &[Text, Text], &[Text], &[TimestampTz]],
        TIMESTAMPTZ,
        |args| match args {
            [value, format] => {
                let micros = time_format::parse(text(value), text(format)).map_err(EngineError::bad_value)?;
                of_micros(Some(micros))
            }
            [ScalarValue::Float64(Some(seconds))] => {
                let micros = (seconds * MICROS_PER_SECOND as f64).round();
                of_micros((micros.abs() < i64::MAX as f64).then_some(micros as i64))
            }
            [value @ ScalarValue::Utf8View(_)] => match moment::parse_timestamp(text(value)) {
                Some((micros, zone)) => of_micros(micros.checked_sub(zone.unwrap_or(0) * MICROS_PER_SECOND)),
                None => Err(EngineError::bad_value(format!("`{}` is not a timestamp", text(value)))),
            },
            _ => Ok(args[0].clone()),
        },
    ),
    Spec::new(
        "to_number",
        &[&[Text, Text]],
        Gives::Type(ColumnType::Decimal {
            precision: 38,
            scale: 10,
        }),
        |args| {
            let digits: String = text(&args[0])
                .chars()
                .filter(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
                .collect();
            let digits = match digits.strip_suffix('-') {
                Some(bare) => format!("-{bare}"),
                None => digits,
            };
            Ok(of_text(digits))
        },
    ),
    Spec::new(
        "timezone",
        &[
            &[Text, Timestamp],
            &[Text, TimestampTz],
            &[Interval, Timestamp],
            &[Interval, TimestampTz],
        ],
        Gives::Second,
        |args| {
            let zone = zone_of(&args[0])?;
            let moment = micros(&args[1]);
            if matches!(args[1], ScalarValue::TimestampMicrosecond(_, Some(_))) {
                of_micros(moment.checked_add(zone.offset_at(moment) * MICROS_PER_SECOND))
            } else {
                of_micros(moment.checked_sub(zone.offset_at_local(moment) * MICROS_PER_SECOND))
            }
        },
    ),
    Spec::new("date", &[&[Date], &[Timestamp], &[Text]], DATE, |args| match &args[0] {
        text_value @ ScalarValue::Utf8View(_) => {
            let days = moment::parse_date(text(text_value));
            let days = days.ok_or_else(|| EngineError::bad_value(format!("`{}` is not a date", text(text_value))))?;
            of_days(Some(i64::from(days)))
        }
        value => of_days(Some(micros(value).div_euclid(MICROS_PER_DAY))),
    }),
    Spec::new("clock_timestamp", &[&[]], TIMESTAMPTZ, |_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(of_any_micros(now.map_or(0, |since| since.as_micros() as i64)))
    })
    .volatile(),
];

/// `date_trunc` of an interval, and of a moment by the clocks of a zone; DataFusion has the others.
pub(super) static DATE_TRUNC: Spec = Spec::new(
    "date_trunc",
    &[&[Text, Interval], &[Text, TimestampTz, Text]],
    Gives::OfSecond,
    date_trunc,
);

fn no_unit(unit: &str) -> EngineError {
    EngineError::bad_value(format!("`{unit}` is not a part of a time"))
}

fn date_trunc(args: &[ScalarValue]) -> Answer {
    let unit = text(&args[0]).to_ascii_lowercase();
    if let ScalarValue::IntervalMonthDayNano(_) = &args[1] {
        return truncated_interval(&unit, interval(&args[1]));
    }
    let moment = micros(&args[1]);
    let Some(zone) = args.get(2) else {
        return truncated(&unit, moment).map(|(start, _)| of_any_micros(start));
    };
    let zone = zone_of(zone)?;
    let offset = zone.offset_at(moment) * MICROS_PER_SECOND;
    let local = moment.checked_add(offset).ok_or_else(out_of_range)?;
    let (start, is_of_days) = truncated(&unit, local)?;
    let offset = if is_of_days {
        zone.offset_at_local(start) * MICROS_PER_SECOND
    } else {
        offset
    };
    of_micros(start.checked_sub(offset))
}

/// The start of the unit in which a moment lies, and whether that is a whole number of days.
fn truncated(unit: &str, micros: i64) -> Result<(i64, bool), EngineError> {
    let of_time = |size: i64| Ok((micros - micros.rem_euclid(size), false));
    let days = micros.div_euclid(MICROS_PER_DAY);
    let (year, month, _) = moment::civil_from_days(days);
    // Centuries start with the years 1, 101 and so on, and there is no year 0.
    let of_years = |count: i64| {
        if count <= 10 {
            year - year.rem_euclid(count)
        } else {
            year - (year - 1).rem_euclid(count)
        }
    };
    let start = match unit.trim_end_matches('s') {
        "microsecond" => return of_time(1),
        "millisecond" => return of_time(1000),
        "second" => return of_time(MICROS_PER_SECOND),
        "minute" => return of_time(60 * MICROS_PER_SECOND),
        "hour" => return of_time(3600 * MICROS_PER_SECOND),
        "day" => Some(days),
        // From a Monday on; 1970 began with a Thursday.
        "week" => Some(days - (days + 3).rem_euclid(7)),
        "month" => moment::days_from_civil(year, month, 1).map(i64::from),
        "quarter" => moment::days_from_civil(year, (month - 1) / 3 * 3 + 1, 1).map(i64::from),
        "year" => moment::days_from_civil(year, 1, 1).map(i64::from),
        "decade" => moment::days_from_civil(of_years(10), 1, 1).map(i64::from),
        "century" | "centurie" => moment::days_from_civil(of_years(100), 1, 1).map(i64::from),
        "millennium" | "millennia" => moment::days_from_civil(of_years(1000), 1, 1).map(i64::from),
        _ => return Err(no_unit(unit)),
    };
    let start = start.and_then(|days| days.checked_mul(MICROS_PER_DAY));
    Ok((start.ok_or_else(out_of_range)?, true))
}

/// An interval without what is smaller than the unit.
fn truncated_interval(unit: &str, span: IntervalMonthDayNano) -> Answer {
    let months = |count: i32| Ok(of_interval(span.months - span.months % count, 0, 0));
    let time = |nanos: i64| {
        Ok(of_interval(
            span.months,
            span.days,
            span.nanoseconds - span.nanoseconds % nanos,
        ))
    };
    match unit.trim_end_matches('s') {
        "microsecond" => time(1000),
        "millisecond" => time(1_000_000),
        "second" => time(1_000_000_000),
        "minute" => time(60_000_000_000),
        "hour" => time(3_600_000_000_000),
        "day" => Ok(of_interval(span.months, span.days, 0)),
        "month" => months(1),
        "quarter" => months(3),
        "year" => months(12),
        "decade" => months(120),
        "century" | "centurie" => months(1200),
        "millennium" | "millennia" => months(12_000),
        "week" => Err(EngineError::bad_value(
            "an interval has no weeks: its months are of different lengths",
        )),
        _ => Err(no_unit(unit)),
    }
}

/// The zone that a function is asked for.
fn zone_of(value: &ScalarValue) -> Result<Zone, EngineError> {
    if let ScalarValue::IntervalMonthDayNano(Some(span)) = value {
        return Ok(Zone::Fixed(span.nanoseconds / 1_000_000_000));
    }
    let name = text(value).trim();
    match Zone::parse(name) {
        // A written offset counts west of Greenwich, as POSIX has it.
        Some(Zone::Fixed(seconds)) if name.starts_with(['+', '-']) => Ok(Zone::Fixed(-seconds)),
        Some(zone) => Ok(zone),
        None => Err(no_zone(name)),
    }
}

fn no_zone(name: &str) -> EngineError {
    EngineError::bad_value(format!("there is no time zone `{name}`"))
}

fn no_such_moment() -> EngineError {
    EngineError::Overflow {
        message: "there is no such date or time".to_owned(),
    }
}

/// Days since 1970 of a date in three numbers; years before the first are negative, and no year is 0.
fn days_of(year: &ScalarValue, month: &ScalarValue, day: &ScalarValue) -> Option<i64> {
    let part = |value: &ScalarValue| u32::try_from(int(value)).ok();
    let year = match int(year) {
        0 => return None,
        year if year < 0 => year + 1,
        year => year,
    };
    moment::days_from_civil(year, part(month)?, part(day)?).map(i64::from)
}

fn out_of_range() -> EngineError {
    EngineError::Overflow {
        message: "the date is out of range".to_owned(),
    }
}

fn date(value: &ScalarValue) -> i32 {
    match value {
        ScalarValue::Date32(Some(days)) => *days,
        _ => 0,
    }
}

/// Microseconds since 1970 or since midnight.
fn micros(value: &ScalarValue) -> i64 {
    match value {
        ScalarValue::TimestampMicrosecond(Some(micros), _) | ScalarValue::Time64Microsecond(Some(micros)) => *micros,
        ScalarValue::Date32(Some(days)) => i64::from(*days) * MICROS_PER_DAY,
        _ => 0,
    }
}

pub(super) fn interval(value: &ScalarValue) -> IntervalMonthDayNano {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(span)) => *span,
        _ => IntervalMonthDayNano::new(0, 0, 0),
    }
}

fn of_days(days: Option<i64>) -> Answer {
    let days = days.and_then(|days| i32::try_from(days).ok());
    days.map(|days| ScalarValue::Date32(Some(days)))
        .ok_or_else(out_of_range)
}

const fn of_any_micros(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), None)
}

fn of_micros(micros: Option<i64>) -> Answer {
    micros.map(of_any_micros).ok_or_else(out_of_range)
}

const fn of_time(micros: i64) -> ScalarValue {
    ScalarValue::Time64Microsecond(Some(micros.rem_euclid(MICROS_PER_DAY)))
}

const fn of_interval(months: i32, days: i32, nanoseconds: i64) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano {
        months,
        days,
        nanoseconds,
    }))
}

/// A timestamp moved by an interval: months first, to the last day of a shorter month, then days, then the time.
pub(super) fn moved(micros: i64, by: IntervalMonthDayNano, is_back: bool) -> Option<i64> {
    let sign = if is_back { -1 } else { 1 };
    let (days, rest) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    let (year, month, day) = moment::civil_from_days(days);
    let months = year * 12 + i64::from(month) - 1 + sign * i64::from(by.months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
    let day = day.min(moment::days_in_month(year, month));
    let days = i64::from(moment::days_from_civil(year, month, day)?) + sign * i64::from(by.days);
    days.checked_mul(MICROS_PER_DAY)?
        .checked_add(rest)?
        .checked_add(sign * (by.nanoseconds / 1000))
}

/// An interval times a number; fractions of months become days of which a month has 30, fractions of days become time.
fn scaled(span: IntervalMonthDayNano, by: f64) -> Answer {
    let months = f64::from(span.months) * by;
    let of_months = months.fract() * 30.0;
    let own_days = f64::from(span.days) * by;
    let days = own_days.trunc() + of_months.trunc();
    let fraction = own_days.fract() + of_months.fract();
    // PostgreSQL rounds to microseconds before it carries, so that 0.1 days are 2.4 hours and no less.
    let micros = (fraction * MICROS_PER_DAY as f64).round() + span.nanoseconds as f64 / 1000.0 * by;
    if !(months.abs() < f64::from(i32::MAX) && days.abs() < f64::from(i32::MAX) && micros.abs() < 9e15) {
        return Err(EngineError::Overflow {
            message: "the interval is out of range".to_owned(),
        });
    }
    Ok(of_interval(
        months.trunc() as i32,
        days.trunc() as i32,
        micros.round() as i64 * 1000,
    ))
}

fn justified_hours(span: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let total = i128::from(span.days) * i128::from(NANOS_PER_DAY) + i128::from(span.nanoseconds);
    let days = (total / i128::from(NANOS_PER_DAY)) as i32;
    IntervalMonthDayNano::new(span.months, days, (total % i128::from(NANOS_PER_DAY)) as i64)
}

fn justified_days(span: IntervalMonthDayNano) -> ScalarValue {
    let total = i64::from(span.months) * 30 + i64::from(span.days);
    of_interval((total / 30) as i32, (total % 30) as i32, span.nanoseconds)
}

/// Both, with one sign for all parts.
fn justified(span: IntervalMonthDayNano) -> ScalarValue {
    let span = justified_hours(span);
    let total = i64::from(span.months) * 30 + i64::from(span.days);
    let (mut months, mut days, mut nanos) = (total / 30, total % 30, span.nanoseconds);
    let sign = if months == 0 { days.signum() } else { months.signum() };
    if sign != 0 && nanos.signum() == -sign {
        days -= sign;
        nanos += sign * NANOS_PER_DAY;
    }
    if sign != 0 && days.signum() == -sign {
        months -= sign;
        days += sign * 30;
    }
    of_interval(months as i32, days as i32, nanos)
}

/// Years, months, days and time from `from` to `to`, as a calendar counts them.
fn age(to: i64, from: i64) -> Answer {
    let (sign, later, earlier) = if to >= from { (1, to, from) } else { (-1, from, to) };
    let parts = |micros: i64| {
        let (year, month, day) = moment::civil_from_days(micros.div_euclid(MICROS_PER_DAY));
        (year, month, day, micros.rem_euclid(MICROS_PER_DAY))
    };
    let ((y1, m1, d1, t1), (y2, m2, d2, t2)) = (parts(later), parts(earlier));
    let mut months = (y1 - y2) * 12 + i64::from(m1) - i64::from(m2);
    let mut days = i64::from(d1) - i64::from(d2);
    let mut time = t1 - t2;
    if time < 0 {
        time += MICROS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        // The month that is not whole is as long as the earlier one.
        days += i64::from(moment::days_in_month(y2, m2));
        months -= 1;
    }
    let months = i32::try_from(sign * months).map_err(|_| out_of_range())?;
    Ok(of_interval(months, (sign * days) as i32, sign * time * 1000))
}

fn make_timestamp(args: &[ScalarValue]) -> Answer {
    let part = |at: usize| u32::try_from(int(&args[at])).ok();
    let seconds = float(&args[5]);
    let clock = part(3)
        .zip(part(4))
        .filter(|(hours, minutes)| *hours < 24 && *minutes < 60);
    let days = days_of(&args[0], &args[1], &args[2]);
    match (days, clock) {
        (Some(days), Some((hours, minutes))) if (0.0..60.0).contains(&seconds) => {
            let whole = i64::from(hours * 60 + minutes) * 60 * MICROS_PER_SECOND;
            let fraction = (seconds * MICROS_PER_SECOND as f64).round() as i64;
            of_micros(days.checked_mul(MICROS_PER_DAY).map(|start| start + whole + fraction))
        }
        _ => Err(no_such_moment()),
    }
}

fn make_interval(args: &[ScalarValue]) -> Answer {
    let part = |at: usize| args.get(at).map_or(0, int);
    let seconds = args.get(6).map_or(0.0, float);
    let months = part(0).checked_mul(12).and_then(|months| months.checked_add(part(1)));
    let days = part(2).checked_mul(7).and_then(|days| days.checked_add(part(3)));
    let narrow = |value: Option<i64>| {
        value
            .and_then(|value| i32::try_from(value).ok())
            .ok_or_else(out_of_range)
    };
    let minutes = part(4).checked_mul(60).and_then(|minutes| minutes.checked_add(part(5)));
    let nanos = minutes.and_then(|minutes| minutes.checked_mul(60_000_000_000));
    let nanos = nanos.and_then(|nanos| nanos.checked_add((seconds * 1e9).round() as i64));
    Ok(of_interval(
        narrow(months)?,
        narrow(days)?,
        nanos.ok_or_else(out_of_range)?,
    ))
}

fn to_char(args: &[ScalarValue]) -> Answer {
    let format = text(&args[1]);
    let shown = match &args[0] {
        ScalarValue::IntervalMonthDayNano(_) => Ok(time_format::write_interval(interval(&args[0]), format)),
        ScalarValue::Decimal128(Some(value), _, scale) => time_format::write_number(*value, *scale, format),
        ScalarValue::Float64(Some(value)) => {
            let digits = format!("{value:.15}");
            let decimals = digits.split_once('.').map_or(0, |(_, d)| d.trim_end_matches('0').len());
            let scale = decimals.min(15) as i8;
            let whole = (value * 10_f64.powi(i32::from(scale))).round();
            time_format::write_number(whole as i128, scale, format)
        }
        moment => {
            let has_zone = matches!(moment, ScalarValue::TimestampMicrosecond(_, Some(_)));
            Ok(time_format::write(micros(moment), has_zone, format))
        }
    };
    shown.map(of_text).map_err(EngineError::bad_value)
}

/// Millionths that fit a NUMERIC(20, 6).
fn of_millionths(micros: i128) -> Answer {
    if micros.unsigned_abs() >= 10_u128.pow(20) {
        return Err(out_of_range());
    }
    Ok(ScalarValue::Decimal128(Some(micros), 20, 6))
}

fn extract(args: &[ScalarValue]) -> Answer {
    let field = text(&args[0]).to_ascii_lowercase();
    let one = i128::from(MICROS_PER_SECOND);
    if let ScalarValue::IntervalMonthDayNano(_) = &args[1] {
        return extract_interval(&field, interval(&args[1]));
    }
    let micros = micros(&args[1]);
    let year = moment::civil_from_days(micros.div_euclid(MICROS_PER_DAY)).0;
    let century = |years: i64| {
        if year > 0 {
            (year + years - 1) / years
        } else {
            -((years - year) / years)
        }
    };
    let of_minute = i128::from(micros.rem_euclid(60 * MICROS_PER_SECOND));
    match field.as_str() {
        "second" | "seconds" => of_millionths(of_minute),
        "millisecond" | "milliseconds" => of_millionths(of_minute * 1_000),
        "microsecond" | "microseconds" => of_millionths(of_minute * one),
        "epoch" => of_millionths(i128::from(micros)),
        "decade" => of_millionths(i128::from(year.div_euclid(10)) * one),
        "century" => of_millionths(i128::from(century(100)) * one),
        "millennium" => of_millionths(i128::from(century(1000)) * one),
        "julian" => of_millionths(
            (i128::from(micros) * one + 2_440_588 * i128::from(MICROS_PER_DAY) * one) / i128::from(MICROS_PER_DAY),
        ),
        "hour" | "hours" => of_millionths(i128::from(micros.rem_euclid(MICROS_PER_DAY) / 3_600_000_000) * one),
        "minute" | "minutes" => of_millionths(i128::from(micros.rem_euclid(3_600_000_000) / 60_000_000) * one),
        "timezone" | "timezone_hour" | "timezone_minute" => of_millionths(0),
        other => Err(EngineError::bad_value(format!("`{other}` is not a part of a time"))),
    }
}

fn extract_interval(field: &str, span: IntervalMonthDayNano) -> Answer {
    let one = i128::from(MICROS_PER_SECOND);
    let (months, days, micros) = (
        i128::from(span.months),
        i128::from(span.days),
        i128::from(span.nanoseconds / 1000),
    );
    let whole = |value: i128| of_millionths(value * one);
    match field {
        "year" | "years" => whole(months / 12),
        "month" | "months" => whole(months % 12),
        "quarter" => whole(months % 12 / 3 + 1),
        "decade" => whole(months / 120),
        "century" => whole(months / 1_200),
        "millennium" => whole(months / 12_000),
        "day" | "days" => whole(days),
        "hour" | "hours" => whole(micros / (3600 * one)),
        "minute" | "minutes" => whole(micros / (60 * one) % 60),
        "second" | "seconds" => of_millionths(micros % (60 * one)),
        "millisecond" | "milliseconds" => of_millionths(micros % (60 * one) * 1000),
        "microsecond" | "microseconds" => whole(micros % (60 * one)),
        "epoch" => {
            // A year has 365.25 days here, a month 30.
            let days_in_months = months / 12 * 36_525 * 864 + (months % 12) * 30 * 86_400;
            of_millionths((days_in_months + days * 86_400) * one + micros)
        }
        other => Err(EngineError::bad_value(format!(
            "`{other}` is not a part of an interval"
        ))),
    }
}
