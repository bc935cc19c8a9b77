//! One entry of a range log, as it stands on disk, travels to followers and is applied.

use std::fmt;

use bytes::Bytes;
use candor_proto::{Chain, Epoch, LogIndex, Position};
use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One entry of a range log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it stands.
    pub position: Position,
    /// What its payload holds: one of [`crate::Record`]'s kinds.
    pub kind: u8,
    /// The encoded record.
    #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
    pub payload: Bytes,
    /// The running hash over the log up to and including this entry.
    pub chain: Chain,
}

impl Entry {
    /// The entry that follows `before` at `position`.
    pub fn chained(before: Chain, position: Position, kind: u8, payload: Bytes) -> Self {
        let chain = chain(before, position.epoch, position.index, kind, &payload);
        Self {
            position,
            kind,
            payload,
            chain,
        }
    }

    /// Whether its chain is the one that its content makes after `before`.
    pub fn follows(&self, before: Chain) -> bool {
        let Position { epoch, index } = self.position;
        self.chain == chain(before, epoch, index, self.kind, &self.payload)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.payload.len();
        write!(f, "{} kind {} {bytes} B {}", self.position, self.kind, self.chain)
    }
}

/// The running hash after an entry: the first 16 bytes, big endian, of SHA-256 over the chain before it, its epoch and
/// its index (all big endian), its kind and its payload.
pub fn chain(before: Chain, epoch: Epoch, index: LogIndex, kind: u8, payload: &[u8]) -> Chain {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(&before.0.to_be_bytes());
    hash.update(&epoch.0.to_be_bytes());
    hash.update(&index.0.to_be_bytes());
    hash.update(&[kind]);
    hash.update(payload);
    Chain(truncated(&hash.finish()))
}

/// The first 16 bytes of a SHA-256 digest as a number.
pub(crate) fn truncated(digest: &digest::Digest) -> u128 {
    digest.as_ref()[..16]
        .iter()
        .fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn write_bytes<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_bytes(bytes)
}

fn read_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
            Ok(Bytes::copy_from_slice(bytes))
        }

        fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
            Ok(bytes.into())
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Bytes, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = seq.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes.into())
        }
    }

    d.deserialize_byte_buf(Visitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_frozen() {
        // Computed with another SHA-256: printf of 16 zero bytes, 1 and 2 as u64 big endian, kind 3, "abc".
        let chain = chain(Chain(0), Epoch(1), LogIndex(2), 3, b"abc");
        assert_eq!(chain.to_string(), "86d8aa27cfc5f79806d9f50d974641b0");
    }

    #[test]
    fn an_entry_survives_encoding() {
        let entry = Entry::chained(
            Chain(7),
            Position::new(Epoch(1), LogIndex(2)),
            3,
            Bytes::from_static(b"payload"),
        );
        let bytes = postcard::to_allocvec(&entry).expect("encodes");
        assert_eq!(postcard::from_bytes::<Entry>(&bytes).expect("decodes"), entry);
        assert!(entry.follows(Chain(7)));
        assert!(!entry.follows(Chain(8)));
    }
}
