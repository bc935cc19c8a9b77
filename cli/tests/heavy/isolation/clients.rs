//! What the clients do: each turn is one of a few kinds, drawn by a generator of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use super::books::{Books, Finals, Outcome};
use super::history::{Seen, Step, Transaction};
use crate::harness::{Answer, Door};

/// Accounts, and what all of them hold together.
pub(super) const ACCOUNTS: u64 = 8;
pub(super) const TOTAL: i64 = 8000;

/// Keys of the upserts, and counters.
const TALLIES: u64 = 5;
const COUNTERS: u64 = 2;

/// Lists that are used at a time. After so many transactions it is the next ones' turn: every read is kept for the books, so
/// lists that grew for minutes would take all memory there is.
const LISTS: u64 = 6;
const TRANSACTIONS: u64 = 400;
const LISTS_ALL: u64 = 1000 * LISTS;

pub(super) async fn define(door: &Door) {
    door.run(&format!(
        "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
         INSERT INTO account SELECT value, 1000 FROM generate_series(0, 7) AS n(value);
         CREATE TABLE tally (id BIGINT PRIMARY KEY, name TEXT UNIQUE, n BIGINT NOT NULL);
         CREATE TABLE counter (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);
         INSERT INTO counter VALUES (0, 0), (1, 0);
         CREATE TABLE list (id BIGINT PRIMARY KEY, items TEXT NOT NULL);
         INSERT INTO list SELECT value, '' FROM generate_series(0, {}) AS n(value)",
        LISTS_ALL - 1
    ))
    .await;
}

/// All that is there at the end.
pub(super) async fn finals(door: &Door) -> Option<Finals> {
    let sql = "BEGIN READ ONLY; SELECT sum(balance) FROM account; SELECT count(*), count(DISTINCT id), \
               count(DISTINCT name), sum(n) FROM tally; SELECT n FROM counter ORDER BY id; \
               SELECT id, items FROM list ORDER BY id; COMMIT";
    let answer = door.try_ask(sql).await.ok().filter(|answer| answer.status == 200)?;
    let tally: Vec<i64> = (0..4).map(|at| integer(&answer.rows(2)[0][at])).collect();
    Some(Finals {
        total: integer(&answer.rows(1)[0][0]),
        tallies: (tally[0], tally[1], tally[2]),
        tallied: tally[3],
        counters: answer.rows(3).iter().map(|row| integer(&row[0])).collect(),
        lists: answer.rows(4).iter().map(|row| items(&row[1])).collect(),
    })
}

/// Sums come as texts or numbers, whatever the type of a sum is.
fn integer(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().expect("a whole number"),
        Value::Null => 0,
        value => value.as_i64().expect("a whole number"),
    }
}

fn items(value: &Value) -> Vec<String> {
    let text = value.as_str().expect("a text");
    text.split_terminator(';').map(str::to_owned).collect()
}

/// One client.
pub(super) struct Client {
    number: usize,
    door: Door,
    books: Arc<Mutex<Books>>,
    stop: Arc<AtomicBool>,
    state: u64,
    turns: u64,
    /// The kept session of its longer transactions.
    session: Option<Door>,
}

impl Client {
    pub(super) fn new(number: usize, door: Door, books: Arc<Mutex<Books>>, stop: Arc<AtomicBool>) -> Self {
        Self {
            number,
            door,
            books,
            stop,
            state: 0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1),
            turns: 0,
            session: None,
        }
    }

    /// A number below `limit`.
    fn draw(&mut self, limit: u64) -> u64 {
        // xorshift64*: any spread will do, and it is the same on every run.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub(super) async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.turns += 1;
            match self.draw(6) {
                0 => self.transfer().await,
                1 => self.upsert().await,
                2 => self.count().await,
                3 => self.look().await,
                _ => self.append().await,
            }
        }
    }

    /// From one account to another, in one transaction.
    async fn transfer(&mut self) {
        let (from, to, amount) = (self.draw(ACCOUNTS), self.draw(ACCOUNTS), self.draw(50));
        let sql = format!(
            "BEGIN; UPDATE account SET balance = balance - {amount} WHERE id = {from}; \
             UPDATE account SET balance = balance + {amount} WHERE id = {to}; COMMIT"
        );
        let outcome = outcome(&self.door.try_ask(&sql).await);
        self.books.lock().transfers.add(outcome);
    }

    /// By the primary key or by the unique key: neither is ever a violation.
    async fn upsert(&mut self) {
        let key = self.draw(TALLIES);
        let target = if self.draw(2) == 0 { "id" } else { "name" };
        let sql = format!(
            "INSERT INTO tally VALUES ({key}, 'n{key}', 1) ON CONFLICT ({target}) DO UPDATE SET n = tally.n + 1"
        );
        let answer = self.door.try_ask(&sql).await;
        if let Ok(answer) = &answer {
            assert_ne!(answer.code(), "unique", "{answer:?}");
        }
        self.books.lock().upserts.add(outcome(&answer));
    }

    /// One statement that reads and writes a row.
    async fn count(&mut self) {
        let counter = self.draw(COUNTERS);
        let sql = format!("UPDATE counter SET n = n + 1 WHERE id = {counter}");
        let outcome = outcome(&self.door.try_ask(&sql).await);
        self.books.lock().counts[counter as usize].add(outcome);
    }

    /// Money is neither made nor lost in any state that anybody sees, and a transaction sees one.
    async fn look(&mut self) {
        let sql = "BEGIN READ ONLY; SELECT sum(balance) FROM account; SELECT id, balance FROM account ORDER BY id; \
                   SELECT sum(balance) FROM account; COMMIT";
        let Ok(answer) = self.door.try_ask(sql).await else {
            return;
        };
        if answer.status != 200 {
            refused(&answer);
            return;
        }
        let rows = answer.rows(2).iter().map(|row| integer(&row[1])).sum();
        let sums = [integer(&answer.rows(1)[0][0]), rows, integer(&answer.rows(3)[0][0])];
        assert_eq!(sums, [TOTAL; 3], "a state in which money is on its way");
        self.books.lock().looks += 1;
    }

    /// Reads some lists and appends to some, over several requests, now and then to one list twice; some are rolled
    /// back on purpose.
    async fn append(&mut self) {
        if self.session.is_none() {
            self.session = self.door.session().await;
        }
        let Some(session) = self.session.take() else { return };
        let mut steps = Vec::new();
        let outcome = self.steps(&session, &mut steps).await;
        // A transaction that is still open goes; where the session went with its node, there is nothing to take back.
        let usable = match outcome {
            Outcome::Done => true,
            Outcome::Refused => match session.try_ask("ROLLBACK").await {
                Ok(answer) => answer.code() != "session-dead",
                Err(_) => false,
            },
            Outcome::Unknown => false,
        };
        self.session = usable.then_some(session);
        let mut books = self.books.lock();
        books.appends.add(outcome);
        books.history.push(Transaction { steps, outcome });
    }

    async fn steps(&mut self, session: &Door, steps: &mut Vec<Step>) -> Outcome {
        let begun = session.try_ask("BEGIN").await;
        match outcome(&begun) {
            Outcome::Done => {}
            // Nothing was written, so nothing is unknown.
            Outcome::Refused | Outcome::Unknown => return Outcome::Refused,
        }
        let first = self.books.lock().history.len() as u64 / TRANSACTIONS * LISTS;
        for at in 0..=self.draw(4) {
            let list = (first + self.draw(LISTS)) % LISTS_ALL;
            let step = if self.draw(2) == 0 {
                let sql = format!("SELECT items FROM list WHERE id = {list}");
                match session.try_ask(&sql).await {
                    Ok(answer) if answer.status == 200 => Step::Read(Seen {
                        list: list as usize,
                        items: items(&answer.rows(0)[0][0]),
                    }),
                    Ok(answer) => {
                        refused(&answer);
                        return Outcome::Refused;
                    }
                    Err(_) => return Outcome::Refused,
                }
            } else {
                let item = format!("{}-{}-{at}", self.number, self.turns);
                let sql = format!("UPDATE list SET items = items || '{item};' WHERE id = {list}");
                match outcome(&session.try_ask(&sql).await) {
                    Outcome::Done => Step::Append {
                        list: list as usize,
                        item,
                    },
                    Outcome::Refused | Outcome::Unknown => return Outcome::Refused,
                }
            };
            steps.push(step);
        }
        let (end, kept) = if self.draw(8) == 0 {
            ("ROLLBACK", false)
        } else {
            ("COMMIT", true)
        };
        match outcome(&session.try_ask(end).await) {
            Outcome::Done if kept => Outcome::Done,
            Outcome::Unknown if kept => Outcome::Unknown,
            _ => Outcome::Refused,
        }
    }
}

/// What an answer, or none, says about a write.
fn outcome(answer: &reqwest::Result<Answer>) -> Outcome {
    match answer {
        // Nothing listens: nothing was sent.
        Err(error) if error.is_connect() => Outcome::Refused,
        Err(_) => Outcome::Unknown,
        Ok(answer) if answer.status == 200 => Outcome::Done,
        Ok(answer) if answer.code() == "outcome-unknown" => Outcome::Unknown,
        Ok(answer) => {
            refused(answer);
            Outcome::Refused
        }
    }
}

/// Of refusals only those that the load explains.
fn refused(answer: &Answer) {
    let explained = [
        "conflict",
        "overloaded",
        "session-dead",
        "starting",
        "stopping",
        "no-leader",
        "not-leader",
        "redirect",
        "transaction-state",
    ];
    assert!(explained.contains(&answer.code()), "{answer:?}");
}
