//! Reading a row group at a version: the visible rows, filtered, the columns that are asked for.
//!
//! Columns come from the cache whole and are cut into batches without a copy; where nothing has ended and nothing is
//! filtered, that is all. A filter is evaluated on its own columns first, over the whole row group; of the other columns
//! only those pages are decoded that have rows left, unless the column is in memory or most of its pages are needed.
//! A row group that is too large for the cache is read in stretches of some pages and nothing of it is kept.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, UInt64Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;

use super::column::{SegmentColumn, from_stored};
use super::footer::SegmentFooter;
use super::segment::Segment;
use super::stats::ColumnBounds;
use super::vector::DeletionVector;
use crate::error::{ReadError, StorageError};
use crate::layout::batch_of;
use crate::schema::ROW_ID_COLUMN;

/// A row group is kept in memory if what is read of it takes at most this part of the cache.
const CACHE_SHARE: u64 = 4;

/// What is read of a part.
#[derive(Clone)]
pub struct PartRead {
    /// Ordinals of the columns, in the order they come.
    pub projection: Vec<usize>,
    /// Whether the row ids follow as one more column, [`ROW_ID_COLUMN`].
    pub with_row_id: bool,
    /// Rows of a batch, at most; at least 1.
    pub batch_rows: usize,
    /// Which of the visible rows are wanted; all if `None`.
    pub filter: Option<Arc<dyn RowFilter>>,
}

/// Tells which rows are wanted. Evaluated before any other column is looked at.
pub trait RowFilter: Send + Sync {
    /// Ordinals of the columns it needs.
    fn columns(&self) -> &[usize];

    /// Which rows of a batch of those columns, in that order, are wanted; NULL is no. Rows that are not visible may be
    /// among them.
    ///
    /// # Errors
    /// What evaluating it met; the read ends with it.
    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError>;
}

/// The rows of a part, in batches of one row at least.
pub struct PartRows(Box<dyn Iterator<Item = Result<RecordBatch, ReadError>> + Send>);

impl PartRows {
    /// Rows from any source of batches.
    pub fn new(batches: impl Iterator<Item = Result<RecordBatch, ReadError>> + Send + 'static) -> Self {
        Self(Box::new(batches))
    }
}

impl Iterator for PartRows {
    type Item = Result<RecordBatch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl fmt::Debug for PartRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartRows")
    }
}

/// One row group of a segment, at a version.
#[derive(Clone)]
pub struct SegmentPart {
    segment: Arc<Segment>,
    group: usize,
    view: Arc<SegmentView>,
}

/// How the rows of a segment are seen: as which columns, and at which version.
pub struct SegmentView {
    /// The columns of the table, by ordinal.
    pub columns: Arc<[SegmentColumn]>,
    /// The table's schema: a field for each of them.
    pub schema: SchemaRef,
    /// The ends of the segment's rows.
    pub deleted: Arc<DeletionVector>,
    /// Rows that ended at or before this version are not seen.
    pub version: u64,
    /// Nor are rows whose id is not below this number: they had not begun.
    pub row_limit: u64,
}

impl SegmentPart {
    /// All row groups of a segment.
    pub fn all(segment: &Arc<Segment>, view: &Arc<SegmentView>) -> Vec<Self> {
        let part = |group| Self {
            segment: Arc::clone(segment),
            group,
            view: Arc::clone(view),
        };
        (0..segment.groups()).map(part).collect()
    }

    /// Rows, visible or not.
    pub fn len(&self) -> usize {
        self.segment.group_range(self.group).len()
    }

    /// Whether it holds no row. None does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The ordinals of its rows in the segment.
    pub fn ordinals(&self) -> Range<u32> {
        self.segment.group_range(self.group)
    }

    /// Whether its rows come in the order of the primary key.
    pub fn is_sorted_by_key(&self) -> bool {
        !self.segment.info().sorted_by.is_empty()
    }

    /// The ordinal of the column by which its rows are sorted, ascending; rows that are equal there may stand in any
    /// order. `None` if there is none.
    pub fn sorted_by(&self) -> Option<usize> {
        let id = self.segment.info().sorted_by.first()?;
        self.view.columns.iter().position(|column| column.id == *id)
    }

    /// Bounds of a column over all its rows, visible or not; `None` if they are not known. May read the footer; if that
    /// fails nothing is known, and the read of the rows tells why.
    pub fn bounds(&self, ordinal: usize) -> Option<ColumnBounds> {
        let column = self.view.columns.get(ordinal)?;
        match self.segment.group_statistics(self.group, column.id).ok()? {
            Some(statistics) => statistics.bounds(&column.ty),
            None => column
                .missing
                .as_ref()
                .filter(|value| value.is_valid(0))
                .map(|value| ColumnBounds {
                    min: Arc::clone(value),
                    max: Arc::clone(value),
                    null_count: 0,
                }),
        }
    }

    /// The visible rows that the filter keeps, in the order they stand.
    ///
    /// # Errors
    /// A column that is not there; a damaged file, or a place that refuses; what the filter met. Some of them only come
    /// with the batches.
    pub fn read(&self, request: &PartRead) -> Result<PartRows, ReadError> {
        let filtered = request.filter.iter().flat_map(|filter| filter.columns());
        if let Some(missing) = request
            .projection
            .iter()
            .chain(filtered)
            .find(|at| **at >= self.view.columns.len())
        {
            return Err(ReadError::NoColumn(*missing));
        }
        let footer = self.segment.footer()?;
        let mut reader = PartReader {
            fields: self.fields(request),
            filter_schema: request.filter.as_ref().map(|filter| self.project(filter.columns())),
            is_streamed: self.is_streamed(&footer, request),
            request: request.clone(),
            part: self.clone(),
            footer,
            plan: None,
            at: 0,
            held: Vec::new(),
        };
        let mut is_done = false;
        Ok(PartRows::new(std::iter::from_fn(move || {
            if is_done {
                return None;
            }
            let next = reader.next_batch().transpose();
            is_done = !matches!(next, Some(Ok(_)));
            next
        })))
    }

    fn fields(&self, request: &PartRead) -> SchemaRef {
        let mut fields: Vec<_> = request
            .projection
            .iter()
            .map(|at| Arc::clone(&self.view.schema.fields()[*at]))
            .collect();
        if request.with_row_id {
            fields.push(Arc::new(Field::new(ROW_ID_COLUMN, DataType::UInt64, false)));
        }
        Arc::new(Schema::new(fields))
    }

    fn project(&self, columns: &[usize]) -> SchemaRef {
        let fields: Vec<_> = columns
            .iter()
            .map(|at| Arc::clone(&self.view.schema.fields()[*at]))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// Whether what is read is too much for the cache.
    fn is_streamed(&self, footer: &SegmentFooter, request: &PartRead) -> bool {
        let mut columns: Vec<usize> = request
            .filter
            .iter()
            .flat_map(|filter| filter.columns())
            .copied()
            .collect();
        columns.extend(&request.projection);
        columns.sort_unstable();
        columns.dedup();
        let size = |ordinal: usize| {
            let place = footer.column(self.view.columns[ordinal].id);
            place.map_or(0, |place| footer.column_size(self.group, place))
        };
        columns.into_iter().map(size).sum::<u64>() > self.segment.cache().budget() / CACHE_SHARE
    }
}

/// Where a column of the read comes from.
#[derive(Clone, Copy)]
enum Source {
    /// A column of the file.
    Stored(usize),
    /// The row ids of the file.
    RowId,
    /// Not there: `missing` of the table's column of this ordinal.
    Missing(usize),
}

struct PartReader {
    part: SegmentPart,
    request: PartRead,
    footer: Arc<SegmentFooter>,
    fields: SchemaRef,
    filter_schema: Option<SchemaRef>,
    is_streamed: bool,
    plan: Option<Plan>,
    /// The next row.
    at: usize,
    /// Columns, or stretches of columns, that were read: by source, with the rows they hold. One for each column.
    held: Vec<(usize, Range<usize>, ArrayRef)>,
}

/// What is known once the filter was evaluated.
struct Plan {
    /// Which rows are left; `None`: all.
    mask: Option<BooleanBuffer>,
    /// Columns of the file, and whether they are read by pages because few of their pages have rows that are left.
    by_pages: Vec<(usize, bool)>,
}

impl PartReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        if self.plan.is_none() {
            self.plan = Some(Plan {
                mask: self.mask()?,
                by_pages: Vec::new(),
            });
        }
        let mask = self.plan.as_ref().and_then(|plan| plan.mask.clone());
        let Some((range, rows)) = self.next_range(mask.as_ref()) else {
            return Ok(None);
        };
        let selected = mask.filter(|_| rows < range.len());
        let selected = selected.map(|mask| BooleanArray::from(mask.slice(range.start, range.len())));
        let mut columns = Vec::with_capacity(self.fields.fields().len());
        for at in 0..self.request.projection.len() {
            let ordinal = self.request.projection[at];
            let array = self.selected(self.source(ordinal), &range, selected.as_ref())?;
            columns.push(self.as_asked(&array, ordinal)?);
        }
        if self.request.with_row_id {
            let stored = self.selected(Source::RowId, &range, selected.as_ref())?;
            columns.push(self.part.segment.based(stored));
        }
        self.at = range.end;
        batch_of(&self.fields, columns, rows)
            .map(Some)
            .map_err(|error| arrow_error(&error))
    }

    /// The next rows that make a batch, and how many of them are left: as many as fit.
    fn next_range(&self, mask: Option<&BooleanBuffer>) -> Option<(Range<usize>, usize)> {
        let end = self.part.len();
        let batch = self.request.batch_rows.max(1);
        let Some(mask) = mask else {
            let upto = end.min(self.at + batch);
            return (self.at < upto).then(|| (self.at..upto, upto - self.at));
        };
        let rest = mask.slice(self.at, end - self.at);
        let mut left = rest.set_indices().take(batch);
        let first = left.next()?;
        // What is streamed is held as whole arrays of the range, so the range stays short.
        let longest = if self.is_streamed { batch } else { end };
        let left = left.take_while(|row| row - first < longest);
        let (last, rows) = left.fold((first, 1), |(_, rows), row| (row, rows + 1));
        Some((self.at + first..self.at + last + 1, rows))
    }

    /// Which rows are visible and kept; `None` if all are.
    fn mask(&mut self) -> Result<Option<BooleanBuffer>, ReadError> {
        let visible = self.visible()?;
        let Some(filter) = self.request.filter.clone() else {
            return Ok(visible);
        };
        let rows = self.part.len();
        let mut kept = BooleanBufferBuilder::new(rows);
        for start in (0..rows).step_by(self.request.batch_rows.max(1)) {
            let range = start..rows.min(start + self.request.batch_rows.max(1));
            let any_visible = visible
                .as_ref()
                .is_none_or(|mask| mask.slice(range.start, range.len()).count_set_bits() > 0);
            if !any_visible {
                kept.append_n(range.len(), false);
                continue;
            }
            kept.append_buffer(&self.kept(filter.as_ref(), range)?);
        }
        self.held.clear();
        let kept = kept.finish();
        let mask = match visible {
            Some(visible) => &visible & &kept,
            None => kept,
        };
        Ok((mask.count_set_bits() < rows).then_some(mask))
    }

    fn kept(&mut self, filter: &dyn RowFilter, range: Range<usize>) -> Result<BooleanBuffer, ReadError> {
        let mut columns = Vec::with_capacity(filter.columns().len());
        for ordinal in filter.columns() {
            let array = self.stored(self.source(*ordinal), &range)?;
            columns.push(self.as_asked(&array, *ordinal)?);
        }
        let schema = self.filter_schema.clone().expect("there is a filter");
        let batch = batch_of(&schema, columns, range.len()).map_err(|error| arrow_error(&error))?;
        let keep = filter.keep(&batch).map_err(|error| arrow_error(&error))?;
        if keep.len() != range.len() {
            return Err(ReadError::Arrow(format!(
                "a filter gave {} of {} answers",
                keep.len(),
                range.len()
            )));
        }
        let keep = match keep.null_count() {
            0 => keep,
            _ => prep_null_mask_filter(&keep),
        };
        Ok(keep.values().clone())
    }

    /// Which rows had begun and not ended; `None` if all.
    fn visible(&self) -> Result<Option<BooleanBuffer>, ReadError> {
        let view = &self.part.view;
        let living = view.deleted.living(self.part.ordinals(), view.version);
        let group = &self.footer.details.groups[self.part.group];
        if self.part.segment.info().row_base + group.row_ids.1 < view.row_limit {
            return Ok(living);
        }
        let ids = self.part.segment.row_ids(&self.footer, self.part.group)?;
        let ids = ids.as_primitive::<UInt64Type>().values();
        let begun = BooleanBuffer::collect_bool(ids.len(), |row| ids[row] < view.row_limit);
        Ok(Some(match living {
            Some(living) => &living & &begun,
            None => begun,
        }))
    }

    /// The array with the type that the table's column has.
    fn as_asked(&self, array: &ArrayRef, ordinal: usize) -> Result<ArrayRef, ReadError> {
        let ty = self.part.view.schema.field(ordinal).data_type();
        from_stored(array, ty).map_err(|error| arrow_error(&error))
    }

    fn source(&self, ordinal: usize) -> Source {
        let column = self.footer.column(self.part.view.columns[ordinal].id);
        column.map_or(Source::Missing(ordinal), Source::Stored)
    }

    /// The rows of `range` that are selected, or all, of one column, as they stand in the file.
    fn selected(
        &mut self,
        source: Source,
        range: &Range<usize>,
        selected: Option<&BooleanArray>,
    ) -> Result<ArrayRef, ReadError> {
        let Some(mask) = selected else {
            return self.stored(source, range);
        };
        if let Source::Stored(column) = source
            && self.is_read_by_pages(column)
        {
            return self.selected_pages(column, range, mask);
        }
        let array = self.stored(source, range)?;
        filter(&array, mask).map_err(|error| arrow_error(&error))
    }

    /// The rows of `range` of one column, as they stand in the file.
    fn stored(&mut self, source: Source, range: &Range<usize>) -> Result<ArrayRef, ReadError> {
        let column = match source {
            Source::Missing(ordinal) => return self.missing(ordinal, range.len()),
            Source::Stored(column) => column,
            Source::RowId => self.footer.row_id_column(),
        };
        if let Some((_, rows, array)) = self.held.iter().find(|(held, ..)| *held == column)
            && rows.start <= range.start
            && range.end <= rows.end
        {
            return Ok(array.slice(range.start - rows.start, range.len()));
        }
        let (rows, array) = self.fetch(source, column, range)?;
        let part = array.slice(range.start - rows.start, range.len());
        self.held.retain(|(held, ..)| *held != column);
        self.held.push((column, rows, array));
        Ok(part)
    }

    /// Reads a column: whole into the cache, or the pages with the rows of `range`, which are not kept.
    fn fetch(
        &self,
        source: Source,
        column: usize,
        range: &Range<usize>,
    ) -> Result<(Range<usize>, ArrayRef), StorageError> {
        let (segment, group) = (&self.part.segment, self.part.group);
        if matches!(source, Source::RowId) && !self.is_streamed {
            return Ok((0..self.part.len(), segment.stored_row_ids(&self.footer, group)?));
        }
        if !self.is_streamed {
            return Ok((0..self.part.len(), segment.column(&self.footer, group, column)?));
        }
        if let Some(array) = segment.cached_column(group, column) {
            return Ok((0..self.part.len(), array));
        }
        let pages = self.footer.pages(group, column);
        let first = pages.at(pages.partition_point(|first| first <= range.start) - 1);
        let last = pages.end(pages.partition_point(|first| first < range.end) - 1);
        Ok((first..last, self.footer.read_rows(group, column, first, last - first)?))
    }

    /// Whether only the pages of a column are read that have rows which are left: the column is not in memory, and most
    /// of its pages have none.
    fn is_read_by_pages(&mut self, column: usize) -> bool {
        let (segment, group) = (&self.part.segment, self.part.group);
        let Some(plan) = self.plan.as_mut().filter(|_| !self.is_streamed) else {
            return false;
        };
        let (Some(mask), known) = (&plan.mask, plan.by_pages.iter().find(|(known, _)| *known == column)) else {
            return false;
        };
        if let Some((_, by_pages)) = known {
            return *by_pages;
        }
        let pages = self.footer.pages(group, column);
        let is_needed = |page: &usize| {
            let first = pages.at(*page);
            mask.slice(first, pages.end(*page) - first)
                .set_indices()
                .next()
                .is_some()
        };
        let needed = (0..pages.count()).filter(is_needed).count();
        let by_pages = needed * 2 <= pages.count() && segment.cached_column(group, column).is_none();
        plan.by_pages.push((column, by_pages));
        by_pages
    }

    /// The rows of `range` that are selected, from those pages alone that have some.
    fn selected_pages(&self, column: usize, range: &Range<usize>, mask: &BooleanArray) -> Result<ArrayRef, ReadError> {
        let (segment, group) = (&self.part.segment, self.part.group);
        let pages = self.footer.pages(group, column);
        let mut parts = Vec::new();
        let first = pages.partition_point(|first| first <= range.start) - 1;
        for page in first..pages.count() {
            let rows = pages.at(page).max(range.start)..pages.end(page).min(range.end);
            if rows.is_empty() {
                break;
            }
            let mask = mask.slice(rows.start - range.start, rows.len());
            if mask.true_count() > 0 {
                let array = segment.page(&self.footer, group, column, page)?;
                let array = array.slice(rows.start - pages.at(page), rows.len());
                parts.push(filter(&array, &mask).map_err(|error| arrow_error(&error))?);
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(|error| arrow_error(&error))
    }

    fn missing(&self, ordinal: usize, rows: usize) -> Result<ArrayRef, ReadError> {
        let column = &self.part.view.columns[ordinal];
        missing(column, rows).map_err(|error| arrow_error(&error))
    }
}

/// What `rows` rows of segments without the column have in it.
///
/// # Errors
/// More than 2 GiB of text.
pub(crate) fn missing(column: &SegmentColumn, rows: usize) -> Result<ArrayRef, ArrowError> {
    match &column.missing {
        None => Ok(new_null_array(&column.ty, rows)),
        Some(value) => take(value, &UInt64Array::from(vec![0; rows]), None),
    }
}

fn arrow_error(error: &ArrowError) -> ReadError {
    ReadError::Arrow(error.to_string())
}
