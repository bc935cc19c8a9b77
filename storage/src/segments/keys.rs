//! The key file of a segment: from a key to the rows that have it, without looking at other rows.
//!
//! For each key of the table (and for the row ids, where they do not ascend) it holds one entry per row: the upper half
//! of the key's [`fingerprint`] and the row's ordinal, sorted, in blocks of 1024 entries. A directory of the blocks'
//! first fingerprints is kept in memory, so a probe reads one block, seldom two. A hit says that a row may have the key:
//! the key columns decide. Of a million rows, one in 4000 probes meets a row of another key.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

use super::file::SegmentFiles;
use super::sealed::{BLOCK_SIZE, ContentName, SealedFile, SealedWriter};
use crate::error::StorageError;
use crate::table::keys::normalised;

pub(crate) const EXTENSION: &str = "keys";

const BLOCK_ENTRIES: usize = BLOCK_SIZE / 8;

/// The fingerprint of a key: XXH64 with seed 0 of the key's bytes as `arrow-row` encodes them, columns ascending and
/// NULL first, after -0.0 was made 0.0 and every NaN the same one. Of a row id: of its eight bytes, little endian.
///
/// Fingerprints stand on disk, so what goes into them never changes; a test pins the bytes for each type.
pub fn fingerprint(key: &[u8]) -> u64 {
    XxHash64::oneshot(0, key)
}

pub(crate) fn row_fingerprint(row: u64) -> u64 {
    fingerprint(&row.to_le_bytes())
}

/// Encodes keys of one kind.
pub(crate) struct KeyCodec(RowConverter);

/// Encoded keys.
pub(crate) struct EncodedKeys {
    rows: Rows,
    complete: Option<NullBuffer>,
}

impl KeyCodec {
    pub(crate) fn new(types: impl IntoIterator<Item = DataType>) -> Result<Self, ArrowError> {
        RowConverter::new(types.into_iter().map(SortField::new).collect()).map(Self)
    }

    pub(crate) fn encode(&self, columns: &[ArrayRef]) -> Result<EncodedKeys, ArrowError> {
        let complete = columns.iter().fold(None, |complete: Option<NullBuffer>, column| {
            NullBuffer::union(complete.as_ref(), column.nulls())
        });
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        Ok(EncodedKeys {
            rows: self.0.convert_columns(&columns)?,
            complete,
        })
    }
}

impl EncodedKeys {
    pub(crate) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    pub(crate) fn bytes(&self, row: usize) -> &[u8] {
        self.rows.row(row).data()
    }

    /// `None` if the key holds a NULL: such a row is exempt from the key.
    pub(crate) fn fingerprint(&self, row: usize) -> Option<u64> {
        let complete = self.complete.as_ref().is_none_or(|complete| complete.is_valid(row));
        complete.then(|| fingerprint(self.bytes(row)))
    }
}

/// Gathers the entries of one key.
#[derive(Default)]
pub(crate) struct KeyEntries(Vec<u64>);

impl KeyEntries {
    pub(crate) fn push(&mut self, fingerprint: u64, ordinal: u32) {
        self.0.push(fingerprint >> 32 << 32 | u64::from(ordinal));
    }
}

/// The record at the end of a key file.
#[derive(Serialize, Deserialize)]
struct KeyFileInfo {
    /// The segment it belongs to.
    segment: ContentName,
    keys: Vec<KeyInfo>,
}

#[derive(Serialize, Deserialize)]
struct KeyInfo {
    /// Ids of the key's columns; none: the row ids.
    columns: Vec<u32>,
    entries: u32,
    /// Ordinal of its first block in the file.
    first_block: u32,
    /// The first fingerprint of each block.
    directory: Vec<u32>,
}

/// Writes the key file of `segment`; `keys` are the ids of the columns of each key, and its entries.
pub(crate) fn write(
    files: &dyn SegmentFiles,
    segment: ContentName,
    keys: Vec<(Vec<u32>, KeyEntries)>,
) -> Result<(ContentName, u64), StorageError> {
    let mut file = SealedWriter::new(files.create()?);
    let mut infos = Vec::with_capacity(keys.len());
    for (columns, KeyEntries(mut entries)) in keys {
        entries.sort_unstable();
        let first_block = (file.size() / BLOCK_SIZE as u64) as u32;
        let mut directory = Vec::with_capacity(entries.len().div_ceil(BLOCK_ENTRIES));
        for entries in entries.chunks(BLOCK_ENTRIES) {
            directory.push((entries[0] >> 32) as u32);
            let mut block = Vec::with_capacity(BLOCK_SIZE);
            block.extend(entries.iter().flat_map(|entry| ((entry >> 32) as u32).to_le_bytes()));
            block.resize(BLOCK_SIZE / 2, 0);
            block.extend(entries.iter().flat_map(|entry| (*entry as u32).to_le_bytes()));
            block.resize(BLOCK_SIZE, 0);
            file.write(&block)?;
        }
        infos.push(KeyInfo {
            columns,
            entries: entries.len() as u32,
            first_block,
            directory,
        });
    }
    let info = KeyFileInfo { segment, keys: infos };
    let info = postcard::to_allocvec(&info).expect("plain data encodes");
    file.finish(&info, &[], EXTENSION)
}

/// A key file, open.
pub(crate) struct KeyFile {
    file: SealedFile,
    keys: Vec<KeyInfo>,
}

/// The entries of one block.
pub(crate) struct KeyBlock {
    fingerprints: Vec<u32>,
    ordinals: Vec<u32>,
}

impl KeyFile {
    pub(crate) fn open(
        files: &dyn SegmentFiles,
        name: &str,
        size: u64,
        segment: ContentName,
    ) -> Result<Self, StorageError> {
        let file = SealedFile::open(files.open(name)?, size, |_| Some(0))?;
        let info: Option<KeyFileInfo> = postcard::from_bytes(file.info()).ok();
        let blocks = file.body_size() / BLOCK_SIZE as u64;
        let fits = |key: &KeyInfo| {
            let count = key.directory.len() as u64;
            count == u64::from(key.entries.div_ceil(BLOCK_ENTRIES as u32))
                && u64::from(key.first_block) + count <= blocks
        };
        match info {
            Some(info) if info.segment == segment && info.keys.iter().all(fits) => Ok(Self { file, keys: info.keys }),
            _ => Err(file.damaged(0, "it is not the key file of its segment")),
        }
    }

    pub(crate) fn memory_size(&self) -> usize {
        let directories = self.keys.iter().map(|key| key.directory.len() * 4 + 64);
        self.file.memory_size() + directories.sum::<usize>()
    }

    /// The place of the key on these columns.
    pub(crate) fn key(&self, columns: &[u32]) -> Option<usize> {
        self.keys.iter().position(|key| key.columns == columns)
    }

    /// Adds the ordinals of all rows whose key may have this fingerprint to `found`. Blocks are had from `block`, by
    /// their ordinal in the file.
    pub(crate) fn probe(
        &self,
        key: usize,
        fingerprint: u64,
        found: &mut Vec<u32>,
        block: impl Fn(u32) -> Result<std::sync::Arc<KeyBlock>, StorageError>,
    ) -> Result<(), StorageError> {
        let key = &self.keys[key];
        let wanted = (fingerprint >> 32) as u32;
        // Equal fingerprints may begin at the end of the block in front of the first that starts with them.
        let first = key.directory.partition_point(|first| *first < wanted).saturating_sub(1);
        for place in first..key.directory.len() {
            if key.directory[place] > wanted {
                break;
            }
            block(key.first_block + place as u32)?.find(wanted, found);
        }
        Ok(())
    }

    /// The entries of a key whose fingerprints lie in `range`, ascending.
    pub(crate) fn entries(&self, key: usize, range: &Range<u64>) -> Result<Vec<(u32, u32)>, StorageError> {
        let key = &self.keys[key];
        let first = key.directory.partition_point(|first| u64::from(*first) < range.start);
        let blocks = first.saturating_sub(1)..key.directory.partition_point(|first| u64::from(*first) < range.end);
        let mut entries = Vec::with_capacity(blocks.len() * BLOCK_ENTRIES);
        for place in blocks {
            let block = self.read_block(key.first_block + place as u32)?;
            let found = block.fingerprints.into_iter().zip(block.ordinals);
            entries.extend(found.filter(|(print, _)| range.contains(&u64::from(*print))));
        }
        Ok(entries)
    }

    /// Reads a block, by its ordinal in the file.
    pub(crate) fn read_block(&self, ordinal: u32) -> Result<KeyBlock, StorageError> {
        let key = self
            .keys
            .iter()
            .rev()
            .find(|key| key.first_block <= ordinal && key.entries > 0);
        let before = key.map_or(0, |key| (ordinal - key.first_block) as usize * BLOCK_ENTRIES);
        let entries = key.map_or(0, |key| (key.entries as usize - before).min(BLOCK_ENTRIES));
        let at = u64::from(ordinal) * BLOCK_SIZE as u64;
        let bytes = self.file.read(at..at + BLOCK_SIZE as u64)?;
        let words = |half: &[u8]| {
            let (words, _) = half.as_chunks::<4>();
            words[..entries].iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let (fingerprints, ordinals) = bytes.split_at(BLOCK_SIZE / 2);
        Ok(KeyBlock {
            fingerprints: words(fingerprints),
            ordinals: words(ordinals),
        })
    }
}

impl KeyBlock {
    pub(crate) fn memory_size(&self) -> usize {
        self.fingerprints.len() * 8
    }

    fn find(&self, wanted: u32, found: &mut Vec<u32>) {
        let first = self.fingerprints.partition_point(|fingerprint| *fingerprint < wanted);
        let hits = self.fingerprints[first..]
            .iter()
            .take_while(|fingerprint| **fingerprint == wanted);
        found.extend_from_slice(&self.ordinals[first..first + hits.count()]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::{Int32Array, StringViewArray};

    #[test]
    fn keys_with_null_have_no_fingerprint() {
        let columns: [ArrayRef; 2] = [
            Arc::new(Int32Array::from(vec![Some(1), None, Some(1)])),
            Arc::new(StringViewArray::from(vec![Some("a"), Some("a"), None])),
        ];
        let codec = KeyCodec::new(columns.iter().map(|column| column.data_type().clone())).expect("has an order");
        let keys = codec.encode(&columns).expect("encodes");
        let complete: Vec<bool> = (0..3).map(|row| keys.fingerprint(row).is_some()).collect();
        assert_eq!(complete, [true, false, false]);
    }
}
