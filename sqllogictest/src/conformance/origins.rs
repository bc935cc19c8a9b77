//! Where suites come from, and how each origin writes them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::reader::Flavour;
use crate::files::{below, files};

/// One set of suites.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// What it is called, on the command line and in reports.
    pub(crate) name: &'static str,
    /// Its folder below the root.
    pub(crate) folder: &'static str,
    /// Where relative paths of statements start, below the folder.
    pub(crate) working_folder: &'static str,
    /// Endings of its scripts.
    pub(crate) endings: &'static [&'static str],
    /// Parts that only other scripts include: not run on their own.
    pub(crate) parts: Parts,
    pub(crate) format: Format,
    /// Names under which `skipif` and `onlyif` know the engine.
    pub(crate) labels: &'static [&'static str],
    /// The database in which each script starts.
    pub(crate) database: &'static str,
    pub(crate) style: Style,
    /// Folders whose records get a row of their own in the table: the folder below this one.
    pub(crate) topics_below: Option<&'static str>,
    /// Whether files are written beside the scripts, so that they run in a copy.
    pub(crate) writes_files: bool,
    /// What one record may take at least.
    pub(crate) deadline_min: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Slt(Flavour),
    /// Pairs of `.sql` and `.result`.
    Sqlness,
    /// The 22 queries of TPC-H with their answers, as one script.
    Tpch,
}

/// Which files are parts of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// None is known by its name: those that another file includes.
    Included,
    /// Names that start with `_`.
    Underscore,
}

/// How an origin prints values.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent habits, of which an origin has any"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    pub(crate) booleans: Booleans,
    pub(crate) arrays: Arrays,
    /// `T` between date and time.
    pub(crate) iso_timestamps: bool,
    /// NULL is printed as nothing.
    pub(crate) null_is_empty: bool,
    /// The letters of the `query` line decide how values are printed, as SQLite's own runner prints them.
    pub(crate) letters_render: bool,
    /// Fractions with at most twelve digits, without zeros at the end.
    pub(crate) plain_fractions: bool,
    /// How far numbers with a fraction may lie apart.
    pub(crate) closeness: Closeness,
    /// A value of several lines is spread over numbered lines.
    pub(crate) numbered_lines: bool,
    /// Where NULLs stand.
    pub(crate) nulls: Nulls,
    /// Bytes one by one, as characters where they are such that can be printed.
    pub(crate) bytes_one_by_one: bool,
    /// Intervals say `month` for `mon`, and no plus behind a minus.
    pub(crate) months_in_full: bool,
    pub(crate) offsets: Offsets,
    /// Fractions of seconds have three digits or six.
    pub(crate) thousandths: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Booleans {
    #[default]
    Words,
    Letters,
    Digits,
}

/// How values of several parts are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Arrays {
    /// `[1, 2]` and `{a: 1}`
    #[default]
    Spaced,
    /// `[1,2]` and `{"a":1}`
    Json,
    /// `{1,2}` and `(1,2)`
    Postgres,
}

/// How the offset of a zone is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offsets {
    /// `+00`
    #[default]
    Short,
    /// `+00:00`
    Minutes,
    /// ` +00:00`, behind BC
    Apart,
}

/// Where an ORDER BY that does not say so puts NULLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Last, and first under DESC, as in PostgreSQL.
    #[default]
    Largest,
    /// First, and last under DESC.
    Smallest,
    /// Last, unless a script says `nulls_first`.
    Last,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Closeness {
    /// The same text.
    #[default]
    Exact,
    /// The same to about six digits: what single precision and another order of additions leave.
    Relative,
    /// Within a cent: averages of money.
    Cent,
}

const PLAIN: Style = Style {
    booleans: Booleans::Words,
    arrays: Arrays::Spaced,
    iso_timestamps: false,
    null_is_empty: false,
    letters_render: false,
    plain_fractions: false,
    closeness: Closeness::Relative,
    numbered_lines: false,
    nulls: Nulls::Largest,
    bytes_one_by_one: false,
    months_in_full: false,
    offsets: Offsets::Short,
    thousandths: false,
};

/// Every origin, in the order of the table.
pub(crate) const ORIGINS: &[Origin] = &[
    Origin {
        name: "sqlite",
        folder: "sqlite",
        working_folder: "",
        endings: &["test"],
        parts: Parts::Included,
        format: Format::Slt(Flavour {
            one_value_a_line: true,
            ..SLT
        }),
        labels: &["postgresql"],
        database: "main",
        style: Style {
            letters_render: true,
            closeness: Closeness::Exact,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "datafusion-sqlite",
        folder: "datafusion-sqlite",
        working_folder: "",
        endings: &["slt"],
        parts: Parts::Included,
        format: Format::Slt(Flavour {
            answers_in_comments: true,
            create_index_succeeds: true,
            error_ends_at_two_blanks: true,
            ..SLT
        }),
        labels: &["Datafusion"],
        database: "main",
        style: Style {
            iso_timestamps: true,
            plain_fractions: true,
            closeness: Closeness::Exact,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "datafusion",
        folder: "datafusion",
        working_folder: "datafusion/sqllogictest",
        endings: &["slt"],
        parts: Parts::Included,
        format: Format::Slt(Flavour {
            error_ends_at_two_blanks: true,
            ..SLT
        }),
        labels: &["postgres", "postgresql"],
        database: "public",
        style: Style {
            iso_timestamps: true,
            plain_fractions: true,
            numbered_lines: true,
            ..PLAIN
        },
        topics_below: Some("datafusion/sqllogictest/test_files"),
        writes_files: true,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "duckdb",
        folder: "duckdb",
        working_folder: "",
        endings: &["test"],
        parts: Parts::Included,
        format: Format::Slt(Flavour { duckdb: true, ..SLT }),
        labels: &["duckdb"],
        database: "main",
        style: Style {
            nulls: Nulls::Last,
            bytes_one_by_one: true,
            months_in_full: true,
            ..PLAIN
        },
        topics_below: Some("test/sql"),
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "risingwave",
        folder: "risingwave",
        working_folder: "",
        endings: &["slt", "part"],
        parts: Parts::Included,
        format: Format::Slt(Flavour {
            materialized_views: true,
            error_ends_at_two_blanks: true,
            ..SLT
        }),
        labels: &["risingwave"],
        database: "public",
        style: Style {
            booleans: Booleans::Letters,
            arrays: Arrays::Postgres,
            offsets: Offsets::Minutes,
            thousandths: true,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "databend",
        folder: "databend",
        working_folder: "",
        endings: &["test"],
        parts: Parts::Included,
        format: Format::Slt(Flavour {
            error_ends_at_two_blanks: true,
            ..SLT
        }),
        labels: &["http"],
        database: "default",
        style: Style {
            booleans: Booleans::Digits,
            arrays: Arrays::Json,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "greptimedb",
        folder: "greptimedb",
        working_folder: "",
        endings: &["sql"],
        parts: Parts::Included,
        format: Format::Sqlness,
        labels: &[],
        database: "public",
        style: Style {
            iso_timestamps: true,
            null_is_empty: true,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "risinglight",
        folder: "risinglight",
        working_folder: "",
        endings: &["slt"],
        parts: Parts::Underscore,
        format: Format::Slt(Flavour {
            error_ends_at_two_blanks: true,
            ..SLT
        }),
        labels: &["risinglight"],
        database: "main",
        style: Style {
            nulls: Nulls::Smallest,
            offsets: Offsets::Apart,
            bytes_one_by_one: true,
            closeness: Closeness::Cent,
            ..PLAIN
        },
        topics_below: None,
        writes_files: false,
        deadline_min: Duration::ZERO,
    },
    Origin {
        name: "tpch",
        folder: "tpch",
        working_folder: "",
        endings: &["sql"],
        parts: Parts::Included,
        format: Format::Tpch,
        labels: &[],
        database: "main",
        style: Style {
            closeness: Closeness::Cent,
            ..PLAIN
        },
        topics_below: None,
        writes_files: true,
        deadline_min: LOAD_TIME_MAX,
    },
];

/// How long a COPY of six million rows may take.
const LOAD_TIME_MAX: Duration = Duration::from_mins(20);

const SLT: Flavour = Flavour {
    duckdb: false,
    error_ends_at_two_blanks: false,
    answers_in_comments: false,
    one_value_a_line: false,
    materialized_views: false,
    create_index_succeeds: false,
};

impl Origin {
    /// The scripts below `folder`, as paths below it, in order.
    pub(crate) fn scripts(&self, folder: &Path) -> Result<Vec<String>> {
        if matches!(self.format, Format::Tpch) {
            return Ok(vec!["queries".to_owned()]);
        }
        let mut found = files(folder, |path| self.is_script(path))?;
        if self.parts == Parts::Included && matches!(self.format, Format::Slt(_)) {
            let parts = included_by(&found)?;
            found.retain(|path| !path.canonicalize().is_ok_and(|path| parts.contains(&path)));
        }
        let mut paths: Vec<String> = found.iter().map(|path| below(folder, path)).collect();
        paths.sort();
        Ok(paths)
    }

    fn is_script(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        self.endings.contains(&ending.as_ref()) && !(self.parts == Parts::Underscore && name.starts_with('_'))
    }

    /// The topic of a script: the first folder below `topics_below`.
    pub(crate) fn topic<'a>(&self, script: &'a str) -> Option<&'a str> {
        let below = script.strip_prefix(self.topics_below?)?.trim_start_matches('/');
        below.split_once('/').map(|(topic, _)| topic)
    }
}

/// The files that those of `paths` include.
fn included_by(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Some(pattern) = line.strip_prefix("include ") {
                let files = super::reader::included(path, pattern.trim())?;
                parts.extend(files.iter().filter_map(|file| file.canonicalize().ok()));
            }
        }
    }
    Ok(parts)
}
