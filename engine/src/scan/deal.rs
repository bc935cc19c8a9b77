//! The parts of a table dealt out to partitions of about the same number of rows.
//!
//! Segments are sorted by the table's key. Where no two parts overlap, the parts are put in order too: then each partition is
//! sorted by the first column of the key, and mostly no value of it stands in two partitions. Grouping by that column needs
//! neither a large hash table nor an exchange between threads then.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use candor_storage::TablePart;
use datafusion::common::ScalarValue;

/// Rows a partition should have before another one is worth its thread.
const PARTITION_ROWS_MIN: usize = 16 * 1024;

/// A partition may be larger than its share by one part in this many for the sake of a clean cut.
const UNEVEN_PART: usize = 4;

/// Parts by partition.
#[derive(Clone)]
pub(super) struct Dealt {
    pub(super) partitions: Arc<[Vec<TablePart>]>,
    pub(super) order: Option<Order>,
}

/// How the rows of all partitions stand.
#[derive(Clone)]
pub(super) struct Order {
    /// The ordinal of the column by which each partition is sorted, ascending; no value is NULL.
    pub(super) column: usize,
    /// The least value of each partition but the first, if no value stands in two partitions.
    pub(super) splits: Option<Arc<[ScalarValue]>>,
}

/// Deals out parts to at most so many partitions. `schema` is that of the table.
pub(super) fn deal(mut parts: Vec<TablePart>, partitions_max: usize, schema: &SchemaRef) -> Dealt {
    let sorted = sorted(&parts, schema);
    if let Some((_, runs)) = &sorted {
        parts = runs.iter().map(|run| parts[run.part].clone()).collect();
    }
    let sizes: Vec<usize> = parts.iter().map(TablePart::len).collect();
    let count = (sizes.iter().sum::<usize>() / PARTITION_ROWS_MIN)
        .min(partitions_max)
        .min(sizes.len());
    let count = count.max(1);
    let clean = sorted.as_ref().and_then(|(_, runs)| {
        let is_clean = |at: usize| runs[at - 1].greatest < runs[at].least;
        cuts(&sizes, count, is_clean).filter(|cuts| is_even(&sizes, cuts, count))
    });
    let order = sorted.map(|(column, runs)| Order {
        column,
        splits: clean
            .as_ref()
            .map(|cuts| cuts.iter().map(|at| runs[*at].least.clone()).collect()),
    });
    let cuts = clean.or_else(|| cuts(&sizes, count, |_| true)).unwrap_or_default();
    let mut partitions = Vec::with_capacity(cuts.len() + 1);
    for at in cuts.iter().rev() {
        partitions.push(parts.split_off(*at));
    }
    partitions.push(parts);
    partitions.reverse();
    Dealt {
        partitions: partitions.into(),
        order,
    }
}

/// A part, and the bounds of the column by which it is sorted.
struct Run {
    part: usize,
    least: ScalarValue,
    greatest: ScalarValue,
}

/// The parts in the order of the column by which all of them are sorted, if none overlaps another.
fn sorted(parts: &[TablePart], schema: &SchemaRef) -> Option<(usize, Vec<Run>)> {
    let column = parts.first()?.sorted_by()?;
    let ty = schema.fields().get(column)?.data_type();
    if !(ty.is_integer() || matches!(ty, DataType::Date32 | DataType::Timestamp(..))) {
        return None;
    }
    let run = |(part, of): (usize, &TablePart)| {
        let bounds = of.bounds(column).filter(|bounds| bounds.null_count == 0)?;
        (of.sorted_by()? == column).then_some(())?;
        Some(Run {
            part,
            least: ScalarValue::try_from_array(&bounds.min, 0).ok()?,
            greatest: ScalarValue::try_from_array(&bounds.max, 0).ok()?,
        })
    };
    let mut runs: Vec<Run> = parts.iter().enumerate().map(run).collect::<Option<_>>()?;
    runs.sort_by(|a, b| {
        let by = |a: &ScalarValue, b| a.partial_cmp(b).unwrap_or(Ordering::Equal);
        by(&a.least, &b.least).then(by(&a.greatest, &b.greatest))
    });
    let in_order = runs.windows(2).all(|pair| pair[0].greatest <= pair[1].least);
    in_order.then_some((column, runs))
}

/// Where to cut so that partitions have about the same number of rows, of the places where that is allowed; `None` if
/// there are too few of them. Each cut is the first part of a partition.
fn cuts(sizes: &[usize], count: usize, may_cut: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let rows: usize = sizes.iter().sum();
    let mut cuts: Vec<usize> = Vec::with_capacity(count - 1);
    for nth in 1..count {
        let wanted = rows * nth / count;
        let from = cuts.last().map_or(1, |last| last + 1);
        let mut before: usize = sizes.iter().take(from).sum();
        let mut best: Option<(usize, usize)> = None;
        for (at, size) in sizes.iter().enumerate().skip(from) {
            let off = before.abs_diff(wanted);
            if may_cut(at) && best.is_none_or(|(least, _)| off < least) {
                best = Some((off, at));
            }
            before += size;
        }
        cuts.push(best?.1);
    }
    Some(cuts)
}

/// Whether no partition is much larger than its share.
fn is_even(sizes: &[usize], cuts: &[usize], count: usize) -> bool {
    let share = sizes.iter().sum::<usize>().div_ceil(count);
    let ends = cuts.iter().copied().chain([sizes.len()]);
    let mut from = 0;
    ends.into_iter().all(|end| {
        let rows: usize = sizes[from..end].iter().sum();
        from = end;
        rows <= share + share / UNEVEN_PART
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_where_they_may_be_and_even_if_they_can() {
        let sizes = [10, 10, 10, 10, 10, 10];
        assert_eq!(cuts(&sizes, 1, |_| true), Some(vec![]));
        assert_eq!(cuts(&sizes, 2, |_| true), Some(vec![3]));
        assert_eq!(cuts(&sizes, 3, |_| true), Some(vec![2, 4]));
        assert_eq!(cuts(&sizes, 2, |at| at != 3), Some(vec![2]));
        assert_eq!(cuts(&sizes, 2, |_| false), None);
        assert_eq!(cuts(&[70, 10, 10, 10], 3, |_| true), Some(vec![1, 2]));
        assert_eq!(cuts(&[70, 30], 3, |_| true), None);
        assert!(is_even(&sizes, &[3], 2));
        assert!(!is_even(&sizes, &[2], 2));
        assert!(is_even(&[12, 10], &[1], 2));
    }
}
