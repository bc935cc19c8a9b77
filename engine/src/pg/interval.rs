//! `INTERVAL '…' field [TO field]`: what the fields say about a number without a unit, and what they leave out.

use arrow::datatypes::IntervalMonthDayNano;
use sqlparser::ast::{self, DateTimeField as Field};

use crate::value::interval::{self, NANOS_PER_SECOND};

/// An interval in words that DataFusion reads as PostgreSQL reads those of the statement; what is none is left to it.
pub(super) fn read(interval: &mut ast::Interval) {
    let ast::Expr::Value(value) = interval.value.as_ref() else {
        return;
    };
    let (ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _)) = &value.value else {
        return;
    };
    if interval.last_field.as_ref().is_some_and(whole_of)
        || interval.last_field.is_some() && interval.leading_field.as_ref().is_some_and(whole_of)
    {
        return;
    }
    let smallest = interval.last_field.as_ref().or(interval.leading_field.as_ref());
    let text = match smallest {
        Some(field) if text.trim().parse::<f64>().is_ok() => {
            let number = if whole_of(field) {
                text.trim().split('.').next().unwrap_or_default()
            } else {
                text
            };
            format!("{number} {field}")
        }
        Some(Field::Second) if is_minutes_and_seconds(text, interval.leading_field.as_ref()) => format!("00:{text}"),
        _ => text.clone(),
    };
    let Some(span) = interval::parse(&text) else { return };
    let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
    let span = restricted(span, smallest, digits);
    let words = format!(
        "{} months {} days {} nanoseconds",
        span.months, span.days, span.nanoseconds
    );
    *interval = ast::Interval {
        value: Box::new(ast::Expr::Value(ast::Value::SingleQuotedString(words).into())),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    };
}

/// `'5:06' MINUTE TO SECOND` has no hours.
fn is_minutes_and_seconds(text: &str, leading: Option<&Field>) -> bool {
    matches!(leading, Some(Field::Minute | Field::Minutes)) && text.matches(':').count() == 1 && !text.contains(' ')
}

/// Fields that SQL does not have here: a fraction of one is left out with the rest.
const fn whole_of(field: &Field) -> bool {
    !matches!(
        field,
        Field::Year
            | Field::Month
            | Field::Day
            | Field::Hour
            | Field::Minute
            | Field::Second
            | Field::Millisecond
            | Field::Milliseconds
    )
}

/// What is smaller than the smallest field is cut off; what is larger stays.
fn restricted(span: IntervalMonthDayNano, smallest: Option<&Field>, digits: Option<u64>) -> IntervalMonthDayNano {
    let IntervalMonthDayNano {
        months,
        days,
        nanoseconds,
    } = span;
    let cut = |unit: i64| IntervalMonthDayNano::new(months, days, nanoseconds / unit * unit);
    match smallest {
        Some(Field::Year) => IntervalMonthDayNano::new(months / 12 * 12, 0, 0),
        Some(Field::Month) => IntervalMonthDayNano::new(months, 0, 0),
        Some(Field::Day) => IntervalMonthDayNano::new(months, days, 0),
        Some(Field::Hour) => cut(3_600 * NANOS_PER_SECOND),
        Some(Field::Minute) => cut(60 * NANOS_PER_SECOND),
        Some(Field::Second) => match digits.and_then(|digits| 9_u32.checked_sub(u32::try_from(digits).ok()?)) {
            Some(left) => {
                let unit = 10_i64.pow(left);
                let rounded = (i128::from(nanoseconds) + i128::from(unit / 2) * i128::from(nanoseconds.signum()))
                    / i128::from(unit)
                    * i128::from(unit);
                IntervalMonthDayNano::new(months, days, rounded as i64)
            }
            None => span,
        },
        _ => span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of PostgreSQL 15.
    #[test]
    fn fields_cut_off_what_is_smaller() {
        for (sql, expected) in [
            ("INTERVAL '1.5' YEAR", (12, 0, 0)),
            ("INTERVAL '1.5' MONTH", (1, 0, 0)),
            ("INTERVAL '1.5' DAY", (0, 1, 0)),
            ("INTERVAL '-1.5' DAY", (0, -1, 0)),
            ("INTERVAL '1.5' HOUR", (0, 0, 3600)),
            ("INTERVAL '1 day 3:04' HOUR", (0, 1, 3 * 3600)),
            ("INTERVAL '1 year 2 mons' MONTH", (14, 0, 0)),
            ("INTERVAL '1 year 2 mons 3 days' YEAR", (12, 0, 0)),
            ("INTERVAL '1-2' YEAR TO MONTH", (14, 0, 0)),
            ("INTERVAL '3 4:05' DAY TO MINUTE", (0, 3, 4 * 3600 + 300)),
            ("INTERVAL '1 12:59:10' HOUR TO MINUTE", (0, 1, 12 * 3600 + 59 * 60)),
            ("INTERVAL '100' DAY TO SECOND", (0, 0, 100)),
            ("INTERVAL '10' HOUR TO MINUTE", (0, 0, 600)),
            ("INTERVAL '5:06' MINUTE TO SECOND", (0, 0, 306)),
        ] {
            let statement = crate::parse::parse_query(&format!("SELECT {sql}")).expect("a query");
            let ast::Statement::Query(query) = statement else {
                unreachable!("a query")
            };
            let ast::SetExpr::Select(select) = *query.body else {
                unreachable!("a SELECT")
            };
            let Some(ast::SelectItem::UnnamedExpr(ast::Expr::Interval(mut interval))) =
                select.projection.into_iter().next()
            else {
                panic!("{sql} is an interval")
            };
            read(&mut interval);
            let (months, days, seconds) = expected;
            let words = format!("{months} months {days} days {} nanoseconds", seconds * NANOS_PER_SECOND);
            assert_eq!(interval.to_string(), format!("INTERVAL '{words}'"), "{sql}");
        }
    }
}
