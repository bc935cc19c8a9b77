//! Whose turn it is: writes that lost to another one are run again one at a time.
//!
//! Two writes of one row that were evaluated at the same state cannot both take effect: the second is refused when it is
//! applied, and is evaluated again. With many clients at one row that would go on for long, so whoever lost waits in a
//! line, and after a second loss everybody else waits too. So a write that takes little time to evaluate is refused as a
//! conflict only when it loses to the COMMIT of a longer transaction again and again. Nothing here decides what is
//! right; that is decided where entries are applied.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use candor_proto::RangeName;
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A write that takes longer than this to evaluate never makes all others wait for it.
const ALONE_TIME_MAX: Duration = Duration::from_millis(100);

/// The lines of the ranges that were written to.
#[derive(Default)]
pub(crate) struct Turns {
    ranges: Mutex<HashMap<RangeName, Turn>>,
}

/// The line of one range.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    line: Arc<tokio::sync::Mutex<()>>,
    door: Arc<RwLock<()>>,
}

/// The right to evaluate and propose, until it is dropped.
pub(crate) enum Pass {
    /// Among others.
    Together { _door: OwnedRwLockReadGuard<()> },
    /// As the only one of those that have lost before.
    InLine {
        _line: OwnedMutexGuard<()>,
        _door: OwnedRwLockReadGuard<()>,
    },
    /// While nobody else writes to the range.
    Alone {
        _line: OwnedMutexGuard<()>,
        _door: OwnedRwLockWriteGuard<()>,
    },
}

impl Turns {
    pub(crate) fn of(&self, range: &RangeName) -> Turn {
        self.ranges.lock().entry(range.clone()).or_default().clone()
    }
}

impl Turn {
    /// Waits for the turn of a write that has lost `losses` times and took `last` to evaluate the last time.
    pub(crate) async fn wait(&self, losses: u32, last: Duration) -> Pass {
        if losses == 0 {
            return Pass::Together {
                _door: Arc::clone(&self.door).read_owned().await,
            };
        }
        let line = Arc::clone(&self.line).lock_owned().await;
        if losses == 1 || last > ALONE_TIME_MAX {
            return Pass::InLine {
                _line: line,
                _door: Arc::clone(&self.door).read_owned().await,
            };
        }
        Pass::Alone {
            _line: line,
            _door: Arc::clone(&self.door).write_owned().await,
        }
    }
}
