//! What a client remembers from one call to the next, so that it never goes back in time.

use std::collections::BTreeMap;

use candor_proto::limits::NAME_BYTES_MAX;
use candor_proto::{Epoch, LogIndex, RangeName, Receipt};

/// The newest epoch followed and the newest version seen, per range.
///
/// ```
/// use candor_planner::follow::Memory;
/// use candor_proto::{Epoch, LogIndex};
/// let mut memory = Memory::default();
/// memory.note_version(&"main".into(), LogIndex(7));
/// memory.note_version(&"main".into(), LogIndex(5));
/// assert_eq!(memory.version(&"main".into()), LogIndex(7));
/// assert_eq!(memory.epoch(&"main".into()), Epoch::ZERO);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    epochs: BTreeMap<RangeName, Epoch>,
    versions: BTreeMap<RangeName, LogIndex>,
}

impl Memory {
    /// The newest epoch of a redirect that was followed; `Epoch::ZERO` if none was.
    pub fn epoch(&self, range: &RangeName) -> Epoch {
        self.epochs.get(range).copied().unwrap_or_default()
    }

    /// A redirect under this epoch has led to the node it named.
    pub fn note_epoch(&mut self, range: &RangeName, epoch: Epoch) {
        raise(&mut self.epochs, range, epoch);
    }

    /// The newest version read or written; a causal session reads with `AT LEAST VERSION` this.
    pub fn version(&self, range: &RangeName) -> LogIndex {
        self.versions.get(range).copied().unwrap_or_default()
    }

    /// This version was read or written.
    pub fn note_version(&mut self, range: &RangeName, version: LogIndex) {
        raise(&mut self.versions, range, version);
    }

    /// Notes what an answer's receipt says.
    pub fn note_receipt(&mut self, receipt: &Receipt) {
        if let Some(range) = &receipt.range {
            self.note_version(range, receipt.version);
        }
    }
}

fn raise<T: Copy + Ord + Default>(map: &mut BTreeMap<RangeName, T>, range: &RangeName, value: T) {
    match map.get_mut(range) {
        Some(newest) => *newest = value.max(*newest),
        None => {
            map.insert(range.clone(), value);
        }
    }
}

/// Whether a name can be selected again on another node without quoting: `[a-z_][a-z0-9_]*`, at most 63 bytes. Upper
/// case is not plain, because an unquoted `USE` folds it: `Main` would arrive as `main`, another namespace.
///
/// ```
/// use candor_planner::follow::is_plain_identifier;
/// assert!(is_plain_identifier("orders_2026"));
/// assert!(!is_plain_identifier("a;b") && !is_plain_identifier("Main") && !is_plain_identifier(""));
/// ```
pub fn is_plain_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_BYTES_MAX
        && bytes
            .next()
            .is_some_and(|first| first == b'_' || first.is_ascii_lowercase())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether a name can stand in the `Candor-Redirected` header and be read back as itself.
pub(super) fn is_header_safe(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b';' | b'=' | b','))
}
