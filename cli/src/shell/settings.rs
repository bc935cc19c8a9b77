//! What `\set` changes. Each setting has one place, one parser and one way to be shown.

use std::fmt;
use std::str::FromStr;

use super::format::Format;

/// What to do after an error when nobody sits at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnError {
    /// Run nothing more and exit with the error's code.
    Stop,
    /// Run the rest; `sql` still exits with the first error's code.
    Continue,
}

/// Where footers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Footer {
    /// Under tables on a terminal or in a transcript; to standard error if that is a terminal; else nowhere.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// The shell's settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    pub(crate) expanded: bool,
    pub(crate) footer: Footer,
    /// Statements are printed before their answers.
    pub(crate) echo: bool,
    pub(crate) on_error: OnError,
    /// The most rows that a mode for people shows.
    pub(crate) rows: Option<usize>,
}

/// Rows that a table shows before it leaves out the middle.
pub(crate) const ROWS_DEFAULT: usize = 40;

impl Settings {
    /// Every setting with its value, as `\set` shows them.
    pub(crate) fn all(&self) -> [(&'static str, String); 6] {
        [
            ("format", self.format.name().to_owned()),
            ("expanded", on_off(self.expanded).to_owned()),
            ("footer", self.footer.to_string()),
            ("echo", on_off(self.echo).to_owned()),
            ("on_error", self.on_error.to_string()),
            (
                "rows",
                self.rows.map_or_else(|| "all".to_owned(), |rows| rows.to_string()),
            ),
        ]
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// A sentence that names what the setting takes.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "format" => self.format = value.parse()?,
            "expanded" => self.expanded = switch(name, value)?,
            "footer" => self.footer = value.parse()?,
            "echo" => self.echo = switch(name, value)?,
            "on_error" => self.on_error = value.parse()?,
            "rows" if value == "all" => self.rows = None,
            "rows" => {
                let rows = value.parse().ok().filter(|rows| *rows > 0);
                self.rows = Some(rows.ok_or_else(|| format!("`rows` takes a number above 0 or `all`, not `{value}`"))?);
            }
            _ => {
                let names: Vec<_> = self.all().iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "`{name}` is not a setting of the shell; there are {}. Settings of the session are SQL: \
                     SET staleness = '30s';",
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// `on` or `off` as a truth value.
pub(crate) fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(format!("`{name}` is `on` or `off`, not `{value}`")),
    }
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
        })
    }
}

impl FromStr for OnError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stop" => Ok(Self::Stop),
            "continue" => Ok(Self::Continue),
            _ => Err(format!("`on_error` is `stop` or `continue`, not `{text}`")),
        }
    }
}

impl fmt::Display for Footer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

impl FromStr for Footer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(format!("`footer` is `auto`, `on` or `off`, not `{text}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            format: Format::Box,
            expanded: false,
            footer: Footer::Auto,
            echo: false,
            on_error: OnError::Stop,
            rows: Some(ROWS_DEFAULT),
        }
    }

    #[test]
    fn every_setting_takes_back_what_it_shows() {
        let mut changed = settings();
        for (name, value) in [
            ("format", "json"),
            ("expanded", "on"),
            ("footer", "off"),
            ("echo", "on"),
            ("on_error", "continue"),
            ("rows", "all"),
        ] {
            changed.set(name, value).expect("a setting");
            assert!(changed.all().contains(&(name, value.to_owned())), "{name}");
        }
        for (name, value) in settings().all() {
            changed.set(name, &value).expect("a value that was shown");
        }
        assert_eq!(changed.all(), settings().all());
    }

    #[test]
    fn a_wrong_name_or_value_changes_nothing_and_says_what_is_right() {
        let mut changed = settings();
        for (name, value, says) in [
            ("format", "xml", "ndjson"),
            ("rows", "0", "above 0"),
            ("on_error", "retry", "continue"),
            ("staleness", "30s", "SET staleness"),
        ] {
            let error = changed.set(name, value).expect_err("refused");
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(changed.all(), settings().all());
    }
}
