//! Numbers and dates as files mostly have them, read without looking for anything else.
//!
//! What is `None` here is not wrong: the general readers decide. What they say of a text that is read here is the same.

/// Digits that fit 64 bits, whatever they are.
const DIGITS_MAX: usize = 18;

/// Powers of ten that fit.
const POWERS: [i64; DIGITS_MAX + 1] = {
    let mut powers = [1; DIGITS_MAX + 1];
    let mut at = 1;
    while at <= DIGITS_MAX {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// An optional `-` and digits.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (is_negative, digits) = sign(text.as_bytes());
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let value = digits.iter().copied().try_fold(0, push_digit)?;
    Some(if is_negative { -value } else { value })
}

/// An optional `-`, digits, and perhaps a point and more digits, but not more than `scale`: the value times ten to the
/// power of `scale`.
pub(crate) fn decimal(text: &str, scale: usize) -> Option<i64> {
    let (is_negative, digits) = sign(text.as_bytes());
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let mut value = 0;
    let mut behind_point = None;
    for byte in digits {
        match (byte, &mut behind_point) {
            (b'.', None) => behind_point = Some(0),
            (_, behind) => {
                value = push_digit(value, *byte)?;
                if let Some(count) = behind {
                    *count += 1;
                }
            }
        }
    }
    let behind_point = behind_point.unwrap_or(0);
    let count = digits.iter().filter(|byte| **byte != b'.').count();
    let missing = scale.checked_sub(behind_point)?;
    if count == 0 || count + missing > DIGITS_MAX {
        return None;
    }
    let value = value * POWERS[missing];
    Some(if is_negative { -value } else { value })
}

/// `YYYY-MM-DD`, from the year 1 on: days since 1970.
pub(crate) fn date(text: &str) -> Option<i32> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().copied().try_fold(0, push_digit);
    let (year, month, day) = (number(&bytes[..4])?, number(&bytes[5..7])?, number(&bytes[8..])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1 || day < 1 || day > days_in_month {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // From the 1st of March of the year 0 to 1970.
    i32::try_from(days - 719_468).ok()
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    }
}

fn push_digit(value: i64, byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::moment;

    #[test]
    fn dates_are_those_of_the_general_reader() {
        for year in [1, 4, 99, 100, 400, 1582, 1700, 1900, 1970, 1996, 2000, 2024, 2100, 9999] {
            for month in 0..=13 {
                for day in 0..=32 {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(date(&text), moment::parse_date(&text), "{text}");
                }
            }
        }
        assert_eq!(date("1970-01-01"), Some(0));
        for text in ["", "1970-1-1", "0000-01-01", "1970/01/01", "1970-01-0x", "x970-01-01"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_what_they_say() {
        for (text, scale, value) in [
            ("0", 2, 0),
            ("17", 2, 1700),
            ("-17.5", 2, -1750),
            ("0.05", 2, 5),
            (".5", 1, 5),
            ("5.", 0, 5),
            ("-0", 0, 0),
            ("1.50", 2, 150),
            ("1234567890123456.78", 2, 123_456_789_012_345_678),
        ] {
            // What has too many characters is left to the general reader.
            let read = decimal(text, scale);
            assert!(
                read == Some(value) || text.len() > DIGITS_MAX && read.is_none(),
                "{text}"
            );
        }
        for (text, scale) in [
            ("", 2),
            ("-", 2),
            (".", 2),
            ("1.005", 2),
            ("1e3", 2),
            (" 1", 2),
            ("1..2", 2),
            ("1", 18),
        ] {
            assert_eq!(decimal(text, scale), None, "{text}");
        }
        assert_eq!(integer("-999999999999999999"), Some(-999_999_999_999_999_999));
        for text in ["", "-", "+1", "1.0", "1000000000000000000", "--1"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
