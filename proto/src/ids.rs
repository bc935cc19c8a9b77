//! Names and numbers, one type for each, so that two of a kind are never swapped.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the name as written; whether it is a legal name is checked where it is declared.
            pub fn new(name: impl AsRef<str>) -> Self {
                Self(Arc::from(name.as_ref()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self::new(name)
            }
        }
    };
}

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number before the first one in use.
            pub const ZERO: Self = Self(0);

            /// The number after this one.
            ///
            /// # Panics
            /// At `u64::MAX`, which no counter of this kind reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

name_type! {
    /// The name of one node, unique in its cluster, for example `n1`.
    NodeName
}

name_type! {
    /// The name of a range, which is the name of the namespace it holds; `system` is a node's own.
    RangeName
}

impl RangeName {
    /// The range that holds a node's declarations.
    pub const SYSTEM: &'static str = "system";

    /// The range of declarations.
    pub fn system() -> Self {
        Self::new(Self::SYSTEM)
    }
}

number_type! {
    /// The leadership number of one range: grows with every change of leader; equals the Raft term.
    Epoch
}

number_type! {
    /// The place of an entry in one range's log; the first entry has index 1. `VERSION n` names one.
    LogIndex
}

/// How far a copy of a range has got: the last entry's epoch and index. Positions of one range are
/// ordered by epoch first.
///
/// ```
/// use candor_proto::{Epoch, LogIndex, Position};
/// assert!(Position::new(Epoch(2), LogIndex(7)) > Position::new(Epoch(1), LogIndex(9)));
/// assert_eq!(Position::new(Epoch(2), LogIndex(7)).to_string(), "2:7");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The epoch of the entry.
    pub epoch: Epoch,
    /// The index of the entry.
    pub index: LogIndex,
}

impl Position {
    /// Before the first entry of any log.
    pub const ZERO: Self = Self {
        epoch: Epoch::ZERO,
        index: LogIndex::ZERO,
    };

    /// The position of the entry at `index`, written in `epoch`.
    pub const fn new(epoch: Epoch, index: LogIndex) -> Self {
        Self { epoch, index }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.index)
    }
}

macro_rules! hex128 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { self.0.to_be_bytes().serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    let text = String::deserialize(d)?;
                    u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(d).map(|bytes| Self(u128::from_be_bytes(bytes)))
                }
            }
        }
    };
}

hex128! {
    /// The running hash over a log up to one entry: equal chains mean equal histories.
    Chain
}

hex128! {
    /// Drawn when a range is made, and the seed of its chain: two ranges of one name made apart are never mixed up.
    RangeId
}

hex128! {
    /// Drawn when a process starts. Never mixed with an epoch (leadership) or a generation (fleet reset).
    BootId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_ids_survive_both_encodings() {
        for id in [Chain(0), Chain(1), Chain(u128::MAX)] {
            let json = serde_json::to_string(&id).expect("json");
            assert_eq!(json.len(), 34);
            assert_eq!(serde_json::from_str::<Chain>(&json).expect("json"), id);
            let bytes = postcard::to_allocvec(&id).expect("postcard");
            assert_eq!(postcard::from_bytes::<Chain>(&bytes).expect("postcard"), id);
        }
    }
}
