//! The values of sequences that this node gives out while it leads.
//!
//! Some values of a sequence are reserved by one entry of the log and given out from memory. So no value comes twice:
//! after a crash, and at another leader, values begin behind what was reserved, and the rest of it is a gap.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};

use candor_engine::{NotDrawn, SequenceSource, Sequences};
use candor_proto::RangeName;
use candor_storage::{Outcome, Reserved, SchemaChange, SequenceDef, SequenceId, SequencePlace, Snapshot, Transaction};
use parking_lot::Mutex;

use crate::server::Shared;
use crate::statement::Run;

/// How many values are reserved at once, at first; twice as many each time they run out, up to the bound. What a crash
/// leaves unused is a gap of at most that.
const RESERVED_MIN: u64 = 32;
const RESERVED_MAX: u64 = 1024;

/// How often a reservation that another one overtook is tried again.
const TRIES_MAX: usize = 16;

/// What is reserved and not given out yet.
#[derive(Default)]
pub(crate) struct ReservedValues(Mutex<HashMap<(RangeName, SequenceId), Block>>);

struct Block {
    values: Reserved,
    /// Where the sequence was left by the reservation. If it is elsewhere by now, somebody has set it, or it is another
    /// sequence, and the values count for nothing.
    place: SequencePlace,
    size: u64,
}

struct Source {
    shared: Arc<Shared>,
    range: RangeName,
    runtime: tokio::runtime::Handle,
}

impl Run<'_> {
    /// Sequences for a write to a range that this node leads.
    pub(crate) fn sequences(&self, range: &RangeName) -> Arc<Sequences> {
        let source = Source {
            shared: Arc::clone(self.shared),
            range: range.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        Arc::new(Sequences::new(
            Arc::clone(&self.session.sequences),
            Some(Arc::new(source)),
        ))
    }
}

impl Source {
    fn newest(&self, id: SequenceId) -> Result<(Snapshot, Option<Arc<SequenceDef>>), NotDrawn> {
        let newest = self.shared.write_grounds(&self.range);
        let newest = newest.map_err(|_| NotDrawn::Failed("this node has no copy of the range".to_owned()))?;
        let def = newest.catalog().sequence_by_id(id).map(Arc::clone);
        Ok((newest, def))
    }

    /// Moves a sequence; false where it is not at `from` any more. The caller's thread waits for the log.
    fn move_to(&self, newest: &Snapshot, def: &SequenceDef, to: SequencePlace) -> Result<bool, NotDrawn> {
        let transaction = Transaction {
            snapshot: newest.version(),
            schema: vec![SchemaChange::MoveSequence {
                id: def.id,
                from: def.place,
                to,
            }],
            changes: Vec::new(),
            parts: None,
            mutation: None,
        };
        let (shared, range) = (Arc::clone(&self.shared), self.range.clone());
        let (answer, moved) = mpsc::channel();
        self.runtime.spawn(async move {
            // Whoever waited may be gone; then the values are a gap.
            let _ = answer.send(shared.cluster.propose(&range, transaction).await);
        });
        let committed = moved
            .recv()
            .map_err(|_| NotDrawn::Failed("the node is stopping".to_owned()))?;
        match committed {
            Ok(committed) => Ok(!matches!(committed.outcome, Outcome::Refused(_))),
            Err(error) => Err(NotDrawn::Failed(error.to_string())),
        }
    }

    /// Takes what is reserved already, up to `count`; without `may_wait` all or nothing. Gives the size of the next block.
    fn take(&self, def: &SequenceDef, count: usize, may_wait: bool, values: &mut Vec<i64>) -> u64 {
        let mut blocks = self.shared.reserved.0.lock();
        let Some(block) = blocks.get_mut(&(self.range.clone(), def.id)) else {
            return RESERVED_MIN;
        };
        if block.place == def.place && (may_wait || block.values.left() >= count as u64) {
            values.extend(block.values.by_ref().take(count));
        }
        block.size.saturating_mul(2).min(RESERVED_MAX)
    }
}

impl SequenceSource for Source {
    fn draw(&self, id: SequenceId, count: usize, may_wait: bool) -> Result<Option<Vec<i64>>, NotDrawn> {
        let mut values = Vec::with_capacity(count);
        for _ in 0..TRIES_MAX {
            let (newest, def) = self.newest(id)?;
            let Some(def) = def else { return Ok(None) };
            let left = count - values.len();
            let size = self.take(&def, left, may_wait, &mut values);
            let left = count - values.len();
            if left == 0 {
                return Ok(Some(values));
            }
            if !may_wait {
                return Err(NotDrawn::WouldWait);
            }
            let (reserved, to) = def.reserve(size.max(left as u64)).ok_or(NotDrawn::AtEnd)?;
            if reserved.left() < left as u64 {
                return Err(NotDrawn::AtEnd);
            }
            if self.move_to(&newest, &def, to)? {
                let mut block = Block {
                    values: reserved,
                    place: to,
                    size,
                };
                values.extend(block.values.by_ref().take(left));
                self.shared.reserved.0.lock().insert((self.range.clone(), id), block);
                return Ok(Some(values));
            }
        }
        Err(NotDrawn::Failed("others were first each time".to_owned()))
    }

    fn set(&self, id: SequenceId, value: i64, is_called: bool, may_wait: bool) -> Result<Option<()>, NotDrawn> {
        if !may_wait {
            return Err(NotDrawn::WouldWait);
        }
        for _ in 0..TRIES_MAX {
            let (newest, def) = self.newest(id)?;
            let Some(def) = def else { return Ok(None) };
            if self.move_to(&newest, &def, def.set_to(value, is_called))? {
                self.shared.reserved.0.lock().remove(&(self.range.clone(), id));
                return Ok(Some(()));
            }
        }
        Err(NotDrawn::Failed("others were first each time".to_owned()))
    }
}
