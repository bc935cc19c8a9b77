//! What was written once is read for ever, and what was never written is refused without a fall.
//!
//! `tests/fixtures/format-1` holds the files of a range as the first version wrote them, `format-1.txt` what it shows. They
//! stay as they are from the first release on. Until then a change of the format writes them anew:
//! `CANDOR_FIXTURE=write cargo test -p candor-storage --test storage format`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use candor_storage::StorageError;
use proptest::prelude::*;

use crate::kinds::{disk_with, everything, files, with_every_kind_of_file};
use crate::support::dir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn write_fixture() {
    let disk = with_every_kind_of_file();
    let folder = fixtures().join("format-1");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("removes");
    }
    std::fs::create_dir_all(folder.join("segments")).expect("makes");
    let files = files(&disk);
    for (path, content) in &files {
        let name = path.strip_prefix(dir()).expect("inside");
        std::fs::write(folder.join(name), content).expect("writes");
    }
    let shown = everything(&disk_with(&files)).expect("reads");
    std::fs::write(fixtures().join("format-1.txt"), shown.join("\n") + "\n").expect("writes");
}

/// The files of the fixture.
fn fixture() -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in ["", "segments"] {
        let entries = std::fs::read_dir(fixtures().join("format-1").join(folder)).expect("is checked in");
        for entry in entries
            .map(|entry| entry.expect("reads").path())
            .filter(|path| path.is_file())
        {
            let name = entry.file_name().expect("a name");
            found.push((dir().join(folder).join(name), std::fs::read(&entry).expect("reads")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_range_of_format_1_shows_what_it_showed() {
    if std::env::var("CANDOR_FIXTURE").as_deref() == Ok("write") {
        write_fixture();
    }
    let expected = std::fs::read_to_string(fixtures().join("format-1.txt")).expect("is checked in");
    match everything(&disk_with(&fixture())) {
        Ok(shown) => assert_eq!(shown.join("\n") + "\n", expected),
        Err(error) => panic!("{error}; if the format has changed before its release, see {}", file!()),
    }
}

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Harm {
    Flip {
        at: usize,
        by: u8,
    },
    Cut {
        at: usize,
    },
    Fill {
        at: usize,
        with: u8,
        count: usize,
    },
    Remove,
    /// It gets the content of another file.
    Other {
        file: usize,
    },
}

fn harms() -> impl Strategy<Value = Vec<(usize, Harm)>> {
    let harm = prop_oneof![
        6 => (any::<usize>(), 1..=255_u8).prop_map(|(at, by)| Harm::Flip { at, by }),
        2 => any::<usize>().prop_map(|at| Harm::Cut { at }),
        2 => (any::<usize>(), any::<u8>(), 1..600_usize).prop_map(|(at, with, count)| Harm::Fill { at, with, count }),
        1 => Just(Harm::Remove),
        1 => any::<usize>().prop_map(|file| Harm::Other { file }),
    ];
    prop::collection::vec((any::<usize>(), harm), 1..4)
}

static SOUND: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| files(&with_every_kind_of_file()));

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a disk comes back with, opening it and reading all of it ends in an error or in rows.
    #[test]
    fn no_files_make_a_range_fall(harms in harms()) {
        let mut files = SOUND.clone();
        for (place, harm) in harms {
            let place = place % files.len();
            let other = match &harm {
                Harm::Other { file } => files[file % files.len()].1.clone(),
                _ => Vec::new(),
            };
            let content = &mut files[place].1;
            let size = content.len().max(1);
            match harm {
                Harm::Flip { at, by } => content.iter_mut().skip(at % size).take(1).for_each(|byte| *byte ^= by),
                Harm::Cut { at } => content.truncate(at % size),
                Harm::Fill { at, with, count } => {
                    content.iter_mut().skip(at % size).take(count).for_each(|byte| *byte = with);
                }
                Harm::Other { .. } => *content = other,
                Harm::Remove => drop(files.remove(place)),
            }
        }
        match everything(&disk_with(&files)) {
            Ok(_) | Err(StorageError::Damaged { .. } | StorageError::Io { .. } | StorageError::NoRange { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
