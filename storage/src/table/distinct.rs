//! Whether the keys of many rows, which stand in segments already, are those of no other row.
//!
//! Looking each of them up would take a minute for ten million rows. Instead:
//!
//! 1. Segments are sorted by the primary key, so those whose keys lie apart cannot share one: what is left are clusters
//!    of segments that overlap. Rows that are loaded in the order of their keys make none.
//! 2. Of the members of a cluster the fingerprints of all keys are sorted together, a share of them at a time. Keys with
//!    different fingerprints are different.
//! 3. Keys with equal fingerprints, a few in a million, are read and compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::keys::{KeySpec, Keys};
use super::layers::{Layers, MainSegment, unreadable};
use super::stage::{Ended, ends};
use crate::error::StorageError;
use crate::segments::fingerprint;

/// Fingerprints that are sorted at once: 64 MiB of them.
const SORTED_MAX: u64 = 4 << 20;

/// Keys that are read at once.
const CANDIDATES_MAX: usize = 1 << 16;

/// A key of a table, and the rows that have it.
pub(super) struct Distinct<'a> {
    pub(super) layers: &'a Layers,
    pub(super) spec: &'a KeySpec,
    /// Whether segments are sorted by it.
    pub(super) is_sorted: bool,
    /// Rows that end, by id: their keys are free.
    pub(super) ended: &'a [Ended],
}

/// Rows whose keys may meet.
struct Member {
    rows: Rows,
    /// They begin; those of other members may live already.
    is_new: bool,
    /// The smallest key, and the largest if that is known.
    first: Vec<u8>,
    last: Option<Vec<u8>>,
}

enum Rows {
    Segment(Arc<MainSegment>),
    Memory(MemoryRows),
}

/// Keys of rows in memory, all of them live.
struct MemoryRows {
    batches: Vec<Keys>,
    /// Upper halves of the fingerprints, batches and rows, ascending.
    entries: Vec<(u32, u32, u32)>,
}

/// A key whose fingerprint another one has: the group of those that share it, its member, its place there.
struct Candidate {
    group: u32,
    member: u32,
    row: u32,
}

impl Distinct<'_> {
    /// A key that a row of `runs` shares with another row of `runs`, with a row of `begun`, or with a row that stays live;
    /// as its columns, of one row.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn find<'b>(
        &self,
        runs: &[Arc<MainSegment>],
        begun: impl Iterator<Item = &'b Keys>,
    ) -> Result<Option<Vec<ArrayRef>>, StorageError> {
        let mut members = Vec::new();
        for run in runs {
            members.push(self.segment(run, true)?);
        }
        for main in &self.layers.main {
            members.push(self.segment(main, false)?);
        }
        let begun = begun
            .map(|keys| self.again(keys, |_| true))
            .collect::<Result<Vec<_>, _>>()?;
        members.extend(MemoryRows::new(begun).map(|rows| rows.member(true)));
        members.extend(MemoryRows::new(self.in_memory()?).map(|rows| rows.member(false)));
        for cluster in self.clusters(members) {
            if let Some(shared) = self.in_cluster(&cluster)? {
                return Ok(Some(shared));
            }
        }
        Ok(None)
    }

    fn segment(&self, main: &Arc<MainSegment>, is_new: bool) -> Result<Member, StorageError> {
        let mut bounds = (Vec::new(), None);
        if self.is_sorted && main.segment.info().sorted_by == self.spec.columns() {
            let keys = self.keys_of(main, &[0, main.segment.rows() - 1])?;
            bounds = (keys.bytes(0).to_vec(), Some(keys.bytes(1).to_vec()));
        }
        Ok(Member {
            rows: Rows::Segment(Arc::clone(main)),
            is_new,
            first: bounds.0,
            last: bounds.1,
        })
    }

    /// The keys of all rows in memory that stay live.
    fn in_memory(&self) -> Result<Vec<Keys>, StorageError> {
        let mut all = Vec::new();
        for delta in &self.layers.deltas {
            let blocks = delta.inner.read().blocks.below(u64::MAX);
            for block in blocks {
                let columns = self.spec.columns().iter().zip(self.spec.types());
                let columns: Vec<ArrayRef> = columns.map(|(id, ty)| block.by_id(*id, ty)).collect();
                let keys = self.spec.encode(&columns).map_err(|error| unreadable(&error))?;
                let lives = |row: usize| {
                    let id = block.first_row + row as u64;
                    delta.lives_at(id, u64::MAX) && !ends(self.ended, id)
                };
                all.push(self.again(&keys, lives)?);
            }
        }
        Ok(all)
    }

    /// The same keys without those of rows that `stays` does not hold for.
    fn again(&self, keys: &Keys, stays: impl Fn(usize) -> bool) -> Result<Keys, StorageError> {
        let kept: arrow::array::UInt32Array = (0..keys.len())
            .filter(|row| keys.key(*row).is_some() && stays(*row))
            .map(|row| row as u32)
            .collect();
        let columns = keys
            .columns()
            .iter()
            .map(|column| arrow::compute::take(column, &kept, None));
        let columns = columns
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreadable(&error))?;
        self.spec.encode(&columns).map_err(|error| unreadable(&error))
    }

    /// Members that overlap, together, where at least one of them is new.
    fn clusters(&self, mut members: Vec<Member>) -> Vec<Vec<Member>> {
        members.sort_by(|a, b| a.first.cmp(&b.first));
        let mut clusters: Vec<Vec<Member>> = Vec::new();
        let mut last: Option<Vec<u8>> = Some(Vec::new());
        for member in members {
            // `None` is beyond all keys.
            let overlaps = last.as_ref().is_none_or(|last| member.first <= *last);
            let further = match (&last, &member.last) {
                (Some(last), Some(own)) => Some(last.max(own).clone()),
                _ => None,
            };
            if let Some(cluster) = clusters.last_mut().filter(|_| overlaps) {
                cluster.push(member);
                last = further;
            } else {
                last.clone_from(&member.last);
                clusters.push(vec![member]);
            }
        }
        // The primary keys of one run are distinct.
        let least = if self.is_sorted { 2 } else { 1 };
        clusters.retain(|cluster| cluster.len() >= least && cluster.iter().any(|member| member.is_new));
        clusters
    }

    fn in_cluster(&self, members: &[Member]) -> Result<Option<Vec<ArrayRef>>, StorageError> {
        let total: u64 = members.iter().map(Member::len).sum();
        let shares = total.div_ceil(SORTED_MAX).max(1);
        let mut candidates = Vec::new();
        let mut group = 0;
        for share in 0..shares {
            let bound = |share: u64| (share << 32) / shares;
            let range = bound(share)..bound(share + 1);
            let mut entries: Vec<(u32, u32, u32)> = Vec::new();
            for (member, place) in members.iter().zip(0..) {
                self.entries(member, place, &range, &mut entries)?;
            }
            entries.sort_unstable();
            for same in entries.chunk_by(|a, b| a.0 == b.0) {
                if same.len() < 2 || !same.iter().any(|(_, member, _)| members[*member as usize].is_new) {
                    continue;
                }
                candidates.extend(same.iter().map(|(_, member, row)| Candidate {
                    group,
                    member: *member,
                    row: *row,
                }));
                group += 1;
                if candidates.len() >= CANDIDATES_MAX
                    && let Some(shared) = self.compare(members, std::mem::take(&mut candidates))?
                {
                    return Ok(Some(shared));
                }
            }
        }
        self.compare(members, candidates)
    }

    /// Adds the upper half of the fingerprint of each key, the member and the row, for fingerprints in a range.
    fn entries(
        &self,
        member: &Member,
        place: u32,
        range: &std::ops::Range<u64>,
        entries: &mut Vec<(u32, u32, u32)>,
    ) -> Result<(), StorageError> {
        match &member.rows {
            Rows::Memory(rows) => {
                let first = rows.entries.partition_point(|entry| u64::from(entry.0) < range.start);
                let found = rows.entries[first..].iter().zip(first as u32..);
                let found = found.take_while(|(entry, _)| u64::from(entry.0) < range.end);
                entries.extend(found.map(|(entry, at)| (entry.0, place, at)));
            }
            Rows::Segment(main) => match main.segment.fingerprints_in(self.spec.columns(), range)? {
                Some(found) => entries.extend(found.into_iter().map(|(print, row)| (print, place, row))),
                None => self.scan(main, place, range, entries)?,
            },
        }
        Ok(())
    }

    /// As [`Distinct::entries`], for a segment that is older than the key.
    fn scan(
        &self,
        main: &MainSegment,
        place: u32,
        range: &std::ops::Range<u64>,
        entries: &mut Vec<(u32, u32, u32)>,
    ) -> Result<(), StorageError> {
        for group in 0..main.segment.groups() {
            let rows: Vec<u32> = main.segment.group_range(group).collect();
            let keys = self.keys_of(main, &rows)?;
            for (at, row) in rows.into_iter().enumerate() {
                let print = keys.key(at).map(|(_, key)| fingerprint(key) >> 32);
                if let Some(print) = print.filter(|print| range.contains(print)) {
                    entries.push((print as u32, place, row));
                }
            }
        }
        Ok(())
    }

    /// Reads the keys of candidates, and compares those of each group.
    fn compare(
        &self,
        members: &[Member],
        mut candidates: Vec<Candidate>,
    ) -> Result<Option<Vec<ArrayRef>>, StorageError> {
        // In the order they stand, so that each page is read once.
        candidates.sort_unstable_by_key(|candidate| (candidate.member, candidate.row));
        let mut keys: Vec<(u32, Vec<u8>, u32, u32)> = Vec::with_capacity(candidates.len());
        for of_member in candidates.chunk_by(|a, b| a.member == b.member) {
            let member = &members[of_member[0].member as usize];
            let mut push = |candidate: &Candidate, key: &[u8]| {
                keys.push((candidate.group, key.to_vec(), candidate.member, candidate.row));
            };
            match &member.rows {
                Rows::Memory(rows) => of_member.iter().for_each(|candidate| {
                    let (_, batch, row) = rows.entries[candidate.row as usize];
                    push(candidate, rows.batches[batch as usize].bytes(row as usize));
                }),
                Rows::Segment(main) => {
                    let lives = |candidate: &&Candidate| main.ends.lives_at(candidate.row, u64::MAX);
                    let living: Vec<&Candidate> = of_member.iter().filter(lives).collect();
                    let rows: Vec<u32> = living.iter().map(|candidate| candidate.row).collect();
                    let read = self.keys_of(main, &rows)?;
                    for (at, candidate) in living.into_iter().enumerate() {
                        let is_freed = !member.is_new
                            && !self.ended.is_empty()
                            && ends(self.ended, main.segment.row_id(candidate.row)?);
                        if !is_freed {
                            push(candidate, read.bytes(at));
                        }
                    }
                }
            }
        }
        keys.sort_unstable();
        for same in keys.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)) {
            let new = same.iter().find(|key| members[key.2 as usize].is_new);
            if let Some((.., member, row)) = new.filter(|_| same.len() > 1) {
                return match &members[*member as usize].rows {
                    Rows::Segment(main) => main.values(self.spec.columns(), self.spec.types(), &[*row]).map(Some),
                    Rows::Memory(rows) => {
                        let (_, batch, row) = rows.entries[*row as usize];
                        let columns = rows.batches[batch as usize].columns().iter();
                        Ok(Some(columns.map(|column| column.slice(row as usize, 1)).collect()))
                    }
                };
            }
        }
        Ok(None)
    }

    /// The keys of rows of a segment, by ordinal.
    fn keys_of(&self, main: &MainSegment, rows: &[u32]) -> Result<Keys, StorageError> {
        let columns = main.values(self.spec.columns(), self.spec.types(), rows)?;
        self.spec.encode(&columns).map_err(|error| unreadable(&error))
    }
}

impl Member {
    fn len(&self) -> u64 {
        match &self.rows {
            Rows::Segment(main) => u64::from(main.segment.rows()),
            Rows::Memory(rows) => rows.entries.len() as u64,
        }
    }
}

impl MemoryRows {
    /// `None` if there are none.
    fn new(batches: Vec<Keys>) -> Option<Self> {
        let mut entries = Vec::with_capacity(batches.iter().map(Keys::len).sum());
        for (batch, at) in batches.iter().zip(0..) {
            let rows = (0..batch.len()).map(|row| ((fingerprint(batch.bytes(row)) >> 32) as u32, at, row as u32));
            entries.extend(rows);
        }
        entries.sort_unstable();
        (!entries.is_empty()).then_some(Self { batches, entries })
    }

    fn member(self, is_new: bool) -> Member {
        let all = || {
            self.batches
                .iter()
                .flat_map(|keys| (0..keys.len()).map(|row| keys.bytes(row)))
        };
        let bound = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        let (first, last) = (bound(all().min()), bound(all().max()));
        Member {
            first: first.unwrap_or_default(),
            last,
            rows: Rows::Memory(self),
            is_new,
        }
    }
}
