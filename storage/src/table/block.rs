//! The rows themselves: blocks of Arrow arrays in the order of row ids.
//!
//! A block never changes. Small ones are merged into larger ones, which moves no row to another id: a transaction of
//! one row makes a block of one row, and every time the small blocks at the end hold 16, 256 or 4096 rows together,
//! they become one block. So a row is copied three times at most, and all but a few dozen blocks hold thousands of rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::batch::compacted;
use crate::layout::LayoutColumn;
use crate::segments::array_size;

/// Blocks of fewer rows than one of these are merged as soon as together they hold as many. The last is the size from
/// which on a block stays as it is.
const MERGE_ROWS: [usize; 3] = [16, 256, SEALED_ROWS];
const SEALED_ROWS: usize = 4096;

/// A block with this much text is not merged any more, however few rows it has, bytes.
const TEXT_SIZE_MAX: usize = 8 << 20;

/// A batch of more rows than this is cut into several blocks.
pub(crate) const BLOCK_ROWS_MAX: usize = 8192;

/// Rows with neighbouring ids.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) first_row: u64,
    pub(crate) rows: usize,
    /// Ids of its columns: those of the definition under which its rows were written, in that order.
    ids: Arc<[u32]>,
    /// In the order of `ids`.
    columns: Vec<ArrayRef>,
    /// Bytes of text and byte strings that do not stand in their views.
    text_size: usize,
}

impl Block {
    pub(crate) fn new(first_row: u64, rows: usize, ids: Arc<[u32]>, columns: Vec<ArrayRef>) -> Self {
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        debug_assert_eq!(ids.len(), columns.len());
        Self {
            first_row,
            rows,
            text_size: columns.iter().map(text_size).sum(),
            ids,
            columns,
        }
    }

    /// Whether it stays as it is.
    fn is_full(&self) -> bool {
        self.rows >= SEALED_ROWS || self.text_size >= TEXT_SIZE_MAX
    }

    pub(crate) fn row_ids(&self) -> Range<u64> {
        self.first_row..self.first_row + self.rows as u64
    }

    /// The values of a column.
    pub(crate) fn column(&self, column: &LayoutColumn) -> ArrayRef {
        match self.ids.iter().position(|id| *id == column.id) {
            Some(place) => Arc::clone(&self.columns[place]),
            None => column.absent(self.rows),
        }
    }

    /// The values of the column of this id and type; NULL if it is not there.
    pub(crate) fn by_id(&self, id: u32, ty: &DataType) -> ArrayRef {
        match self.ids.iter().position(|known| *known == id) {
            Some(place) => Arc::clone(&self.columns[place]),
            None => new_null_array(ty, self.rows),
        }
    }

    /// One block of neighbouring ones that have the same columns.
    ///
    /// # Errors
    /// More than 2 GiB of text would stand in one array.
    fn merged(blocks: &[Arc<Self>]) -> Result<Self, ArrowError> {
        let first = &blocks[0];
        let column = |place: usize| {
            let parts: Vec<&dyn Array> = blocks.iter().map(|block| block.columns[place].as_ref()).collect();
            Ok(compacted(&concat(&parts)?))
        };
        let columns = (0..first.ids.len()).map(column).collect::<Result<_, ArrowError>>()?;
        let rows = blocks.iter().map(|block| block.rows).sum();
        Ok(Self::new(first.first_row, rows, Arc::clone(&first.ids), columns))
    }
}

/// Neighbouring blocks of a table, in the order of their rows.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The id of the first row.
    first_row: u64,
    /// Bytes of memory of all blocks, as they came.
    size: usize,
    /// Blocks that stay as they are.
    sealed: Vec<Arc<Block>>,
    /// Blocks that are still merged; a few dozen. All have the same columns.
    tail: Vec<Arc<Block>>,
}

impl Blocks {
    /// Blocks for rows from the id `first_row` on.
    pub(crate) fn starting_at(first_row: u64) -> Self {
        Self {
            first_row,
            ..Self::default()
        }
    }

    /// Bytes of memory they take, about.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Adds a block behind the last one.
    pub(crate) fn push(&mut self, block: Block) {
        assert_eq!(block.first_row, self.row_end(), "blocks come in order");
        self.size += block.columns.iter().map(|column| array_size(column)).sum::<usize>();
        if self.tail.last().is_some_and(|last| last.ids != block.ids) {
            // The definition has changed: rows of the old one are not merged with rows of the new one.
            self.merge_tail(0);
            self.sealed.append(&mut self.tail);
        }
        if block.is_full() {
            self.merge_tail(0);
            self.tail.push(Arc::new(block));
            self.seal();
            return;
        }
        self.tail.push(Arc::new(block));
        for limit in MERGE_ROWS {
            let small = self
                .tail
                .iter()
                .rev()
                .take_while(|block| block.rows < limit && !block.is_full());
            let (count, rows) = small.fold((0, 0), |(count, rows), block| (count + 1, rows + block.rows));
            if rows < limit {
                break;
            }
            self.merge_tail(self.tail.len() - count);
        }
        self.seal();
    }

    /// The id behind that of the last row.
    pub(crate) fn row_end(&self) -> u64 {
        let last = self.tail.last().or(self.sealed.last());
        last.map_or(self.first_row, |block| block.row_ids().end)
    }

    /// The block with this row.
    pub(crate) fn find(&self, row: u64) -> Option<&Arc<Block>> {
        let list = match self.tail.first() {
            Some(first) if row >= first.first_row => &self.tail,
            _ => &self.sealed,
        };
        let after = list.partition_point(|block| block.first_row <= row);
        let block = list.get(after.checked_sub(1)?)?;
        block.row_ids().contains(&row).then_some(block)
    }

    /// The blocks with rows below `limit`; the small ones at the end as one, which stays, so that one reader has the
    /// work and the next has not.
    pub(crate) fn for_scan(&mut self, limit: u64) -> Vec<Arc<Block>> {
        self.merge_tail(0);
        self.seal();
        self.below(limit)
    }

    /// Whether [`Blocks::for_scan`] would find blocks to merge.
    pub(crate) fn is_scattered(&self) -> bool {
        self.tail.len() > 1
    }

    /// The blocks with rows below `limit`.
    pub(crate) fn below(&self, limit: u64) -> Vec<Arc<Block>> {
        let blocks = self.sealed.iter().chain(&self.tail);
        blocks.take_while(|block| block.first_row < limit).cloned().collect()
    }

    /// Makes one block of those of the tail from `from` on. If they cannot be one, because their text is too much for
    /// one array, they stay as they are.
    fn merge_tail(&mut self, from: usize) {
        if self.tail.len() - from > 1
            && let Ok(block) = Block::merged(&self.tail[from..])
        {
            self.tail.truncate(from);
            self.tail.push(Arc::new(block));
        }
    }

    /// Leaves the tail alone from here on if it ends in a full block: nothing in front of that one can be merged.
    fn seal(&mut self) {
        if self.tail.last().is_some_and(|block| block.is_full()) {
            self.sealed.append(&mut self.tail);
        }
    }

    #[cfg(test)]
    fn sizes(&self) -> Vec<usize> {
        self.sealed.iter().chain(&self.tail).map(|block| block.rows).collect()
    }
}

fn text_size(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::Constant;
    use crate::layout::Layout;
    use crate::schema::{CollectionDef, CollectionId, ColumnDef, ColumnType};
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    /// The columns of [`block`], a number and a text.
    fn layout() -> Layout {
        let columns = [
            ColumnDef::new("number", ColumnType::Int64),
            ColumnDef::new("text", ColumnType::Text),
        ];
        Layout::new(&CollectionDef::new(CollectionId(0), "d", "t", columns)).expect("sound")
    }

    fn block(first: u64, rows: usize) -> Block {
        let numbers = Int64Array::from_iter_values((first..first + rows as u64).map(|row| row as i64));
        let texts = StringViewArray::from_iter_values((0..rows).map(|row| format!("a text of some length {row}")));
        Block::new(first, rows, [0, 1].into(), vec![Arc::new(numbers), Arc::new(texts)])
    }

    fn filled(sizes: impl IntoIterator<Item = usize>) -> Blocks {
        let mut blocks = Blocks::default();
        let mut first = 0;
        for rows in sizes {
            blocks.push(block(first, rows));
            first += rows as u64;
        }
        blocks
    }

    fn check(blocks: &Blocks, rows: u64) {
        for row in 0..rows {
            let block = blocks.find(row).expect("each row has its block");
            let numbers = block.column(&layout().columns[0]);
            assert_eq!(
                numbers
                    .as_primitive::<Int64Type>()
                    .value((row - block.first_row) as usize),
                row as i64
            );
        }
        assert!(blocks.find(rows).is_none());
    }

    #[test]
    fn single_rows_gather_into_large_blocks() {
        let blocks = filled(std::iter::repeat_n(1, 10_000));
        let sizes = blocks.sizes();
        assert_eq!(sizes[..2], [4096, 4096]);
        assert!(sizes.len() < 2 + 3 * 16, "{sizes:?}");
        check(&blocks, 10_000);
    }

    #[test]
    fn mixed_sizes_keep_every_row_at_its_id() {
        let sizes = [1, 300, 5, 20, 5000, 1, 1, 4096, 17, 255, 1, 3900, 2, 2];
        let mut blocks = filled(sizes);
        let rows = sizes.iter().sum::<usize>() as u64;
        check(&blocks, rows);
        assert_eq!(
            blocks.for_scan(rows).iter().map(|block| block.rows).sum::<usize>() as u64,
            rows
        );
        assert!(!blocks.is_scattered());
        check(&blocks, rows);
    }

    #[test]
    fn scans_between_single_rows_do_not_copy_ever_more() {
        let mut blocks = Blocks::default();
        for row in 0..5000 {
            blocks.push(block(row, 1));
            blocks.for_scan(row + 1);
        }
        assert_eq!(blocks.sizes(), [4096, 904]);
    }

    #[test]
    fn blocks_of_long_texts_stay_small() {
        let text = "x".repeat(1 << 20);
        let mut blocks = Blocks::default();
        for row in 0..40 {
            let texts = StringViewArray::from_iter_values([&text]);
            blocks.push(Block::new(row, 1, [1].into(), vec![Arc::new(texts)]));
        }
        blocks.for_scan(40);
        assert_eq!(blocks.sizes(), [16, 16, 8]);
        assert_eq!(blocks.row_end(), 40);
    }

    #[test]
    fn merged_text_stands_in_one_buffer() {
        let blocks = filled(std::iter::repeat_n(1, 4096));
        let texts = blocks.find(0).expect("there").column(&layout().columns[1]);
        assert_eq!(texts.as_string_view().data_buffers().len(), 1);
    }

    #[test]
    fn columns_are_found_by_id_whatever_the_definition_was_when_rows_came() {
        let mut blocks = Blocks::default();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        for row in 0..2 {
            blocks.push(Block::new(row, 1, [0].into(), vec![Arc::clone(&number)]));
        }
        blocks.push(block(2, 1));
        let scanned = blocks.for_scan(3);
        assert_eq!(blocks.sizes(), [2, 1], "rows of two definitions are not merged");
        let texts = scanned[0].column(&layout().columns[1]);
        assert_eq!(texts.null_count(), 2);
        assert_eq!(scanned[1].column(&layout().columns[1]).null_count(), 0);

        let seven = Constant::new(&number).expect("one value");
        let mut def = CollectionDef::new(CollectionId(0), "d", "t", []);
        def.next_column_id = 5;
        def.push_column(ColumnDef {
            missing: Some(seven),
            ..ColumnDef::new("number", ColumnType::Int64)
        });
        let later = Layout::new(&def).expect("sound");
        for block in scanned {
            let numbers = block.column(&later.columns[0]);
            let numbers = numbers.as_primitive::<Int64Type>();
            assert!(numbers.len() == block.rows && numbers.iter().all(|number| number == Some(7)));
        }
    }
}
