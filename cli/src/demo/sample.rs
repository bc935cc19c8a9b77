//! The demo's tables: orders, events, accounts and prices, a few hundred rows that hang together and are the same in
//! every demo, so that the tour can show what it prints.

use std::fmt::Write;

/// One table: how it is made and filled.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) define: &'static str,
    pub(crate) insert: String,
}

/// The table that is filled last: who holds it holds everything.
pub(crate) const LAST_TABLE: &str = "events";

const ORDERS: u64 = 300;
const EVENTS: u64 = 420;
const ACCOUNTS: u64 = 60;

/// What is sold, with prices in cents.
const PRICES: [(&str, u64); 12] = [
    ("anchor", 18_900),
    ("barometer", 7_450),
    ("compass", 2_995),
    ("deck chair", 5_400),
    ("fog horn", 3_250),
    ("lantern", 2_190),
    ("life jacket", 6_800),
    ("logbook", 1_250),
    ("pennant", 890),
    ("rope 20 m", 2_600),
    ("sextant", 24_500),
    ("spyglass", 9_900),
];

const NAMES: [&str; 20] = [
    "Ada", "Amare", "Bo", "Chidi", "Elif", "Farah", "Goran", "Hana", "Ines", "Jun", "Kofi", "Lena", "Mateo", "Nadia",
    "Olu", "Priya", "Rosa", "Sven", "Tala", "Yuki",
];

const KINDS: [&str; 6] = ["placed", "paid", "packed", "shipped", "delivered", "returned"];

/// 2026-01-05T08:00:00Z, when the shop opened.
const OPENED: u64 = 1_767_600_000;

/// A small generator (the constants of Knuth's MMIX): the rows need variety, nothing else.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// The four tables in the order in which they are made.
pub(crate) fn tables() -> [Sample; 4] {
    let mut dice = Dice(7);
    [
        Sample {
            define: "DEFINE COLLECTION prices (id BIGINT PRIMARY KEY, item TEXT NOT NULL UNIQUE, price NUMERIC(10, 2) NOT NULL)",
            insert: insert("prices", "id, item, price", PRICES.len() as u64, |row, id| {
                let (item, price) = PRICES[id as usize - 1];
                let _ = write!(row, "{id}, '{item}', {}", cents(price));
            }),
        },
        Sample {
            define: "DEFINE COLLECTION accounts (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance NUMERIC(12, 2) NOT NULL)",
            insert: insert("accounts", "id, owner, balance", ACCOUNTS, |row, id| {
                let owner = NAMES[(id as usize - 1) % NAMES.len()];
                let _ = write!(row, "{id}, '{owner}', {}", cents(dice.roll(200_000)));
            }),
        },
        Sample {
            define: "DEFINE COLLECTION orders (id BIGINT PRIMARY KEY, account BIGINT NOT NULL, item TEXT NOT NULL, \
                     quantity INTEGER NOT NULL, total NUMERIC(12, 2) NOT NULL, placed TIMESTAMP NOT NULL)",
            insert: insert(
                "orders",
                "id, account, item, quantity, total, placed",
                ORDERS,
                |row, id| {
                    let (item, price) = dice.pick(&PRICES);
                    let (account, quantity) = (1 + dice.roll(ACCOUNTS), 1 + dice.roll(4));
                    let placed = timestamp(OPENED + id * 2_040 + dice.roll(1_800));
                    let _ = write!(
                        row,
                        "{id}, {account}, '{item}', {quantity}, {}, TIMESTAMP '{placed}'",
                        cents(price * quantity)
                    );
                },
            ),
        },
        Sample {
            define: "DEFINE COLLECTION events (id BIGINT PRIMARY KEY, at BIGINT NOT NULL, kind TEXT NOT NULL, order_id BIGINT NOT NULL)",
            insert: insert("events", "id, at, kind, order_id", EVENTS, |row, id| {
                let order = 1 + (id - 1) * ORDERS / EVENTS;
                let at = OPENED + order * 2_040 + 1_800 + dice.roll(86_400);
                let _ = write!(row, "{id}, {at}, '{}', {order}", dice.pick(&KINDS));
            }),
        },
    ]
}

fn insert(table: &str, columns: &str, rows: u64, mut row: impl FnMut(&mut String, u64)) -> String {
    let mut text = format!("INSERT INTO {table} ({columns}) VALUES ");
    for id in 1..=rows {
        text.push_str(if id == 1 { "(" } else { ", (" });
        row(&mut text, id);
        text.push(')');
    }
    text
}

fn cents(amount: u64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

/// Seconds since 1970 as `2026-01-05 08:00:00` (days to civil date after Howard Hinnant's `civil_from_days`).
fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demo_has_the_same_rows() {
        let (one, two) = (tables(), tables());
        for (a, b) in one.iter().zip(&two) {
            assert_eq!(a.insert, b.insert, "{}", a.define);
        }
        assert!(
            one.iter()
                .map(|table| table.insert.matches("), (").count() + 1)
                .sum::<usize>()
                > 700
        );
    }

    #[test]
    fn dates_are_the_calendar_s() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00");
        assert_eq!(timestamp(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(timestamp(OPENED), "2026-01-05 08:00:00");
    }
}
