//! Which versions are being read, so that nothing they show is thrown away.
//!
//! The horizon moves by the log, on every replica alike, and from then on nobody gets an older version. Whoever has one
//! already keeps it: what was to be forgotten or dropped with the horizon waits for the last reader of an older version.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// All versions that are being read.
#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<BTreeMap<u64, usize>>);

/// One version that is being read, as long as this lives.
#[derive(Debug)]
pub(crate) struct Reader {
    readers: Arc<Readers>,
    version: u64,
}

impl Readers {
    /// Starts to read a version.
    pub(crate) fn open(self: &Arc<Self>, version: u64) -> Reader {
        *self.0.lock().entry(version).or_default() += 1;
        Reader {
            readers: Arc::clone(self),
            version,
        }
    }

    /// The oldest version that is being read.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.lock().keys().next().copied()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut versions = self.readers.0.lock();
        if let Some(count) = versions.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                versions.remove(&self.version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stays_until_its_last_reader_goes() {
        let readers = Arc::new(Readers::default());
        let (old, same, new) = (readers.open(3), readers.open(3), readers.open(5));
        assert_eq!(readers.oldest(), Some(3));
        drop(old);
        assert_eq!(readers.oldest(), Some(3));
        drop(same);
        assert_eq!(readers.oldest(), Some(5));
        drop(new);
        assert_eq!(readers.oldest(), None);
    }
}
