//! One file of the log: a header that says which range it belongs to and where it continues, then frames.

use candor_proto::{Chain, Epoch, LogIndex, Position, RangeId, RangeName};

use super::files::LogFile;
use super::frame::array;
use super::index::EntryIndex;

/// Size of the header at the start of each file, bytes.
pub(super) const SEGMENT_HEADER_SIZE: usize = 144;

/// A file that has reached this size takes no more entries, bytes.
pub(crate) const SEGMENT_SIZE_MAX: u64 = 64 << 20;

const MAGIC: &[u8; 8] = b"CANDRLOG";
const FORMAT_VERSION: u16 = 1;
const NAME_AT: usize = 65;
const NAME_SIZE_MAX: usize = candor_proto::limits::NAME_BYTES_MAX;
const CRC_AT: usize = SEGMENT_HEADER_SIZE - 4;

const _: () = assert!(NAME_AT + NAME_SIZE_MAX <= CRC_AT, "the longest name fits the header");

/// The header at the start of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) range: RangeId,
    pub(super) name: RangeName,
    /// The index of the first entry in the file.
    pub(super) first: LogIndex,
    /// The epoch and the chain before that entry.
    pub(super) epoch_before: Epoch,
    pub(super) chain_before: Chain,
}

impl SegmentHeader {
    pub(super) fn write(&self) -> [u8; SEGMENT_HEADER_SIZE] {
        let name = self.name.as_str().as_bytes();
        assert!(name.len() <= NAME_SIZE_MAX, "names are checked where they are declared");
        let mut out = [0; SEGMENT_HEADER_SIZE];
        out[..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(SEGMENT_HEADER_SIZE as u16).to_le_bytes());
        out[16..32].copy_from_slice(&self.range.0.to_be_bytes());
        out[32..40].copy_from_slice(&self.first.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.epoch_before.0.to_le_bytes());
        out[48..64].copy_from_slice(&self.chain_before.0.to_be_bytes());
        out[64] = name.len() as u8;
        out[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        let crc = crc32fast::hash(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Position and chain before the first entry.
    pub(super) fn before(&self) -> (Position, Chain) {
        let index = LogIndex(self.first.0.saturating_sub(1));
        (Position::new(self.epoch_before, index), self.chain_before)
    }

    /// The file with this header and nothing else.
    pub(super) fn empty_file(&self) -> LogFile {
        LogFile {
            first: self.first,
            size: SEGMENT_HEADER_SIZE as u64,
            before: self.before(),
            index: Some(EntryIndex::new(self.before())),
        }
    }

    /// # Errors
    /// What does not fit, in plain words.
    pub(super) fn read(bytes: &[u8; SEGMENT_HEADER_SIZE]) -> Result<Self, String> {
        if bytes[..8] != *MAGIC {
            return Err("this is not a file of a range log".into());
        }
        if u32::from_le_bytes(array(&bytes[CRC_AT..])) != crc32fast::hash(&bytes[..CRC_AT]) {
            return Err("the checksum of the header does not hold".into());
        }
        let version = u16::from_le_bytes(array(&bytes[8..10]));
        if version != FORMAT_VERSION {
            return Err(format!("format {version} is not known, only {FORMAT_VERSION}"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(array(&bytes[at..at + 8]));
        let u128_at = |at: usize| u128::from_be_bytes(array(&bytes[at..at + 16]));
        let name = bytes.get(NAME_AT..NAME_AT + usize::from(bytes[64]).min(NAME_SIZE_MAX));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        Ok(Self {
            range: RangeId(u128_at(16)),
            first: LogIndex(u64_at(32)),
            epoch_before: Epoch(u64_at(40)),
            chain_before: Chain(u128_at(48)),
            name: RangeName::new(name.ok_or("the name is not UTF-8")?),
        })
    }
}

/// The name of the file that starts with the entry at `first`; names sort like indexes.
pub(super) fn file_name(first: LogIndex) -> String {
    format!("{:020}.log", first.0)
}

/// The index in a name made by [`file_name`].
pub(super) fn parse_file_name(name: &str) -> Option<LogIndex> {
    let index = LogIndex(name.strip_suffix(".log")?.parse().ok()?);
    (file_name(index) == name).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_flipped_byte_is_refused() {
        let header = SegmentHeader {
            range: RangeId(0x1234_5678_9abc_def0_1122_3344_5566_7788),
            name: RangeName::new("n".repeat(NAME_SIZE_MAX)),
            first: LogIndex(77),
            epoch_before: Epoch(4),
            chain_before: Chain(u128::MAX - 5),
        };
        let bytes = header.write();
        assert_eq!(SegmentHeader::read(&bytes), Ok(header));
        for at in 0..bytes.len() {
            let mut flipped = bytes;
            flipped[at] ^= 0x01;
            assert!(SegmentHeader::read(&flipped).is_err(), "byte {at}");
        }
    }

    #[test]
    fn file_names_come_back() {
        assert_eq!(parse_file_name(&file_name(LogIndex(12))), Some(LogIndex(12)));
        assert_eq!(parse_file_name("12.log"), None);
        assert_eq!(parse_file_name("00000000000000000012.tmp"), None);
    }
}
