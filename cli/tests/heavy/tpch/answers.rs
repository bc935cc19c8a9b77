//! A reference answer (a sqllogictest record: types, query, rows) and how an answer is held against it.
//!
//! Text and integers are compared exactly; other numbers within 0.01 or a part in 10^9, because decimal averages are
//! rounded at different scales. Rows are compared in order where the query's ORDER BY decides between all of them,
//! sorted otherwise. Some reference queries end with a smaller LIMIT than the query that is run: then the first rows
//! are compared, and more may follow.

use serde_json::Value;

use super::cell;

const ABSOLUTE: f64 = 0.01;
const RELATIVE: f64 = 1e-9;

/// The record of one query.
#[derive(Debug)]
pub(super) struct Expected {
    /// One letter a column: `I` integer, `R` another number, `T` text.
    types: Vec<char>,
    rows: Vec<String>,
    /// It names a LIMIT and is as long as that: there may be more rows than these.
    cut: bool,
    /// Rows that the ORDER BY leaves equal may come in any order.
    loose: bool,
}

impl Expected {
    pub(super) fn read(record: &str) -> Self {
        let lines: Vec<&str> = record.lines().map(str::trim_end).collect();
        let head = lines
            .iter()
            .position(|line| line.starts_with("query "))
            .expect("a query record");
        let split = lines.iter().position(|line| *line == "----").expect("rows");
        let types = lines[head]["query ".len()..].trim().chars().collect();
        let query = lines[head + 1..split].join(" ");
        let rows: Vec<String> = lines[split + 1..]
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| (*line).to_owned())
            .collect();
        let limit = query
            .rsplit_once("limit ")
            .and_then(|(_, rest)| rest.trim_end_matches(';').trim().parse().ok());
        // Orders by sums and dates, which may tie: revenue, value, price.
        let order = query
            .rsplit_once("order by")
            .map_or("", |(_, order)| order.trim_start());
        let loose = ["revenue", "value", "o_totalprice"]
            .iter()
            .any(|word| order.starts_with(word));
        Self {
            types,
            cut: limit == Some(rows.len()),
            rows,
            loose,
        }
    }

    /// # Errors
    /// The first difference, in words.
    pub(super) fn compare(&self, rows: &[Value]) -> Result<(), String> {
        let enough = if self.cut {
            rows.len() >= self.rows.len()
        } else {
            rows.len() == self.rows.len()
        };
        if !enough {
            return Err(format!("{} rows instead of {}", rows.len(), self.rows.len()));
        }
        let mut ours: Vec<Vec<String>> = rows[..self.rows.len()].iter().map(cells).collect();
        let mut theirs: Vec<&String> = self.rows.iter().collect();
        if self.loose {
            ours.sort_by_key(|row| row.join(" "));
            theirs.sort();
        }
        for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            self.compare_row(ours, theirs)
                .map_err(|why| format!("row {index}: {why}\n  ours   {ours:?}\n  theirs {theirs}"))?;
        }
        Ok(())
    }

    /// Takes the cells off the front of `line` one by one: text may hold blanks, so our own cells say how far each goes.
    /// Blanks at the end of a line are not kept in records.
    fn compare_row(&self, cells: &[String], line: &str) -> Result<(), String> {
        if cells.len() != self.types.len() {
            return Err(format!("{} columns instead of {}", cells.len(), self.types.len()));
        }
        let mut rest = format!("{line} ");
        for (index, (kind, cell)) in self.types.iter().zip(cells).enumerate() {
            let cell = if index + 1 == cells.len() {
                cell.trim_end()
            } else {
                cell
            };
            let after = if *kind == 'R' {
                rest.split_once(' ')
                    .filter(|(word, _)| close(cell, word))
                    .map(|(_, after)| after)
            } else {
                rest.strip_prefix(cell).and_then(|after| after.strip_prefix(' '))
            };
            rest = after
                .ok_or_else(|| format!("`{cell}` where `{rest}` begins"))?
                .to_owned();
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(format!("`{rest}` is missing"))
        }
    }
}

fn cells(row: &Value) -> Vec<String> {
    row.as_array().expect("a row").iter().map(cell).collect()
}

fn close(ours: &str, theirs: &str) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= ABSOLUTE.max(theirs.abs() * RELATIVE),
        _ => ours == theirs,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(order: &str, limit: &str) -> Expected {
        Expected::read(&format!(
            "query TIR\nselect a, b, c\nfrom t\norder by\n  {order}\n{limit};\n----\nUNITED KINGDOM 1 2.5\nFRANCE 2 1000000000000\n\n"
        ))
    }

    #[test]
    fn differences_are_found() {
        let right = [
            json!(["UNITED KINGDOM", 1, "2.500000"]),
            json!(["FRANCE", 2, "1000000000000.1"]),
        ];
        assert_eq!(record("a", "").compare(&right), Ok(()));
        for (row, wrong) in [
            (0, json!(["UNITED", 1, "2.5"])),
            (0, json!(["UNITED KINGDOM", 11, "2.5"])),
            (0, json!(["UNITED KINGDOM", 1, "2.52"])),
            (0, json!(["UNITED KINGDOM", 1])),
            (1, json!(["FRANCE", 2, null])),
        ] {
            let mut rows = right.clone();
            rows[row] = wrong;
            assert!(record("a", "").compare(&rows).is_err(), "{rows:?}");
        }
        let turned = [right[1].clone(), right[0].clone()];
        assert!(record("a", "").compare(&turned).is_err());
        assert_eq!(record("revenue desc", "").compare(&turned), Ok(()));
    }

    #[test]
    fn only_a_limit_that_was_reached_lets_more_rows_follow() {
        let three = [
            json!(["UNITED KINGDOM", 1, "2.5"]),
            json!(["FRANCE", 2, "1e12"]),
            json!(["X", 3, "3"]),
        ];
        assert_eq!(record("a", "limit 2").compare(&three), Ok(()));
        assert!(record("a", "limit 20").compare(&three).is_err());
        assert!(record("a", "").compare(&three).is_err());
        assert!(record("a", "limit 2").compare(&three[..1]).is_err());
    }
}
