//! Answers: one result per statement, and the way they came.

use std::time::Duration;

use candor_proto::{NodeName, Receipt, RedirectKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One per statement of the script.
    pub results: Vec<StatementResult>,
    /// The redirects that were followed, in order.
    pub hops: Vec<Hop>,
    /// From the call to the last byte.
    pub elapsed: Duration,
    /// Which node answered.
    pub node: Option<NodeName>,
    /// What the session has selected after the call.
    pub session: Option<SessionInfo>,
}

impl Answer {
    /// The last statement's result: that of a script of one statement.
    pub fn last(&self) -> Option<&StatementResult> {
        self.results.last()
    }
}

/// One redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node it named.
    pub node: NodeName,
    /// Where that node was reached.
    pub url: String,
    /// Whether it moved the connection.
    pub kind: RedirectKind,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its SQL type, for example `BIGINT`.
    #[serde(default)]
    pub r#type: String,
}

/// What one statement answered.
///
/// ```
/// use candor_client::StatementResult;
/// let result: StatementResult = serde_json::from_str(
///     r#"{"columns": [{"name": "id", "type": "BIGINT"}], "rows": [["9007199254740993"]], "rows_affected": null}"#,
/// ).unwrap();
/// assert_eq!(result.int(0, "id"), Some(9_007_199_254_740_993));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementResult {
    /// The columns; empty for a statement that answers no rows.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// The rows. Integers beyond ±(2^53−1) and every NUMERIC are strings, so that no digit is lost on the way.
    #[serde(default)]
    pub rows: Vec<Vec<Value>>,
    /// How many rows a write changed.
    #[serde(default)]
    pub rows_affected: Option<u64>,
    /// Who answered, at which version, from how old a copy.
    #[serde(default)]
    pub receipt: Option<Receipt>,
}

impl StatementResult {
    /// The ordinal of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// One value; `None` if there is no such row or column.
    pub fn value(&self, row: usize, column: &str) -> Option<&Value> {
        self.rows.get(row)?.get(self.column(column)?)
    }

    /// One value as text; `None` for NULL and for what is not text.
    pub fn text(&self, row: usize, column: &str) -> Option<&str> {
        self.value(row, column)?.as_str()
    }

    /// One value as an integer, whichever way it travelled.
    pub fn int(&self, row: usize, column: &str) -> Option<i64> {
        match self.value(row, column)? {
            Value::Number(number) => number.as_i64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// One value as a double, whichever way it travelled.
    pub fn float(&self, row: usize, column: &str) -> Option<f64> {
        match self.value(row, column)? {
            Value::Number(number) => number.as_f64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// One value as a truth value.
    pub fn bool(&self, row: usize, column: &str) -> Option<bool> {
        self.value(row, column)?.as_bool()
    }

    /// The first value of the first row: the answer of `SELECT count(*) …` or `RETURN …`.
    pub fn scalar(&self) -> Option<&Value> {
        self.rows.first()?.first()
    }

    /// Every row as a value of the caller's type, by column name.
    ///
    /// # Errors
    /// If a row does not fit the type.
    pub fn rows_as<T: serde::de::DeserializeOwned>(&self) -> Result<Vec<T>, serde_json::Error> {
        let names = || self.columns.iter().map(|column| column.name.clone());
        let object = |row: &Vec<Value>| Value::Object(names().zip(row.iter().cloned()).collect());
        self.rows
            .iter()
            .map(|row| serde_json::from_value(object(row)))
            .collect()
    }
}

/// What a session has selected, as every JSON answer tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The selected namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The selected database.
    #[serde(default)]
    pub database: Option<String>,
    /// What `SET` changed.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// A transaction is open.
    #[serde(default)]
    pub transaction: bool,
}
