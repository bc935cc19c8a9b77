//! Where a node's options come from: flags, then `CANDOR_*` variables, then one TOML file, then defaults.
//!
//! clap knows no defaults here: every option is an `Option`, so a value that nobody gave never hides one that the file
//! gives. The file has the same names with underscores, and a name it does not know is an error.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use candor_proto::{NodeName, limits};
use serde::Deserialize;
use thiserror::Error;

use super::memory::{self, Memory};

/// `candor serve`: one node.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServeArgs {
    /// The node's name, unique in its cluster
    #[arg(long, env = "CANDOR_NAME", value_name = "NAME")]
    name: Option<String>,
    /// Folder for everything the node keeps
    #[arg(long, env = "CANDOR_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address for HTTP; port 0 takes any free one [default: 127.0.0.1:7401]
    #[arg(long, env = "CANDOR_HTTP", value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// UDP address for links to other nodes; needs --certs [default: 127.0.0.1:7501]
    #[arg(long, env = "CANDOR_LINK", value_name = "ADDR")]
    link: Option<SocketAddr>,
    /// Folder with this node's certificate and key, made by `candor cert`; without it the node stands alone
    #[arg(long, env = "CANDOR_CERTS", value_name = "DIR")]
    certs: Option<PathBuf>,
    /// How often nodes greet each other; the staleness floor is twice that [default: 1s]
    #[arg(long, env = "CANDOR_AWARENESS", value_name = "SPAN")]
    awareness: Option<String>,
    /// Where the node stands, for redirects to a near one
    #[arg(long, env = "CANDOR_REGION", value_name = "NAME")]
    region: Option<String>,
    /// How long one statement may run [default: 60s]
    #[arg(long, env = "CANDOR_STATEMENT_DEADLINE", value_name = "SPAN")]
    statement_deadline: Option<String>,
    /// The largest request body, bytes [default: 67108864]
    #[arg(long, env = "CANDOR_BODY_BYTES_MAX", value_name = "BYTES")]
    body_bytes_max: Option<usize>,
    /// Threads that run statements [default: one for each processor]
    #[arg(long, env = "CANDOR_THREADS", value_name = "COUNT")]
    threads: Option<usize>,
    /// Memory for statements, rows and what is read of them together, such as `2GiB` [default: half the machine's]
    #[arg(long, env = "CANDOR_MEMORY", value_name = "SIZE")]
    memory: Option<String>,
    /// How long old versions stay readable [default: 5m]
    #[arg(long, env = "CANDOR_RETENTION", value_name = "SPAN")]
    retention: Option<String>,
    /// Memory for running statements, bytes; beyond it they spill to disk [default: half of --memory]
    #[arg(long, env = "CANDOR_MEMORY_BYTES", value_name = "BYTES")]
    memory_bytes: Option<usize>,
    /// What to log to standard error: error, warn, info, debug, or a filter such as `warn,candor_cluster=debug` [default: warn]
    #[arg(long, env = "CANDOR_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// TOML file with the same options, `-` written as `_`
    #[arg(long, env = "CANDOR_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop when standard input closes, that is when whoever started the node ends; on Linux a paused node ends too
    #[arg(long)]
    pub(crate) stop_with_parent: bool,
}

/// The same options as the file has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    data: Option<PathBuf>,
    http: Option<SocketAddr>,
    link: Option<SocketAddr>,
    certs: Option<PathBuf>,
    awareness: Option<String>,
    region: Option<String>,
    statement_deadline: Option<String>,
    body_bytes_max: Option<usize>,
    threads: Option<usize>,
    memory: Option<String>,
    retention: Option<String>,
    memory_bytes: Option<usize>,
    log: Option<String>,
}

/// Everything settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServeConfig {
    pub(crate) name: NodeName,
    pub(crate) data: PathBuf,
    pub(crate) http: SocketAddr,
    pub(crate) link: SocketAddr,
    pub(crate) certs: Option<PathBuf>,
    pub(crate) awareness: Duration,
    pub(crate) region: Option<String>,
    pub(crate) statement_deadline: Duration,
    pub(crate) body_bytes_max: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) memory: Memory,
    pub(crate) retention: Duration,
    pub(crate) log: String,
}

/// Why the options do not make a node.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {}", path.display(), source.to_string().trim_end())]
    Parse {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("`{option}` is missing: give --{option}, {variable}, or `{option} = …` in the file")]
    Missing {
        option: &'static str,
        variable: &'static str,
    },
    #[error("`{option}`: {reason}")]
    Value { option: &'static str, reason: String },
}

impl ServeArgs {
    /// Flags and variables over the file over defaults.
    ///
    /// # Errors
    /// When something is missing, unreadable, unknown or out of bounds.
    pub(crate) fn settle(self) -> Result<ServeConfig, ConfigError> {
        let file = match &self.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        self.over(file)
    }

    fn over(self, file: File) -> Result<ServeConfig, ConfigError> {
        let name = self.name.or(file.name).ok_or(ConfigError::Missing {
            option: "name",
            variable: "CANDOR_NAME",
        })?;
        if !is_name(&name) {
            let reason = format!(
                "`{name}` is not a name: lower-case letters, digits, `-` and `_` between them, at most {} of all",
                limits::NAME_BYTES_MAX
            );
            return Err(ConfigError::Value { option: "name", reason });
        }
        let data = self.data.or(file.data).ok_or(ConfigError::Missing {
            option: "data",
            variable: "CANDOR_DATA",
        })?;
        let awareness = span(
            "awareness",
            self.awareness.or(file.awareness),
            limits::AWARENESS_INTERVAL,
        )?;
        let (shortest, longest) = limits::AWARENESS_INTERVAL_RANGE;
        if !(shortest..=longest).contains(&awareness) {
            let reason = format!("{awareness:?} is not between {shortest:?} and {longest:?}");
            return Err(ConfigError::Value {
                option: "awareness",
                reason,
            });
        }
        Ok(ServeConfig {
            name: NodeName::new(name),
            data,
            http: self
                .http
                .or(file.http)
                .unwrap_or(SocketAddr::from(([127, 0, 0, 1], HTTP_PORT))),
            link: self
                .link
                .or(file.link)
                .unwrap_or(SocketAddr::from(([127, 0, 0, 1], LINK_PORT))),
            certs: self.certs.or(file.certs),
            awareness,
            region: self.region.or(file.region),
            statement_deadline: span(
                "statement_deadline",
                self.statement_deadline.or(file.statement_deadline),
                limits::STATEMENT_DEADLINE,
            )?,
            body_bytes_max: self
                .body_bytes_max
                .or(file.body_bytes_max)
                .unwrap_or(limits::BODY_BYTES_MAX),
            threads: at_least_one("threads", self.threads.or(file.threads))?,
            memory: memory(
                self.memory.or(file.memory),
                at_least_one("memory_bytes", self.memory_bytes.or(file.memory_bytes))?,
            )?,
            retention: retention(self.retention.or(file.retention))?,
            log: self.log.or(file.log).unwrap_or_else(|| "warn".to_owned()),
        })
    }
}

/// The first node's HTTP port.
pub(crate) const HTTP_PORT: u16 = 7401;

/// The first node's link port.
pub(crate) const LINK_PORT: u16 = 7501;

fn read(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|source| ConfigError::Parse {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn parse(text: &str) -> Result<File, toml::de::Error> {
    toml::from_str(text)
}

/// What may name a node in a file name, a certificate and a header without quoting.
fn is_name(name: &str) -> bool {
    (1..=limits::NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && !name.starts_with(['-', '_'])
        && !name.ends_with(['-', '_'])
}

fn span(option: &'static str, text: Option<String>, default: Duration) -> Result<Duration, ConfigError> {
    text.map_or(Ok(default), |text| {
        crate::span::parse(&text).map_err(|reason| ConfigError::Value { option, reason })
    })
}

fn retention(text: Option<String>) -> Result<Duration, ConfigError> {
    let retention = span("retention", text, limits::RETENTION)?;
    if retention < limits::RETENTION_MIN {
        return Err(ConfigError::Value {
            option: "retention",
            reason: format!("{retention:?} is less than {:?}", limits::RETENTION_MIN),
        });
    }
    Ok(retention)
}

fn memory(text: Option<String>, statements: Option<usize>) -> Result<Memory, ConfigError> {
    let refused = |reason| ConfigError::Value {
        option: "memory",
        reason,
    };
    let total = match text {
        Some(text) => memory::parse_size(&text).map_err(refused)?,
        None => memory::of_the_machine() / 2,
    };
    let mut memory = Memory::shared_out(total).map_err(refused)?;
    memory.statements = statements.map_or(memory.statements, |bytes| bytes as u64);
    Ok(memory)
}

fn at_least_one(option: &'static str, value: Option<usize>) -> Result<Option<usize>, ConfigError> {
    if value == Some(0) {
        return Err(ConfigError::Value {
            option,
            reason: "must be at least 1".to_owned(),
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> ServeArgs {
        ServeArgs {
            name: Some("n1".to_owned()),
            data: Some("d".into()),
            ..ServeArgs::default()
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = parse("name = 'from-file'\nawareness = '200ms'\nhttp = '127.0.0.1:1'\nthreads = 3").expect("a file");
        let args = ServeArgs {
            http: Some("127.0.0.1:2".parse().expect("an address")),
            ..flags()
        };
        let config = args.over(file).expect("settled");
        assert_eq!(config.name, NodeName::new("n1"));
        assert_eq!(config.http.port(), 2);
        assert_eq!(config.awareness, Duration::from_millis(200));
        assert_eq!(config.threads, Some(3));
        assert_eq!(config.link.port(), LINK_PORT);
        assert_eq!(config.statement_deadline, limits::STATEMENT_DEADLINE);
    }

    #[test]
    fn the_file_alone_makes_a_node() {
        let file = parse("name = 'n7'\ndata = '/var/lib/candor'").expect("a file");
        let config = ServeArgs::default().over(file).expect("settled");
        assert_eq!(
            (config.name.as_str(), config.data.as_path()),
            ("n7", Path::new("/var/lib/candor"))
        );
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        let error = parse("nmae = 'n1'").expect_err("refused").to_string();
        assert!(error.contains("nmae"), "{error}");
    }

    #[test]
    fn what_is_missing_or_out_of_bounds_is_named() {
        for (args, says) in [
            (ServeArgs::default(), "--name"),
            (ServeArgs { data: None, ..flags() }, "CANDOR_DATA"),
            (
                ServeArgs {
                    name: Some("a b".to_owned()),
                    ..flags()
                },
                "not a name",
            ),
            (
                ServeArgs {
                    awareness: Some("1ms".to_owned()),
                    ..flags()
                },
                "awareness",
            ),
            (
                ServeArgs {
                    awareness: Some("soon".to_owned()),
                    ..flags()
                },
                "awareness",
            ),
            (
                ServeArgs {
                    threads: Some(0),
                    ..flags()
                },
                "at least 1",
            ),
            (
                ServeArgs {
                    memory: Some("1GB of it".to_owned()),
                    ..flags()
                },
                "memory",
            ),
            (
                ServeArgs {
                    retention: Some("10ms".to_owned()),
                    ..flags()
                },
                "retention",
            ),
        ] {
            let error = args.over(File::default()).expect_err("refused").to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
