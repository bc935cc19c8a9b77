//! A transaction whose rows go into the log while more of them are still being made.
//!
//! Its parts take effect with its last record or not at all, so nobody sees half of it. Rows that only begin are gathered
//! to runs, which are encoded as they will stand on every replica's disk; other changes are encoded one by one. A few of
//! either are encoded at once, and they go into the log in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::{LogIndex, RangeName};
use candor_storage::{Catalog, CollectionDef, CollectionId, Record, RunBuilder, RunError, TableChange, Transaction};
use tokio::task::JoinHandle;

use super::{Inner, Led, Node, random_u128, unfit};
use crate::error::ProposeError;
use crate::raft_group::{Answer, Committed};
use crate::split::{self, SplitError};

/// Changes or runs that are encoded at once. A run is 64 MiB of rows, and the files it becomes.
const ENCODING_MAX: usize = 2;

/// Bytes of records that are handed over at once, so that others who write get their turn between them.
const SUBMITTED_BYTES: usize = 4 << 20;

/// Changes in the log that nobody has heard of again.
const UNANSWERED_MAX: usize = 64;

type Encoding = JoinHandle<Result<Vec<(u8, Bytes)>, SplitError>>;

/// A large transaction on its way into a range's log. Dropped before its end, it leaves nothing.
pub struct Bulk {
    inner: Arc<Inner>,
    led: Arc<Led>,
    range: RangeName,
    txn: u128,
    /// The definitions that the rows are made for.
    catalog: Option<Arc<Catalog>>,
    gathering: Option<(CollectionId, Box<RunBuilder>)>,
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
    /// Begins a large transaction in a range, whose rows are made for the definitions of the version `snapshot`.
    ///
    /// # Errors
    /// This node does not lead the range, or rows take all the memory they may at the moment.
    pub fn begin_bulk(&self, range: &RangeName, snapshot: LogIndex) -> Result<Bulk, ProposeError> {
        let (slot, led) = self.inner.led(range).ok_or_else(|| self.inner.not_leader(range))?;
        self.inner.check_room()?;
        Ok(Bulk {
            inner: Arc::clone(&self.inner),
            led,
            range: range.clone(),
            txn: random_u128(),
            // A version that is gone has nobody's definitions: its rows go the other way, and are refused there.
            catalog: slot
                .store
                .snapshot(Some(snapshot))
                .ok()
                .map(|at| Arc::clone(at.catalog())),
            gathering: None,
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
        if let Some(def) = self.definition(&change) {
            return self.gather(def, &change).await;
        }
        let txn = self.txn;
        self.encode(move || split::parts(change, txn)).await
    }

    /// The definition of the collection that the rows of a change begin in, if they can come in a run.
    fn definition(&self, change: &TableChange) -> Option<Arc<CollectionDef>> {
        let def = self.catalog.as_ref()?.collection_by_id(change.collection)?;
        let rows = change.begun.as_ref().filter(|_| change.ended.is_none())?;
        let is_known = |name: &String| def.column(name).is_some();
        let fields = rows.schema_ref().fields().iter();
        fields.map(|field| field.name()).all(is_known).then(|| Arc::clone(def))
    }

    async fn gather(&mut self, def: Arc<CollectionDef>, change: &TableChange) -> Result<(), ProposeError> {
        if self.gathering.as_ref().is_some_and(|(id, _)| *id != change.collection) {
            self.end_run().await?;
        }
        let Some(rows) = &change.begun else { return Ok(()) };
        let mut at = 0;
        while at < rows.num_rows() {
            let (_, run) = match &mut self.gathering {
                Some(gathering) => gathering,
                none => {
                    let run = RunBuilder::new(Arc::clone(&def)).map_err(ProposeError::Encode)?;
                    none.insert((change.collection, Box::new(run)))
                }
            };
            let count = run.room().min(rows.num_rows() - at);
            run.push(&rows.slice(at, count)).map_err(no_run)?;
            at += count;
            if run.is_full() {
                self.end_run().await?;
            }
        }
        Ok(())
    }

    /// Has the rows encoded that were gathered.
    async fn end_run(&mut self) -> Result<(), ProposeError> {
        let Some((_, run)) = self.gathering.take() else {
            return Ok(());
        };
        let txn = self.txn;
        self.encode(move || run.finish(txn).map_err(SplitError::from)).await
    }

    async fn encode(
        &mut self,
        encode: impl FnOnce() -> Result<Vec<(u8, Bytes)>, SplitError> + Send + 'static,
    ) -> Result<(), ProposeError> {
        self.encoding.push_back(tokio::task::spawn_blocking(encode));
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
        self.end_run().await?;
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
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            let mut bytes = 0;
            let mut some = Vec::new();
            while let Some(record) =
                records.next_if(|(_, payload)| some.is_empty() || bytes + payload.len() <= SUBMITTED_BYTES)
            {
                bytes += record.1.len();
                some.push(record);
            }
            let answer = self.submit(some).await?;
            self.unanswered.push_back(answer);
            while self.unanswered.len() >= UNANSWERED_MAX {
                self.next_answer().await?;
            }
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

fn no_run(error: RunError) -> ProposeError {
    unfit(error.into())
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
