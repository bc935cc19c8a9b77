//! From a statement's tails and the session's settings to a verdict, and from "here" to a snapshot.
//!
//! The verdict comes from `planner` and nothing runs before it. Two things are done about it here because they take
//! time: a read that needs the leader waits for the proof of leadership, and `AT LEAST VERSION` waits for the version.
//! Waiting uses the bound up, so the bound is judged again when the snapshot is taken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candor_parser::{Param, ResolvedTails, Tails};
use candor_planner::{Clause, Refusal, Requirement, Verdict, admit, recheck};
use candor_proto::{Epoch, ErrorBody, ErrorCode, LogIndex, RangeName, Receipt, SourceSpan};
use candor_storage::{RangeStore, Snapshot, SnapshotError};

use crate::failure::Stop;
use crate::server::Shared;
use crate::settings::Settings;

/// A read that this node may answer, and what it answers from.
#[derive(Clone)]
pub(crate) struct Grounds {
    /// The state that is read; `None` for a read of no range.
    pub(crate) snapshot: Option<Snapshot>,
    /// What the answer says about itself.
    pub(crate) receipt: Receipt,
}

/// What one statement asks of the node that answers it, before its range is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The clauses it ends with, to point at.
    pub(crate) tails: &'a Tails,
    /// The same with parameters filled in.
    pub(crate) resolved: ResolvedTails,
    /// What the session says where the statement says nothing.
    pub(crate) settings: &'a Settings,
}

impl<'a> Asked<'a> {
    /// Fills the parameters of the tails in.
    pub(crate) fn new(tails: &'a Tails, params: &[Param], settings: &'a Settings) -> Result<Self, Stop> {
        let resolved = tails.resolve(params)?;
        Ok(Self {
            tails,
            resolved,
            settings,
        })
    }

    /// The requirement of a read of `range`. A statement's own tail wins over the session's setting; a statement that
    /// names a VERSION has said which copy it wants, so the session's bound does not apply to it.
    pub(crate) fn read(&self, range: &RangeName) -> Requirement {
        let own = &self.resolved;
        let default_bound = self.settings.staleness.filter(|_| own.version.is_none());
        let by_leader = match &self.tails.answered_by {
            Some(_) => own.answered_by_leader,
            None => self.settings.answered_by_leader,
        };
        let mut requirement = Requirement::read(range.as_str());
        requirement.staleness = own.staleness.or(default_bound);
        requirement.answered_by_leader = by_leader;
        requirement.version = own.version.map(LogIndex);
        requirement.at_least = own.at_least.map(|(version, _)| LogIndex(version));
        requirement.fallback = self.settings.fallback;
        requirement
    }

    fn wait(&self) -> Duration {
        self.resolved.at_least.map_or(Duration::ZERO, |(_, wait)| wait)
    }

    /// A refusal as an error that points at the clause it is about.
    pub(crate) fn refuse(&self, refusal: &Refusal) -> Stop {
        let mut body = refusal.to_body();
        body.span = self.clause_span(refusal.clause());
        Stop::from(body)
    }

    fn clause_span(&self, clause: Clause) -> Option<SourceSpan> {
        match clause {
            Clause::Staleness => self.tails.staleness.as_ref().map(|tail| tail.span),
            Clause::AnsweredBy => self.tails.answered_by.as_ref().map(|tail| tail.span),
            Clause::Version => self
                .tails
                .version
                .as_ref()
                .map(|tail| tail.span)
                .or_else(|| self.tails.at_least.as_ref().map(|tail| tail.span)),
            Clause::Statement => None,
        }
    }
}

impl Shared {
    /// Decides a read of `range`, waits for what the verdict needs, and takes the snapshot.
    pub(crate) async fn admit_read(&self, asked: &Asked<'_>, range: &RangeName) -> Result<Grounds, Stop> {
        let requirement = asked.read(range);
        let give_up = Instant::now() + asked.wait();
        loop {
            let mut view = self.cluster.view(range);
            let mut verdict = admit(&requirement, &view);
            if matches!(verdict, Verdict::Here { .. }) && requirement.needs_leader() {
                // The last proof is at most one interval old: for this read it is made anew.
                if let Ok(tail) = self.cluster.prove_leadership(range).await {
                    self.cluster
                        .wait_applied(range, tail.index, self.config.statement_deadline)
                        .await;
                } else {
                    if let Some(copy) = &mut view.own.copy {
                        copy.leads = false;
                    }
                    verdict = admit(&requirement, &view);
                }
            }
            if let Verdict::Wait { at_least, .. } = &verdict {
                let left = give_up.saturating_duration_since(Instant::now());
                if !left.is_zero() && self.cluster.wait_applied(range, *at_least, left).await {
                    continue;
                }
                verdict = verdict.without_waiting();
            }
            match verdict {
                Verdict::Here { .. } => return self.take_snapshot(asked, &requirement),
                Verdict::Redirect(redirect) => return Err(Stop::Redirect(Box::new(redirect))),
                Verdict::Refuse(refusal) => return Err(asked.refuse(&refusal)),
                Verdict::Wait { .. } => {
                    return Err(Stop::new(ErrorCode::Internal, "waiting for a version did not end"));
                }
            }
        }
    }

    /// The last check, from what is known now, and the snapshot.
    fn take_snapshot(&self, asked: &Asked<'_>, requirement: &Requirement) -> Result<Grounds, Stop> {
        let now = self.cluster.view(&requirement.range);
        let role = recheck(requirement, &now).map_err(|refusal| asked.refuse(&refusal))?;
        let store = self.copy_of(&requirement.range)?;
        // The age is an upper bound on the copy before the snapshot, so it is one for the snapshot too.
        let copy_age = now.own_age();
        let snapshot = store
            .snapshot(requirement.version)
            .map_err(|error| snapshot_error(&error, asked))?;
        let receipt = Receipt {
            node: self.cluster.name().clone(),
            role: Some(role),
            range: Some(requirement.range.clone()),
            epoch: snapshot.epoch(),
            version: snapshot.version(),
            copy_age_ms: copy_age.map(millis_up),
            bound_ms: requirement.staleness.map(millis_up),
        };
        Ok(Grounds {
            snapshot: Some(snapshot),
            receipt,
        })
    }

    /// Decides a write to `range`: this node leads it, or the caller is sent to the node that does.
    pub(crate) fn admit_write(&self, range: &RangeName) -> Result<(), Stop> {
        let view = self.cluster.view(range);
        match admit(&Requirement::write(range.as_str()), &view).without_waiting() {
            Verdict::Here { .. } => Ok(()),
            Verdict::Redirect(redirect) => Err(Stop::Redirect(Box::new(redirect))),
            Verdict::Refuse(refusal) => Err(refusal.into()),
            Verdict::Wait { .. } => Err(Stop::new(ErrorCode::Internal, "a write does not wait for a version")),
        }
    }

    /// This node's copy of `range`.
    pub(crate) fn copy_of(&self, range: &RangeName) -> Result<Arc<RangeStore>, Stop> {
        self.cluster
            .store(range)
            .ok_or_else(|| Refusal::NoCopy { range: range.clone() }.into())
    }

    /// A receipt for an answer that read no range.
    pub(crate) fn local_receipt(&self) -> Receipt {
        Receipt {
            node: self.cluster.name().clone(),
            role: None,
            range: None,
            epoch: Epoch::ZERO,
            version: LogIndex::ZERO,
            copy_age_ms: None,
            bound_ms: None,
        }
    }
}

fn snapshot_error(error: &SnapshotError, asked: &Asked<'_>) -> Stop {
    let mut body = match error {
        SnapshotError::Ahead { newest, .. } => {
            ErrorBody::new(ErrorCode::VersionAhead, error.to_string()).with_fact("newest", newest.0)
        }
        SnapshotError::Gone { horizon, .. } => {
            ErrorBody::new(ErrorCode::VersionGone, error.to_string()).with_fact("horizon", horizon.0)
        }
    };
    body.span = asked.clause_span(Clause::Version);
    body.into()
}

/// Milliseconds, rounded up: an age must not be understated by its own unit.
pub(crate) fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
