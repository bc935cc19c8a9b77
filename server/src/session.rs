//! Sessions: what survives from one request to the next, for callers that ask for it.
//!
//! A plain HTTP request has a session of its own that ends with it. A caller that sends `Candor-Session: new` gets an
//! id and may keep `USE`, `SET` and an open transaction between requests. Sessions are bounded in number, end after
//! a time without requests, and end with the process: a dead one is 410, and nothing of its open transaction stays.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candor_engine::SessionSequences;
use candor_proto::{ErrorBody, ErrorCode, RangeName};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};

use crate::settings::Settings;
use crate::transaction::OpenTransaction;

/// Kept sessions of one node; one more is refused with 503.
const SESSIONS_MAX: usize = 4096;

/// A kept session without a request for this long ends.
const SESSION_IDLE_MAX: Duration = Duration::from_mins(10);

/// A kept session with an open transaction ends sooner: its snapshot holds memory.
const TRANSACTION_IDLE_MAX: Duration = Duration::from_mins(1);

/// What statements of one caller share.
#[derive(Default)]
pub(crate) struct Session {
    /// The selected namespace.
    pub(crate) namespace: Option<String>,
    /// The selected database.
    pub(crate) database: Option<String>,
    /// What `SET` changed.
    pub(crate) settings: Settings,
    /// BEGIN without its COMMIT so far.
    pub(crate) transaction: Option<OpenTransaction>,
    /// What it has drawn from sequences.
    pub(crate) sequences: Arc<SessionSequences>,
}

/// The namespace, and the database in it, of a session that selected none: a newcomer's first statement finds a place.
/// `session::context()` still says that nothing is selected.
pub(crate) const DEFAULT_NAME: &str = "main";

impl Session {
    /// The namespace that statements read and write.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAME)
    }

    /// The range of that namespace.
    pub(crate) fn range(&self) -> RangeName {
        RangeName::new(self.namespace())
    }

    /// The database that names without one belong to.
    pub(crate) fn database(&self) -> &str {
        self.database.as_deref().unwrap_or(DEFAULT_NAME)
    }
}

/// A session that is kept, locked while one request uses it.
pub(crate) type Kept = Arc<tokio::sync::Mutex<Session>>;

struct Entry {
    session: Kept,
    used: Instant,
}

/// The kept sessions by id.
#[derive(Default)]
pub(crate) struct Sessions {
    entries: Mutex<HashMap<String, Entry>>,
}

impl Sessions {
    /// A new kept session and its id, 128 random bits.
    pub(crate) fn open(&self, now: Instant) -> Result<(String, Kept), ErrorBody> {
        let mut bytes = [0_u8; 16];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| ErrorBody::new(ErrorCode::Internal, "the system gave no random bytes"))?;
        let id = format!("{:032x}", u128::from_be_bytes(bytes));
        let mut entries = self.entries.lock();
        if entries.len() >= SESSIONS_MAX {
            entries.retain(|_, entry| entry.is_alive(now));
        }
        if entries.len() >= SESSIONS_MAX {
            return Err(ErrorBody::new(
                ErrorCode::Overloaded,
                format!("{SESSIONS_MAX} sessions are open on this node"),
            )
            .with_help("close one, or send requests without Candor-Session"));
        }
        let session = Kept::default();
        entries.insert(
            id.clone(),
            Entry {
                session: session.clone(),
                used: now,
            },
        );
        Ok((id, session))
    }

    /// The session of this id.
    pub(crate) fn find(&self, id: &str, now: Instant) -> Result<Kept, ErrorBody> {
        let mut entries = self.entries.lock();
        match entries.get_mut(id) {
            Some(entry) if entry.is_alive(now) => {
                entry.used = now;
                Ok(entry.session.clone())
            }
            _ => {
                entries.remove(id);
                Err(ErrorBody::new(
                    ErrorCode::SessionDead,
                    "this session has ended: it was idle too long, or the node was restarted",
                )
                .with_help("open another with `Candor-Session: new`; an open transaction was rolled back"))
            }
        }
    }

    /// Ends one session; unknown ids are ended already.
    pub(crate) fn close(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    /// Drops the sessions that ran out of time.
    pub(crate) fn sweep(&self, now: Instant) {
        self.entries.lock().retain(|_, entry| entry.is_alive(now));
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.entries.lock().len()
    }
}

impl Entry {
    fn is_alive(&self, now: Instant) -> bool {
        // A session that is locked is in use.
        let Ok(session) = self.session.try_lock() else {
            return true;
        };
        let idle_max = if session.transaction.is_some() {
            TRANSACTION_IDLE_MAX
        } else {
            SESSION_IDLE_MAX
        };
        now.saturating_duration_since(self.used) < idle_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_until_it_is_idle_too_long() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let (id, kept) = sessions.open(start).expect("room");
        kept.try_lock().expect("free").namespace = Some("main".to_owned());
        let later = start + Duration::from_mins(9);
        let found = sessions.find(&id, later).expect("alive");
        assert_eq!(found.try_lock().expect("free").namespace.as_deref(), Some("main"));
        // The request just made counts: the time runs from it.
        assert!(sessions.find(&id, later + Duration::from_secs(2)).is_ok());
        let end = later + Duration::from_secs(2) + SESSION_IDLE_MAX;
        assert_eq!(
            sessions.find(&id, end).err().map(|body| body.code),
            Some(ErrorCode::SessionDead)
        );
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn ids_are_not_guessable_numbers() {
        let sessions = Sessions::default();
        let ids: std::collections::BTreeSet<String> = (0..100)
            .map(|_| sessions.open(Instant::now()).expect("room").0)
            .collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
