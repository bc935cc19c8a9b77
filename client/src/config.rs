//! What a client is told once.

use std::time::Duration;

use candor_planner::span;
use candor_proto::limits::STATEMENT_DEADLINE;

/// How a client talks to its node.
///
/// ```
/// use std::time::Duration;
/// use candor_client::Config;
/// let config = Config {
///     namespace: Some("main".into()),
///     staleness: Some(Duration::from_secs(30)),
///     ..Config::default()
/// };
/// assert!(!config.session);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The namespace that every call starts in.
    pub namespace: Option<String>,
    /// The database that every call starts in.
    pub database: Option<String>,
    /// How long one call may take, over all hops and until the last byte of its answer.
    pub deadline: Duration,
    /// Keep a session on the server: `USE`, `SET` and `BEGIN` survive from one call to the next. Calls then run one after
    /// the other.
    pub session: bool,
    /// `SET staleness` for every read that names no bound of its own.
    pub staleness: Option<Duration>,
    /// `SET staleness_fallback = 'leader'`: a freshness read that no follower can answer goes to the leader.
    pub fallback_to_leader: bool,
    /// A name for this client's requests, so that [`Client::copy_progress`](crate::Client::copy_progress) can ask about the
    /// one that runs. Letters, digits and `-`; calls of a client with a session run one after the other, so one is enough.
    pub request_id: Option<String>,
    /// Further settings, as `SET name = 'value'` would make them.
    pub settings: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            database: None,
            deadline: STATEMENT_DEADLINE,
            session: false,
            staleness: None,
            fallback_to_leader: false,
            request_id: None,
            settings: Vec::new(),
        }
    }
}

impl Config {
    /// All settings that a call starts with, in the order they apply.
    pub(crate) fn all_settings(&self) -> Vec<(String, String)> {
        let staleness = self.staleness.map(|bound| ("staleness".to_owned(), span(bound)));
        let fallback = self
            .fallback_to_leader
            .then(|| ("staleness_fallback".to_owned(), "leader".to_owned()));
        staleness
            .into_iter()
            .chain(fallback)
            .chain(self.settings.iter().cloned())
            .collect()
    }
}
