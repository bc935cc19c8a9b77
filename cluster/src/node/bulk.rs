//! A transaction whose rows go into the log while more of them are still being made.
//!
//! Its parts take effect with its last record or not at all, so nobody sees half of it. A number of changes is encoded at
//! once, and they go into the log in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::RangeName;
use candor_storage::{Record, TableChange, Transaction};
use tokio::task::JoinHandle;

use super::{Inner, Led, Node, random_u128, unfit};
use crate::error::ProposeError;
use crate::raft_group::{Answer, Committed};
use crate::split::{self, SplitError};

/// Changes that are encoded at once.
const ENCODING_MAX: usize = 4;

/// Changes in the log that nobody has heard of again.
const UNANSWERED_MAX: usize = 64;

type Encoding = JoinHandle<Result<Vec<(u8, Bytes)>, SplitError>>;

/// A large transaction on its way into a range's log. Dropped before its end, it leaves nothing.
pub struct Bulk {
    inner: Arc<Inner>,
    led: Arc<Led>,
    range: RangeName,
    txn: u128,
    encoding: VecDeque<Encoding>,
    unanswered: VecDeque<Answer>,
    parts: u32,
    is_over: bool,
}

impl std::fmt::Debug for Bulk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bulk")
            .field("range", &self.range)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Begins a large transaction in a range.
    ///
    /// # Errors
    /// This node does not lead the range, or rows take all the memory they may at the moment.
    pub fn begin_bulk(&self, range: &RangeName) -> Result<Bulk, ProposeError> {
        let (_, led) = self.inner.led(range).ok_or_else(|| self.inner.not_leader(range))?;
        self.inner.check_room()?;
        Ok(Bulk {
            inner: Arc::clone(&self.inner),
            led,
            range: range.clone(),
            txn: random_u128(),
            encoding: VecDeque::new(),
            unanswered: VecDeque::new(),
            parts: 0,
            is_over: false,
        })
    }
}

impl Bulk {
    /// Adds a change. Waits while enough is on its way.
    ///
    /// # Errors
    /// As [`Node::propose`]; the transaction is over then.
    pub async fn push(&mut self, change: TableChange) -> Result<(), ProposeError> {
        let txn = self.txn;
        let encoding = tokio::task::spawn_blocking(move || split::parts(change, txn));
        self.encoding.push_back(encoding);
        while self.encoding.len() >= ENCODING_MAX {
            self.append_next().await?;
        }
        Ok(())
    }

    /// Ends the transaction: `transaction` brings its snapshot and its definitions, and no changes.
    ///
    /// # Errors
    /// As [`Node::propose`].
    pub async fn commit(mut self, transaction: Transaction) -> Result<Committed, ProposeError> {
        while !self.encoding.is_empty() {
            self.append_next().await?;
        }
        let parts = Some((self.txn, self.parts));
        let last = Record::Transaction(Transaction { parts, ..transaction });
        let record = last.encode().map_err(ProposeError::Encode)?;
        // From here on it is the record that decides, whatever becomes of this call.
        self.is_over = true;
        let answer = self.submit(vec![record]).await?;
        self.unanswered.push_back(answer);
        loop {
            let committed = self.next_answer().await?;
            if self.unanswered.is_empty() {
                return Ok(committed);
            }
        }
    }

    /// Appends the change that has been encoded the longest.
    async fn append_next(&mut self) -> Result<(), ProposeError> {
        let Some(encoding) = self.encoding.pop_front() else {
            return Ok(());
        };
        let records = encoding.await.map_err(|_| ProposeError::Stopping)?.map_err(unfit)?;
        let count = u32::try_from(records.len())
            .ok()
            .and_then(|more| self.parts.checked_add(more));
        self.parts = count.ok_or_else(|| unfit(SplitError::TooLarge(usize::MAX)))?;
        let answer = self.submit(records).await?;
        self.unanswered.push_back(answer);
        while self.unanswered.len() >= UNANSWERED_MAX {
            self.next_answer().await?;
        }
        Ok(())
    }

    async fn submit(&self, records: Vec<(u8, Bytes)>) -> Result<Answer, ProposeError> {
        let submitted = self.led.handle.submit(records).await;
        submitted.map_err(|why| self.inner.rejected(&self.range, why))
    }

    async fn next_answer(&mut self) -> Result<Committed, ProposeError> {
        let answer = self.unanswered.pop_front().ok_or(ProposeError::Stopping)?;
        let answer = answer.await.map_err(|_| ProposeError::Stopping)?;
        answer.map_err(|why| self.inner.rejected(&self.range, why))
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        if self.is_over || self.parts == 0 {
            return;
        }
        let (led, txn, range) = (Arc::clone(&self.led), self.txn, self.range.clone());
        self.inner.spawn("discard", async move {
            let Ok(record) = split::discard(txn) else { return };
            if led.handle.propose(vec![record]).await.is_err() {
                tracing::debug!(%range, "parts of a transaction that was given up stay until the next leader");
            }
        });
    }
}
