//! Files whose every byte is checked before it is used.
//!
//! A sealed file is a body, the checksums of the body's blocks, a trailer, and a rest:
//!
//! ```text
//! body ........................ | crc32 of each 8 KiB block | trailer, 48 bytes | rest
//! ```
//!
//! The trailer stands right before the rest and has checksums of itself, of the checksums and of the rest. The rest is
//! what the file's own format wants at its very end: for Parquet the footer, which tells its own length, so any Parquet
//! reader reads a segment; for other files nothing. The last bytes of the body are the *info*, a record of ours.
//!
//! Whoever reads a part of the body reads whole blocks and checks them. So a page costs at most two blocks more than its
//! own bytes, and decoders only ever see what was written.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ring::digest::{Context, SHA256};

use super::file::{NewFile, SegmentFile};
use crate::entry::truncated;
use crate::error::StorageError;

/// Size of a block with a checksum of its own, bytes.
pub(crate) const BLOCK_SIZE: usize = 1 << BLOCK_SHIFT;
const BLOCK_SHIFT: u16 = 13;

const MAGIC: [u8; 8] = *b"CANDRSUM";
const FORMAT: u16 = 1;
const TRAILER_SIZE: usize = 48;

/// How much of the end of a file is read first, bytes: the trailer and all before it that opening needs, mostly.
const TAIL_SIZE: u64 = 64 << 10;

/// Where the rest of a file begins, told by the last bytes of the file.
pub(crate) type RestSize = fn(&[u8]) -> Option<u64>;

/// The name of a content: the first 16 bytes of its SHA-256.
pub(crate) type ContentName = u128;

/// Writes a sealed file.
pub(crate) struct SealedWriter {
    file: Box<dyn NewFile>,
    content: Context,
    size: u64,
    sums: Vec<u32>,
    block: crc32fast::Hasher,
    block_size: usize,
}

impl SealedWriter {
    pub(crate) fn new(file: Box<dyn NewFile>) -> Self {
        Self {
            file,
            content: Context::new(&SHA256),
            size: 0,
            sums: Vec::new(),
            block: crc32fast::Hasher::new(),
            block_size: 0,
        }
    }

    /// Bytes of the body so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds to the body.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        self.put(bytes)?;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_SIZE - self.block_size));
            self.block.update(now);
            self.block_size += now.len();
            if self.block_size == BLOCK_SIZE {
                self.end_block();
            }
            bytes = later;
        }
        Ok(())
    }

    /// Ends the body with `info`, adds `rest`, and gives the file its name with this extension. Returns the content's
    /// name and the size of the file.
    pub(crate) fn finish(
        mut self,
        info: &[u8],
        rest: &[u8],
        extension: &str,
    ) -> Result<(ContentName, u64), StorageError> {
        let info_at = self.size;
        self.write(info)?;
        let body_size = self.size;
        if self.block_size > 0 {
            self.end_block();
        }
        let sums: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let mut trailer = Vec::with_capacity(TRAILER_SIZE);
        trailer.extend_from_slice(&MAGIC);
        trailer.extend_from_slice(&FORMAT.to_le_bytes());
        trailer.extend_from_slice(&BLOCK_SHIFT.to_le_bytes());
        trailer.extend_from_slice(&crc32fast::hash(&sums).to_le_bytes());
        trailer.extend_from_slice(&body_size.to_le_bytes());
        trailer.extend_from_slice(&info_at.to_le_bytes());
        trailer.extend_from_slice(&(rest.len() as u32).to_le_bytes());
        trailer.extend_from_slice(&crc32fast::hash(rest).to_le_bytes());
        trailer.extend_from_slice(&[0; 4]);
        trailer.extend_from_slice(&crc32fast::hash(&trailer).to_le_bytes());
        for bytes in [&sums, &trailer, rest] {
            self.put(bytes)?;
        }
        let name = truncated(&self.content.finish());
        self.file.publish(&file_name(name, extension))?;
        Ok((name, self.size))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.file.write(bytes)?;
        self.content.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn end_block(&mut self) {
        self.sums.push(std::mem::take(&mut self.block).finalize());
        self.block_size = 0;
    }
}

/// The name of a file with this content.
pub(crate) fn file_name(name: ContentName, extension: &str) -> String {
    format!("{name:032x}.{extension}")
}

/// A sealed file, open for reading.
pub(crate) struct SealedFile {
    file: Arc<dyn SegmentFile>,
    body_size: u64,
    sums: Vec<u32>,
    info: Bytes,
    rest: Bytes,
}

impl SealedFile {
    /// Checks the end of the file: its size, the checksums, the trailer, the rest and the info.
    pub(crate) fn open(file: Arc<dyn SegmentFile>, size: u64, rest_size: RestSize) -> Result<Self, StorageError> {
        let damaged = |offset: u64, why: &str| StorageError::Damaged {
            path: file.path().to_owned(),
            offset,
            why: why.to_owned(),
        };
        if file.size() != size {
            let why = format!("its size is {}, not {size}", file.size());
            return Err(damaged(file.size().min(size), &why));
        }
        let tail_at = size.saturating_sub(TAIL_SIZE);
        let tail = file.read(tail_at..size)?;
        let rest_at = rest_size(&tail)
            .and_then(|rest| size.checked_sub(rest))
            .filter(|at| *at >= TRAILER_SIZE as u64)
            .ok_or_else(|| damaged(size.saturating_sub(8), "it does not end as such a file does"))?;
        let within = |range: Range<u64>| -> Result<Bytes, StorageError> {
            match range.start.checked_sub(tail_at) {
                Some(start) => Ok(tail.slice(start as usize..(range.end - tail_at) as usize)),
                None => file.read(range),
            }
        };
        let trailer_at = rest_at - TRAILER_SIZE as u64;
        let trailer = Trailer::read(&within(trailer_at..rest_at)?)
            .ok_or_else(|| damaged(trailer_at, "the trailer's checksum does not hold"))?;
        if u64::from(trailer.rest_size) != size - rest_at
            || trailer.sums_at().checked_add(trailer.sums_size()) != Some(trailer_at)
        {
            return Err(damaged(trailer_at, "the trailer tells of another file"));
        }
        let rest = within(rest_at..size)?;
        if crc32fast::hash(&rest) != trailer.rest_sum {
            return Err(damaged(rest_at, "the footer's checksum does not hold"));
        }
        let sums = within(trailer.sums_at()..trailer_at)?;
        if crc32fast::hash(&sums) != trailer.sums_sum {
            return Err(damaged(trailer.sums_at(), "the checksums' own checksum does not hold"));
        }
        let (sums, _) = sums.as_chunks::<4>();
        let mut opened = Self {
            body_size: trailer.body_size,
            sums: sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect(),
            info: Bytes::new(),
            rest,
            file,
        };
        opened.info = opened.read(trailer.info_at..trailer.body_size)?;
        Ok(opened)
    }

    /// The record at the end of the body.
    pub(crate) fn info(&self) -> &Bytes {
        &self.info
    }

    /// What stands behind the trailer.
    pub(crate) fn rest(&self) -> &Bytes {
        &self.rest
    }

    /// Size of the body.
    pub(crate) fn body_size(&self) -> u64 {
        self.body_size
    }

    /// Size of the file.
    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory_size(&self) -> usize {
        self.sums.len() * 4 + self.info.len() + self.rest.len()
    }

    /// A part of the body, checked.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError> {
        if range.start > range.end || range.end > self.body_size {
            return Err(self.damaged(range.start, "it points behind its own body"));
        }
        let first = range.start >> BLOCK_SHIFT;
        let from = first << BLOCK_SHIFT;
        let upto = range.end.next_multiple_of(BLOCK_SIZE as u64).min(self.body_size);
        let bytes = self.file.read(from..upto)?;
        for (place, block) in bytes.chunks(BLOCK_SIZE).enumerate() {
            if crc32fast::hash(block) != self.sums[first as usize + place] {
                let offset = from + (place * BLOCK_SIZE) as u64;
                return Err(self.damaged(offset, "the block's checksum does not hold"));
            }
        }
        Ok(bytes.slice((range.start - from) as usize..(range.end - from) as usize))
    }

    /// An error that names this file.
    pub(crate) fn damaged(&self, offset: u64, why: impl Into<String>) -> StorageError {
        StorageError::Damaged {
            path: self.file.path().to_owned(),
            offset,
            why: why.into(),
        }
    }
}

struct Trailer {
    sums_sum: u32,
    body_size: u64,
    info_at: u64,
    rest_size: u32,
    rest_sum: u32,
}

impl Trailer {
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRAILER_SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let version = u32::from(FORMAT) | u32::from(BLOCK_SHIFT) << 16;
        let holds = bytes[..8] == MAGIC && word(8) == version && word(44) == crc32fast::hash(&bytes[..44]);
        let trailer = Self {
            sums_sum: word(12),
            body_size: long(16),
            info_at: long(24),
            rest_size: word(32),
            rest_sum: word(36),
        };
        (holds && trailer.info_at <= trailer.body_size && trailer.body_size < 1 << 48).then_some(trailer)
    }

    fn sums_at(&self) -> u64 {
        self.body_size
    }

    fn sums_size(&self) -> u64 {
        self.body_size.div_ceil(BLOCK_SIZE as u64) * 4
    }
}
