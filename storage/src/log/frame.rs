//! One entry on disk: a header of fixed size, then the payload. `docs/format.md` has the table.

use bytes::Bytes;
use candor_proto::limits::ENTRY_BYTES_MAX;
use candor_proto::{Chain, Epoch, LogIndex, Position};

use crate::entry::Entry;

/// Size of the header before each payload, bytes.
pub(super) const FRAME_HEADER_SIZE: usize = 41;

/// The header before a payload, not yet checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    crc: u32,
    payload_size: u32,
    pub(super) position: Position,
    pub(super) chain: Chain,
    kind: u8,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadFrame {
    /// It runs past the end of the file, or says it is larger than any entry.
    Short,
    /// Its checksum does not hold.
    Checksum,
}

impl BadFrame {
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Short => "an entry runs past the end of the file",
            Self::Checksum => "the checksum of an entry does not hold",
        }
    }
}

impl FrameHeader {
    pub(super) fn read(bytes: &[u8; FRAME_HEADER_SIZE]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(array(&bytes[at..at + 4]));
        let u64_at = |at: usize| u64::from_le_bytes(array(&bytes[at..at + 8]));
        Self {
            crc: u32_at(0),
            payload_size: u32_at(4),
            position: Position::new(Epoch(u64_at(16)), LogIndex(u64_at(8))),
            chain: Chain(u128::from_be_bytes(array(&bytes[24..40]))),
            kind: bytes[40],
        }
    }

    /// Size of the whole frame; `None` if no entry is that large.
    pub(super) fn frame_size(&self) -> Option<usize> {
        let size = self.payload_size as usize;
        (size <= ENTRY_BYTES_MAX).then_some(FRAME_HEADER_SIZE + size)
    }

    /// Whether the checksum holds over `frame`, which is the whole frame.
    fn holds(&self, frame: &[u8]) -> bool {
        self.crc == crc32fast::hash(&frame[4..])
    }
}

/// Size of the frame of an entry with a payload of this size.
pub(super) fn frame_size(payload_size: usize) -> usize {
    FRAME_HEADER_SIZE + payload_size
}

/// Appends the frame of `entry` to `out`.
pub(super) fn write_frame(entry: &Entry, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(entry.payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&entry.position.index.0.to_le_bytes());
    out.extend_from_slice(&entry.position.epoch.0.to_le_bytes());
    out.extend_from_slice(&entry.chain.0.to_be_bytes());
    out.push(entry.kind);
    out.extend_from_slice(&entry.payload);
    let crc = crc32fast::hash(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The entry at the start of `bytes`, its payload a part of them, and the size of its frame.
pub(super) fn read_frame(bytes: &Bytes) -> Result<(Entry, usize), BadFrame> {
    let header = FrameHeader::read(bytes.first_chunk().ok_or(BadFrame::Short)?);
    let size = header
        .frame_size()
        .filter(|size| *size <= bytes.len())
        .ok_or(BadFrame::Short)?;
    if !header.holds(&bytes[..size]) {
        return Err(BadFrame::Checksum);
    }
    let entry = Entry {
        position: header.position,
        kind: header.kind,
        payload: bytes.slice(FRAME_HEADER_SIZE..size),
        chain: header.chain,
    };
    Ok((entry, size))
}

/// Where the first frame stands in `bytes` whose checksum holds and whose index is at least `index`.
pub(super) fn find_frame(bytes: &[u8], index: LogIndex) -> Option<usize> {
    // No more entries than that fit, so nearly every place is ruled out by its index, without a checksum.
    let indexes = index.0..index.0 + 1 + (bytes.len() / FRAME_HEADER_SIZE) as u64;
    let is_frame = |at: usize| {
        let rest = &bytes[at..];
        let header = FrameHeader::read(rest.first_chunk()?);
        let size = header.frame_size().filter(|size| *size <= rest.len())?;
        (indexes.contains(&header.position.index.0) && header.holds(&rest[..size])).then_some(())
    };
    (0..bytes.len()).find(|at| is_frame(*at).is_some())
}

/// A slice of known length as an array.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, payload: &'static [u8]) -> Entry {
        Entry::chained(
            Chain(9),
            Position::new(Epoch(3), LogIndex(index)),
            2,
            Bytes::from_static(payload),
        )
    }

    fn frame(entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(entry, &mut out);
        assert_eq!(out.len(), frame_size(entry.payload.len()));
        out
    }

    #[test]
    fn a_frame_comes_back_and_every_flipped_byte_is_refused() {
        for payload in [&b""[..], b"x", b"some bytes of payload"] {
            let entry = entry(7, payload);
            let bytes = frame(&entry);
            assert_eq!(read_frame(&bytes.clone().into()), Ok((entry, bytes.len())));
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                assert!(read_frame(&flipped.into()).is_err(), "byte {at}");
            }
            for size in 0..bytes.len() {
                assert_eq!(read_frame(&bytes[..size].to_vec().into()), Err(BadFrame::Short));
            }
        }
    }

    #[test]
    fn a_frame_is_found_behind_rubbish() {
        let mut bytes = vec![0xee; 100];
        bytes.extend_from_slice(&frame(&entry(8, b"payload")));
        assert_eq!(find_frame(&bytes, LogIndex(8)), Some(100));
        assert_eq!(find_frame(&bytes, LogIndex(9)), None, "an earlier entry does not count");
        assert_eq!(find_frame(&bytes[..bytes.len() - 1], LogIndex(8)), None);
    }
}
