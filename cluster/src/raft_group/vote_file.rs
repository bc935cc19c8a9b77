//! The small file that remembers the newest epoch this node took part in, and its vote there.
//!
//! `raft.vote`: the magic `CNDRVOTE`, then term and vote as little-endian `u64`, then the CRC-32 of all before it.
//! Replaced as a whole: written beside, fsynced, renamed, folder fsynced. Its presence also says that this node votes
//! in the range; a copy that is only collected has none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::ClusterError;

const MAGIC: &[u8; 8] = b"CNDRVOTE";
const SIZE: usize = 8 + 8 + 8 + 4;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) term: u64,
    pub(crate) vote: u64,
}

/// The vote of one range on disk.
#[derive(Debug)]
pub(crate) struct VoteFile {
    folder: PathBuf,
}

impl VoteFile {
    /// The vote file of the range kept in `folder`; nothing is read or written yet.
    pub(crate) fn of(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("raft.vote")
    }

    /// The stored vote, `None` if this node never voted in the range.
    pub(crate) fn read(&self) -> Result<Option<Vote>, ClusterError> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("read", &path)(source)),
        };
        decode(&bytes)
            .map(Some)
            .map_err(|why| ClusterError::VoteDamaged { path, why })
    }

    /// Replaces the stored vote; it is durable when this returns.
    pub(crate) fn write(&self, vote: Vote) -> Result<(), ClusterError> {
        let path = self.path();
        let beside = self.folder.join("raft.vote.new");
        let mut file = File::create(&beside).map_err(io_error("create", &beside))?;
        file.write_all(&encode(vote))
            .and_then(|()| file.sync_all())
            .map_err(io_error("write", &beside))?;
        fs::rename(&beside, &path).map_err(io_error("rename to", &path))?;
        sync_folder(&self.folder)
    }
}

/// Makes a change of the folder's own entries durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ClusterError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("sync the folder", folder))
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ClusterError {
    let path = path.to_owned();
    move |source| ClusterError::Io { doing, path, source }
}

fn encode(vote: Vote) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&vote.term.to_le_bytes());
    bytes[16..24].copy_from_slice(&vote.vote.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..24]);
    bytes[24..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vote, &'static str> {
    let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| "it has another size")?;
    if &bytes[..8] != MAGIC {
        return Err("it does not start like one");
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(bytes[24..].try_into().expect("four bytes"));
    if crc != crc32fast::hash(&bytes[..24]) {
        return Err("its checksum does not match");
    }
    Ok(Vote {
        term: number(8),
        vote: number(16),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_read_back_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().expect("tempdir");
        let file = VoteFile::of(dir.path());
        assert_eq!(file.read().expect("none yet"), None);
        for term in [1, 2, u64::MAX] {
            let vote = Vote { term, vote: 1 };
            file.write(vote).expect("write");
            assert_eq!(file.read().expect("read"), Some(vote));
        }
        assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 1);
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_refused() {
        let good = encode(Vote { term: 7, vote: 1 });
        assert!(decode(&good).is_ok());
        for bit in 0..SIZE * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
        }
        for length in 0..SIZE {
            assert!(decode(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(decode(&[good.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn a_damaged_file_stops_the_start_and_is_named() {
        let dir = tempfile::tempdir().expect("tempdir");
        fs::write(dir.path().join("raft.vote"), b"short").expect("write");
        let error = VoteFile::of(dir.path()).read().expect_err("damaged");
        assert!(
            error.to_string().contains("raft.vote is damaged: it has another size"),
            "{error}"
        );
    }
}
