//! Bytes that rot on disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use candor_proto::LogIndex;
use candor_storage::disk::{CrashDisk, Disk as _};
use candor_storage::{RangeStore, StorageError};

use crate::kinds::{disk_with, everything, files, with_every_kind_of_file};
use crate::support::*;

const FILE_HEADER: usize = 144;
const FRAME_HEADER: usize = 41;

/// A synced log of three files. It was written at once, so nothing is reserved behind its end.
fn synced() -> (CrashDisk, Arc<RangeStore>) {
    let disk = CrashDisk::new(1);
    let store = try_create(&disk, 800).expect("creates");
    let record = |i: u64| (9, Bytes::from(vec![i as u8; (i * 13 % 50) as usize]));
    store
        .append(EPOCH, &(0..24).map(record).collect::<Vec<_>>())
        .expect("appends");
    store.sync().expect("syncs");
    assert_eq!(log_files(&disk).len(), 3);
    (disk, store)
}

/// The header and the frames of a file, from its own lengths.
fn pieces(content: &[u8]) -> Vec<Range<usize>> {
    let header = 0..FILE_HEADER;
    let mut pieces = vec![header];
    let mut at = FILE_HEADER;
    while at < content.len() {
        let size = u32::from_le_bytes(content[at + 4..at + 8].try_into().expect("four bytes"));
        let end = at + FRAME_HEADER + size as usize;
        pieces.push(at..end);
        at = end;
    }
    pieces
}

/// The file and the offset that an error names.
fn named(error: Option<StorageError>) -> Option<(PathBuf, usize)> {
    match error? {
        StorageError::Damaged { path, offset, .. } => Some((path, offset as usize)),
        other => panic!("not damage: {other}"),
    }
}

fn forget_mark(disk: &CrashDisk) {
    disk.set_content(&dir().join("synced"), vec![]);
}

#[test]
fn every_flipped_byte_is_reported_with_file_and_offset() {
    let (disk, _store) = synced();
    for path in log_files(&disk) {
        let content = disk.content(&path).expect("there");
        for piece in pieces(&content) {
            for at in piece.clone() {
                let mut flipped = content.clone();
                flipped[at] ^= 1 << (at % 8);
                disk.set_content(&path, flipped.clone());
                assert_eq!(named(open(&disk).err()), Some((path.clone(), piece.start)), "byte {at}");
                assert_eq!(disk.content(&path), Some(flipped), "nothing was cut");
            }
        }
        disk.set_content(&path, content);
    }
    open(&disk).expect("opens when all is as it was");
}

#[test]
fn without_the_mark_only_the_last_entry_is_in_doubt() {
    let (disk, _store) = synced();
    let mark = disk.content(&dir().join("synced")).expect("there");
    let files = log_files(&disk);
    for path in &files {
        let content = disk.content(path).expect("there");
        let pieces = pieces(&content);
        for (place, piece) in pieces.iter().enumerate() {
            let is_last = place + 1 == pieces.len() && Some(path) == files.last();
            for at in piece.clone() {
                let mut flipped = content.clone();
                flipped[at] ^= 0x40;
                disk.set_content(path, flipped);
                forget_mark(&disk);
                if let Some(found) = named(open(&disk).err()) {
                    assert_eq!(found, (path.clone(), piece.start), "byte {at}");
                    continue;
                }
                assert!(is_last, "byte {at} of {} was passed over", path.display());
                let kept = disk
                    .content(&torn_file(path, piece.start))
                    .expect("what is cut is kept aside");
                assert_eq!(kept.len(), piece.len());
                assert_eq!(disk.content(path), Some(content[..piece.start].to_vec()));
            }
        }
        disk.set_content(path, content);
        disk.set_content(&dir().join("synced"), mark.clone());
    }
}

fn torn_file(path: &Path, at: usize) -> PathBuf {
    let first = path.file_stem().expect("a name").to_string_lossy().into_owned();
    dir().join(format!("torn-{first}-{at}"))
}

#[test]
fn a_tail_that_ends_anywhere_is_cut_at_the_last_whole_entry() {
    let (disk, store) = synced();
    let path = log_files(&disk).pop().expect("a file");
    let content = disk.content(&path).expect("there");
    let pieces = pieces(&content);
    let before = store.last().0.index.0 - (pieces.len() as u64 - 1);
    for size in FILE_HEADER..content.len() {
        disk.set_content(&path, content[..size].to_vec());
        assert!(named(open(&disk).err()).is_some(), "what was synced is missed");
        forget_mark(&disk);
        let recovered = open(&disk).expect("opens");
        let whole = pieces.iter().filter(|piece| piece.end <= size).count() as u64 - 1;
        assert_eq!(recovered.last().0.index, LogIndex(before + whole), "{size} bytes");
        let last = recovered.last();
        drop(recovered);
        assert_eq!(open(&disk).expect("opens again").last(), last);
        disk.set_content(&path, content.clone());
        open(&disk).expect("sets the mark");
    }
}

#[test]
fn a_missing_file_is_missed() {
    for missing in 0..3 {
        let (disk, _store) = synced();
        let files = log_files(&disk);
        disk.remove(&files[missing]).expect("removed");
        let found = named(open(&disk).err());
        match missing {
            0 => assert_eq!(found, Some((files[1].clone(), 0))),
            1 => assert_eq!(found, Some((files[2].clone(), 0))),
            _ => assert!(found.is_some(), "the mark lies in the missing file"),
        }
    }
}

#[test]
fn a_byte_that_rots_under_a_running_store_is_reported_by_the_read() {
    let (disk, store) = synced();
    let path = log_files(&disk).remove(1);
    let mut content = disk.content(&path).expect("there");
    let piece = pieces(&content)[2].clone();
    content[piece.end - 1] ^= 1;
    disk.set_content(&path, content);
    let error = store.read(LogIndex::ZERO, LogIndex(u64::MAX), usize::MAX).err();
    assert_eq!(named(error), Some((path, piece.start)));
}

/// Each byte of each file is flipped; `CANDOR_DAMAGE=1` takes all of them, otherwise one in 307 is taken, and all of
/// small files.
#[test]
fn a_flipped_byte_of_any_file_is_reported_with_its_file_or_does_no_harm() {
    const SMALL: usize = 256;
    let step = if std::env::var_os("CANDOR_DAMAGE").is_some() {
        1
    } else {
        307
    };
    let files = files(&with_every_kind_of_file());
    let kind = |path: &Path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let kinds = [".log", "synced", "manifest-", ".parquet", ".keys"];
        let kind = kinds.into_iter().find(|kind| name.contains(kind));
        kind.unwrap_or_else(|| panic!("{name} is of no kind")).to_owned()
    };
    let sound = everything(&disk_with(&files)).expect("reads");
    let mut reported = BTreeMap::new();
    for (place, (path, content)) in files.iter().enumerate() {
        let step = if content.len() <= SMALL { 1 } else { step };
        for at in (place % step..content.len()).step_by(step) {
            let disk = disk_with(&files);
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            disk.set_content(path, flipped);
            match everything(&disk) {
                Ok(found) => assert_eq!(found, sound, "byte {at} of {}", path.display()),
                Err(StorageError::Damaged {
                    path: named, offset, ..
                }) => {
                    assert_eq!(&named, path, "byte {at} of {}", path.display());
                    assert!(
                        offset <= at as u64 || path.extension().is_some(),
                        "{offset} is behind byte {at}"
                    );
                    *reported.entry(kind(path)).or_insert(0) += 1;
                }
                Err(other) => panic!("byte {at} of {}: {other}", path.display()),
            }
        }
    }
    let kinds: Vec<&str> = reported.keys().map(String::as_str).collect();
    // A manifest that rotted is stood in for by the one before it, and a mark only leaves more to judgement.
    assert_eq!(kinds, [".keys", ".log", ".parquet"]);
    println!("{} files, {reported:?} reported", files.len());
}
