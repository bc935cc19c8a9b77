//! Time zones: offsets, the names of the IANA database, and the abbreviations that PostgreSQL knows by itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone as _};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::moment::{MICROS_PER_DAY, MICROS_PER_SECOND, parse_offset};

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds east of Greenwich, all the year.
    Fixed(i64),
    /// One whose offset changes.
    Named(Tz),
}

/// Hours east of Greenwich.
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("wet", 0),
    ("west", 1),
    ("bst", 1),
    ("cet", 1),
    ("met", 1),
    ("cest", 2),
    ("mest", 2),
    ("eet", 2),
    ("eest", 3),
    ("msk", 3),
    ("msd", 4),
    ("jst", 9),
    ("kst", 9),
    ("ast", -4),
    ("adt", -3),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("akst", -9),
    ("akdt", -8),
    ("hst", -10),
];

static NAMES: LazyLock<HashMap<String, Tz>> = LazyLock::new(|| {
    let named = TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone));
    named.collect()
});

impl Zone {
    /// `+02:00`, `UTC`, `Europe/Berlin`, `PST`, in any letter case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(seconds) = parse_offset(text) {
            return Some(Self::Fixed(seconds));
        }
        let lower = text.to_ascii_lowercase();
        let abbreviation = ABBREVIATIONS.iter().find(|(name, _)| *name == lower);
        if let Some((_, hours)) = abbreviation {
            return Some(Self::Fixed(hours * 3600));
        }
        NAMES.get(&lower).map(|zone| Self::Named(*zone))
    }

    /// Seconds east of Greenwich at a moment, which is microseconds since 1970 in UTC.
    pub(crate) fn offset_at(self, micros: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => seconds_of(&zone.offset_from_utc_datetime(&naive(micros))),
        }
    }

    /// The same when clocks there show `micros`. A time that clocks skip is read as before they were changed, one that they show
    /// twice as after that.
    pub(crate) fn offset_at_local(self, micros: i64) -> i64 {
        let zone = match self {
            Self::Fixed(seconds) => return seconds,
            Self::Named(zone) => zone,
        };
        match zone.offset_from_local_datetime(&naive(micros)) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => seconds_of(&offset),
            LocalResult::None => {
                let before = zone.offset_from_local_datetime(&naive(micros.saturating_sub(MICROS_PER_DAY)));
                before.latest().map_or(0, |offset| seconds_of(&offset))
            }
        }
    }
}

fn seconds_of(offset: &impl chrono::Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// Zones have no history beyond what `chrono` can hold.
fn naive(micros: i64) -> NaiveDateTime {
    let moment = DateTime::from_timestamp(micros.div_euclid(MICROS_PER_SECOND), 0);
    moment.map_or(NaiveDateTime::MAX, |moment| moment.naive_utc())
}

#[cfg(test)]
mod tests {
    use super::super::moment::parse_timestamp;
    use super::*;

    #[test]
    fn clocks_are_read_as_postgresql_reads_them() {
        // SELECT extract(epoch FROM timestamp '…' - (timestamp '…' AT TIME ZONE '…' AT TIME ZONE 'UTC'))
        for (zone, local, offset) in [
            ("us/pacific", "2021-12-31 16:00:00", -8 * 3600),
            ("US/Pacific", "2022-03-13 02:00:00", -8 * 3600),
            ("US/Pacific", "2022-11-06 01:00:00", -8 * 3600),
            ("Europe/Moscow", "2011-03-27 02:00:00", 3 * 3600),
            ("Europe/Berlin", "2024-07-01 00:00:00", 2 * 3600),
            ("cet", "2024-07-01 00:00:00", 3600),
            ("+05:30", "2024-07-01 00:00:00", 19800),
            ("Australia/Lord_Howe", "2023-04-02 01:45:00", 37800),
        ] {
            let (micros, _) = parse_timestamp(local).expect(local);
            let found = Zone::parse(zone).expect(zone).offset_at_local(micros);
            assert_eq!(found, offset, "{local} in {zone}");
        }
        assert_eq!(Zone::parse("Europe/Atlantis"), None);
        let berlin = Zone::parse("Europe/Berlin").expect("a zone");
        let (summer, _) = parse_timestamp("2024-03-31 01:00:00").expect("a timestamp");
        assert_eq!((berlin.offset_at(summer), berlin.offset_at(summer - 1)), (7200, 3600));
        assert_eq!(berlin.offset_at(i64::MAX), berlin.offset_at(i64::MAX));
    }
}
