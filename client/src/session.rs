//! What the client knows about its session on the server, and how it takes an open transaction along.
//!
//! A session lives on one node. When a redirect moves the connection, a new session is opened at the target from what is
//! known here: namespace, database, settings. An open transaction cannot be moved, because its private writes live on
//! the node that opened it; it is run again at the target from its `BEGIN`, which is why its scripts are kept. Each is
//! kept with a fingerprint of the answer that the caller has seen: if the target answers anything else, the caller would
//! hold answers from two points of history in one transaction, so it is rolled back instead.

use std::hash::{DefaultHasher, Hash, Hasher};

use candor_planner::follow::SessionContext;
use candor_proto::ErrorCode;
use serde_json::Value;

use crate::script::{opens_replayable_transaction, stays_in_transaction};
use crate::wire::{Script, SessionRef};
use crate::{ClientError, Config, SessionInfo, StatementResult};

/// How much of a transaction is kept for running it again, bytes of text and parameters. A larger one still runs, but a
/// redirect inside it is an error.
pub(crate) const REPLAY_BYTES_MAX: usize = 16 << 20;

/// The session of a client that keeps one.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id on the node where the connection is; `None` before the first answer and after the session died.
    pub(crate) id: Option<String>,
    /// What it has selected, as the last answer said.
    pub(crate) info: SessionInfo,
    /// `info` is what the node has, too. Otherwise the node is asked before leaving.
    pub(crate) certain: bool,
    /// The transaction that is open.
    pub(crate) transaction: Option<Transaction>,
    /// A call has begun and not ended: found at the start of the next one, it says that a call was dropped.
    in_flight: bool,
}

/// An open transaction, as far as it must be known for running it again elsewhere.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// What the session had selected before `BEGIN`.
    pub(crate) began_with: SessionInfo,
    /// The scripts since `BEGIN`, that one included.
    pub(crate) scripts: Vec<Replayed>,
    /// Why it cannot be run again.
    pub(crate) not_replayable: Option<&'static str>,
    size_bytes: usize,
}

/// One script of an open transaction.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    pub(crate) script: Script,
    /// Of the answer that the caller has seen.
    pub(crate) fingerprint: u64,
}

impl Session {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            id: None,
            info: initial(config),
            certain: true,
            transaction: None,
            in_flight: false,
        }
    }

    /// A call begins.
    pub(crate) fn enter(&mut self) {
        if self.in_flight {
            self.certain = false;
            if let Some(transaction) = &mut self.transaction {
                transaction.forbid("an earlier call of it was dropped");
            }
        }
        self.in_flight = true;
    }

    /// The call has ended. A call without an answer may have run or not, and a script that failed may have run in part:
    /// neither can be repeated.
    pub(crate) fn leave(&mut self, error: Option<&ClientError>) {
        self.in_flight = false;
        if let Some(error) = error {
            self.certain &= matches!(error, ClientError::Server(_));
            if let Some(transaction) = &mut self.transaction {
                transaction.forbid("one of its scripts failed");
            }
        }
    }

    /// How the next request names the session.
    pub(crate) fn reference(&self) -> SessionRef {
        match &self.id {
            Some(id) => SessionRef::Kept(id.clone()),
            None => SessionRef::Open(self.info.clone()),
        }
    }

    /// What a session on another node starts from: an open transaction from where it began.
    pub(crate) fn starting_point(&self) -> &SessionInfo {
        self.transaction
            .as_ref()
            .map_or(&self.info, |transaction| &transaction.began_with)
    }

    /// What travels when the connection leaves; `None` if the node must be asked.
    pub(crate) fn context(&self) -> Option<SessionContext> {
        let known = self.certain || self.id.is_none() || self.transaction.is_some();
        known.then(|| context(self.starting_point()))
    }

    /// The node answered `results`, and says what the session has selected now.
    pub(crate) fn answered(&mut self, script: &Script, results: &[StatementResult], info: Option<&SessionInfo>) {
        let Some(info) = info else {
            self.certain = false;
            return;
        };
        let before = std::mem::replace(&mut self.info, info.clone());
        self.certain = true;
        if !info.transaction {
            self.transaction = None;
            return;
        }
        let fits = match &self.transaction {
            None => opens_replayable_transaction(&script.text),
            Some(_) => stays_in_transaction(&script.text),
        };
        let transaction = self.transaction.get_or_insert_with(|| Transaction::begun(before));
        transaction.push(script, results);
        if !fits {
            transaction.forbid("one of its scripts holds more than this transaction");
        }
    }

    /// The node answered with bytes that the client does not look into.
    pub(crate) fn answered_raw(&mut self) {
        self.certain = false;
        if let Some(transaction) = &mut self.transaction {
            transaction.forbid("one of its answers was streamed");
        }
    }

    /// Another node answered, and the connection stayed. What the script selected there is opened again here by the next
    /// call; gives the session that is left by that.
    pub(crate) fn answered_elsewhere(&mut self, info: Option<&SessionInfo>) -> Option<SessionRef> {
        let info = info.filter(|info| !info.transaction && **info != self.info)?;
        let left = self.reference();
        (self.id, self.info, self.certain) = (None, info.clone(), true);
        Some(left)
    }

    /// The node answered with an error.
    pub(crate) fn refused(&mut self, code: ErrorCode, info: Option<SessionInfo>) {
        if code == ErrorCode::SessionDead {
            return self.lost();
        }
        self.certain = info.is_some();
        if let Some(info) = info {
            if !info.transaction {
                self.transaction = None;
            }
            self.info = info;
        }
    }

    /// The session is gone, and the transaction with it; what it had selected is opened again by the next call.
    pub(crate) fn lost(&mut self) {
        self.id = None;
        if let Some(transaction) = self.transaction.take() {
            self.info = transaction.began_with;
        }
        self.info.transaction = false;
        self.certain = true;
    }
}

impl Transaction {
    /// What is run again elsewhere. Cheap: texts are shared.
    pub(crate) fn scripts(&self) -> Vec<Replayed> {
        self.scripts.clone()
    }

    fn begun(began_with: SessionInfo) -> Self {
        Self {
            began_with,
            scripts: Vec::new(),
            not_replayable: None,
            size_bytes: 0,
        }
    }

    fn push(&mut self, script: &Script, results: &[StatementResult]) {
        self.size_bytes += script.size_bytes();
        if self.size_bytes > REPLAY_BYTES_MAX {
            self.forbid("it is too large to be kept");
        }
        if self.not_replayable.is_none() {
            let fingerprint = fingerprint(results);
            self.scripts.push(Replayed {
                script: script.clone(),
                fingerprint,
            });
        }
    }

    fn forbid(&mut self, why: &'static str) {
        self.not_replayable.get_or_insert(why);
        self.scripts = Vec::new();
    }
}

/// What the caller has seen of an answer: columns, rows and counts, not the receipt.
pub(crate) fn fingerprint(results: &[StatementResult]) -> u64 {
    let mut hasher = DefaultHasher::new();
    results.len().hash(&mut hasher);
    for result in results {
        result.rows_affected.hash(&mut hasher);
        result.rows.len().hash(&mut hasher);
        for column in &result.columns {
            (&column.name, &column.r#type).hash(&mut hasher);
        }
        for value in result.rows.iter().flatten() {
            value.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What every call of a client without a session starts from, and a session at its beginning.
pub(crate) fn initial(config: &Config) -> SessionInfo {
    let settings = config
        .all_settings()
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)));
    SessionInfo {
        namespace: config.namespace.clone(),
        database: config.database.clone(),
        settings: settings.collect(),
        transaction: false,
    }
}

pub(crate) fn context(info: &SessionInfo) -> SessionContext {
    SessionContext {
        namespace: info.namespace.clone(),
        database: info.database.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> SessionInfo {
        SessionInfo {
            transaction: true,
            ..SessionInfo::default()
        }
    }

    fn run(session: &mut Session, text: &str) {
        session.answered(&Script::new(text, &[]), &[], Some(&open()));
    }

    #[test]
    fn s30_a_transaction_keeps_its_scripts_until_it_ends() {
        let mut session = Session::new(&Config::default());
        run(&mut session, "BEGIN");
        run(&mut session, "INSERT INTO t VALUES (1)");
        let kept = session.transaction.as_ref().expect("open");
        assert_eq!((kept.scripts.len(), kept.not_replayable), (2, None));
        session.answered(&Script::new("COMMIT", &[]), &[], Some(&SessionInfo::default()));
        assert!(session.transaction.is_none());
    }

    #[test]
    fn s30_a_script_with_an_effect_of_its_own_is_never_run_again() {
        for script in ["INSERT INTO t VALUES (1); BEGIN", "BEGIN; COMMIT; BEGIN"] {
            let mut session = Session::new(&Config::default());
            run(&mut session, script);
            assert!(session.transaction.expect("open").not_replayable.is_some(), "{script}");
        }
    }

    #[test]
    fn s30_a_transaction_that_outgrows_the_bound_or_lost_a_call_is_never_run_again() {
        let mut session = Session::new(&Config::default());
        run(&mut session, "BEGIN");
        run(&mut session, &format!("SELECT '{}'", "x".repeat(REPLAY_BYTES_MAX)));
        let kept = session.transaction.as_ref().expect("open");
        assert!(kept.not_replayable.is_some() && kept.scripts.is_empty());

        let mut session = Session::new(&Config::default());
        run(&mut session, "BEGIN");
        session.enter();
        session.enter();
        assert!(session.transaction.expect("open").not_replayable.is_some());
    }

    #[test]
    fn s22_answers_that_differ_have_different_fingerprints() {
        let result = |text: &str| serde_json::from_str::<StatementResult>(text).expect("json");
        let one = result(r#"{"columns":[{"name":"a","type":"INT"}],"rows":[[1]],"rows_affected":null}"#);
        let receipt = r#"{"node":"n1","role":"leader","range":"main","epoch":3,"version":7,"copy_age_ms":0}"#;
        let same = StatementResult {
            receipt: serde_json::from_str(receipt).expect("json"),
            ..one.clone()
        };
        let other = result(r#"{"columns":[{"name":"a","type":"INT"}],"rows":[["1"]],"rows_affected":null}"#);
        let alone = |result: &StatementResult| fingerprint(std::slice::from_ref(result));
        assert_eq!(alone(&one), alone(&same));
        assert_ne!(alone(&one), alone(&other));
        assert_ne!(alone(&one), fingerprint(&[one.clone(), one.clone()]));
    }
}
