//! What `SET`, `RESET` and `SHOW` know. A name that is not here is an error, never a silent success.

use std::time::Duration;

use candor_parser::span::parse_span;
use candor_planner::Fallback;
use candor_proto::{ErrorBody, ErrorCode};

/// The settings of one session. A statement's own tail wins over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The bound of reads that name none.
    pub(crate) staleness: Option<Duration>,
    /// Reads that say nothing are answered by the leader.
    pub(crate) answered_by_leader: bool,
    /// What a freshness read does that no follower may answer.
    pub(crate) fallback: Fallback,
    /// The deadline of each statement, never above the node's own.
    pub(crate) statement_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            staleness: None,
            answered_by_leader: false,
            fallback: Fallback::Refuse,
            statement_timeout: None,
        }
    }
}

const NAMES: [&str; 4] = ["answered_by", "staleness", "staleness_fallback", "statement_timeout"];

impl Settings {
    /// All settings with their values as text, in order of name; an unset one is empty.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        NAMES
            .iter()
            .map(|name| (*name, self.value(name).unwrap_or_default()))
            .collect()
    }

    /// The settings that are not at their default.
    pub(crate) fn changed(&self) -> Vec<(&'static str, String)> {
        let default = Self::default();
        self.all()
            .into_iter()
            .filter(|(name, value)| default.value(name).as_ref() != Some(value))
            .collect()
    }

    fn value(&self, name: &str) -> Option<String> {
        let text = |span: Option<Duration>| span.map(candor_planner::span).unwrap_or_default();
        Some(match name {
            "staleness" => text(self.staleness),
            "answered_by" => if self.answered_by_leader { "leader" } else { "any" }.to_owned(),
            "staleness_fallback" => if self.fallback == Fallback::Leader {
                "leader"
            } else {
                "refuse"
            }
            .to_owned(),
            "statement_timeout" => text(self.statement_timeout),
            _ => return None,
        })
    }

    /// The value of one setting as text.
    pub(crate) fn show(&self, name: &str) -> Result<String, ErrorBody> {
        let name = name.to_lowercase();
        // Every transaction is of this kind: there is nothing to set.
        if name == "transaction_isolation" {
            return Ok("repeatable read".to_owned());
        }
        if name == "timezone" {
            return Ok("UTC".to_owned());
        }
        self.value(&name).ok_or_else(|| unknown(&name))
    }

    /// Changes one setting; empty text unsets a span.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), ErrorBody> {
        let choice = |words: &[&str]| {
            let lower = value.to_lowercase();
            words.iter().position(|word| *word == lower).ok_or_else(|| {
                ErrorBody::new(ErrorCode::BadParameter, format!("`{value}` is no value of {name}"))
                    .with_help(format!("it takes one of: {}", words.join(", ")))
            })
        };
        match name.to_lowercase().as_str() {
            "staleness" => self.staleness = bound(name, value)?,
            "answered_by" => self.answered_by_leader = choice(&["any", "leader"])? == 1,
            "staleness_fallback" => {
                self.fallback = if choice(&["refuse", "leader"])? == 1 {
                    Fallback::Leader
                } else {
                    Fallback::Refuse
                };
            }
            "statement_timeout" => self.statement_timeout = bound(name, value)?,
            "timezone" => utc(value)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Puts one setting back to its default.
    pub(crate) fn reset(&mut self, name: &str) -> Result<(), ErrorBody> {
        if name.eq_ignore_ascii_case("timezone") {
            return Ok(());
        }
        let default = Self::default()
            .value(&name.to_lowercase())
            .ok_or_else(|| unknown(name))?;
        self.set(name, &default)
    }

    /// Takes the settings that a request brought along: `staleness=30s; staleness_fallback=leader`.
    pub(crate) fn take_header(&mut self, header: &str) -> Result<(), ErrorBody> {
        for pair in header.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                ErrorBody::new(ErrorCode::BadRequest, format!("Candor-Settings: `{pair}` has no `=`"))
                    .with_help("write `Candor-Settings: staleness=30s; staleness_fallback=leader`")
            })?;
            self.set(name.trim(), value.trim())?;
        }
        Ok(())
    }
}

/// Moments are read and printed in UTC, which is what this setting can say.
fn utc(value: &str) -> Result<(), ErrorBody> {
    let names = [
        "utc",
        "gmt",
        "z",
        "zulu",
        "etc/utc",
        "universal",
        "0",
        "+0",
        "+00",
        "+00:00",
    ];
    if names.contains(&value.to_lowercase().as_str()) {
        return Ok(());
    }
    Err(ErrorBody::new(
        ErrorCode::BadParameter,
        format!("timezone is UTC here, and `{value}` is another one"),
    )
    .with_help("AT TIME ZONE shows a moment by the clocks of any zone"))
}

/// A span above zero, or nothing for empty text.
fn bound(name: &str, value: &str) -> Result<Option<Duration>, ErrorBody> {
    if value.is_empty() {
        return Ok(None);
    }
    let span =
        parse_span(value).map_err(|error| ErrorBody::new(ErrorCode::BadParameter, format!("{name}: {error}")))?;
    if span.is_zero() {
        return Err(
            ErrorBody::new(ErrorCode::BadParameter, format!("{name} must be longer than 0s"))
                .with_help(format!("RESET {name} takes it away")),
        );
    }
    Ok(Some(span))
}

/// Settings of PostgreSQL about locks.
const LOCK_SETTINGS: [&str; 2] = ["lock_timeout", "deadlock_timeout"];

fn unknown(name: &str) -> ErrorBody {
    if LOCK_SETTINGS.contains(&name.to_lowercase().as_str()) {
        return ErrorBody::new(
            ErrorCode::BadParameter,
            format!("there is no setting `{name}`, because there are no locks that a statement could wait for"),
        )
        .with_help("statement_timeout bounds a statement; of two transactions that write the same row the first wins");
    }
    ErrorBody::new(ErrorCode::BadParameter, format!("there is no setting `{name}`"))
        .with_help(format!("the settings are: {}", NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_sets_and_show_reads_back() {
        let mut settings = Settings::default();
        settings
            .take_header("staleness=30s; staleness_fallback=LEADER;")
            .expect("known settings");
        assert_eq!(settings.staleness, Some(Duration::from_secs(30)));
        assert_eq!(settings.fallback, Fallback::Leader);
        assert_eq!(settings.show("staleness").expect("known"), "30s");
        settings.reset("staleness").expect("known");
        assert_eq!(settings.staleness, None);
    }

    #[test]
    fn what_is_unknown_or_does_not_fit_is_refused() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("work_mem", "4MB"),
            ("staleness", "soon"),
            ("staleness", "0s"),
            ("staleness", "-5s"),
            ("answered_by", "master"),
            ("staleness_fallback", "anyone"),
        ] {
            assert!(settings.set(name, value).is_err(), "{name} = {value}");
        }
        assert_eq!(settings, Settings::default());
    }
}
