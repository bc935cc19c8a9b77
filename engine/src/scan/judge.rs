//! A condition that is asked about batch after batch.
//!
//! It is taken apart where it says AND. Parts that cannot fail are asked first, those before the others that spare most
//! work for what they cost, as the batches so far have shown; parts that may fail come last, in the order of the statement,
//! and only about rows that everything before them keeps. Once few rows are left, the next part sees a copy of these
//! rows and of its own columns alone.
//!
//! What a join, an aggregate or a limit has learned while the plan runs is a hint: it spares work above, where it is
//! judged anyway. A hint that hardly leaves out a row is asked about a batch now and then only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, prep_null_mask_filter};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::bit_util;
use candor_storage::RowFilter;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{DynamicFilterTracker, DynamicFilterTracking, PhysicalExprRef, split_conjunction};
use datafusion::physical_plan::joins::HashTableLookupExpr;
use parking_lot::Mutex;

use super::pieces::in_pieces;
use super::predicate::moved;

/// Rows that are left are copied once they are at most one in this many of those that the next part would be asked about.
const COPY_PART: usize = 4;

/// The share of rows that a part is thought to keep before it was asked.
const SHARE_UNKNOWN: f64 = 0.4;

/// A hint that keeps more than this share of rows is not worth asking each time.
const SHARE_USELESS: f64 = 0.97;

/// Rows that a hint must have been asked about before it is thought useless.
const ROWS_TOLD: f64 = 32_768.0;

/// Once a part was asked about this many rows, older ones begin to count for less.
const ROWS_REMEMBERED: f64 = 262_144.0;

/// The order of parts is thought over once in this many batches, and useless hints are asked then.
const BATCHES_BETWEEN: usize = 16;

/// A condition on the columns of batches.
pub(super) struct Judge {
    /// Ordinals of the columns that batches have, in their order.
    columns: Vec<usize>,
    parts: Mutex<Parts>,
    /// Set when the store could not judge all rows.
    unsure: AtomicBool,
}

impl Judge {
    /// `condition` is on the columns of batches, which are those at `columns` of the table's `schema`.
    pub(super) fn new(condition: PhysicalExprRef, columns: Vec<usize>, schema: &SchemaRef) -> Self {
        let fields = columns.iter().map(|at| Arc::clone(&schema.fields()[*at]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self {
            parts: Mutex::new(Parts {
                tracking: DynamicFilterTracking::classify(&condition),
                condition,
                schema,
                sure: Vec::new(),
                rest: Vec::new(),
                is_made: false,
                batches: 0,
            }),
            columns,
            unsure: AtomicBool::new(false),
        }
    }

    /// Which rows stay. NULL counts as no.
    pub(super) fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut parts = self.parts.lock();
        parts.refresh()?;
        parts.ask(batch)
    }

    /// Whether rows came through the store's hands that it could not judge.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }
}

impl RowFilter for Judge {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Rows that no version shows any more are asked about too, and an error that only they cause is none: all rows pass
    /// then, and those that are visible are judged once more.
    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        Ok(Self::keep(self, batch).unwrap_or_else(|_| {
            self.unsure.store(true, Ordering::Relaxed);
            BooleanArray::from(vec![true; batch.num_rows()])
        }))
    }
}

/// A condition, taken apart.
struct Parts {
    condition: PhysicalExprRef,
    /// Of the columns of batches.
    schema: SchemaRef,
    /// Hints change while the plan runs.
    tracking: DynamicFilterTracking,
    /// Parts that cannot fail, in the order in which they are asked.
    sure: Vec<Part>,
    /// Parts that may fail, in the order of the statement.
    rest: Vec<Part>,
    is_made: bool,
    /// How many batches were asked about.
    batches: usize,
}

struct Part {
    /// On the columns at `places` alone.
    expr: PhysicalExprRef,
    /// Places of its columns in a batch.
    places: Vec<usize>,
    /// What it costs to ask about a row, in nanoseconds or so.
    cost: f64,
    is_hint: bool,
    /// Rows that it was asked about, and those of them that it kept; older ones count for less.
    asked: f64,
    kept: f64,
}

impl Parts {
    /// Takes in what was learned since the last batch.
    fn refresh(&mut self) -> Result<()> {
        let has_moved = self.tracking.watcher().is_some_and(DynamicFilterTracker::changed);
        if self.is_made && !has_moved {
            return Ok(());
        }
        let make_all = !self.is_made;
        self.is_made = true;
        self.sure.retain(|part| !part.is_hint);
        self.rest.retain(|part| !part.is_hint);
        for part in split_conjunction(&self.condition.clone()) {
            if let Some(learned) = part.downcast_ref::<DynamicFilterPhysicalExpr>() {
                for hint in split_conjunction(&learned.current()?) {
                    self.add(hint, true)?;
                }
            } else if make_all {
                self.add(part, false)?;
            }
        }
        self.sort();
        Ok(())
    }

    fn add(&mut self, expr: &PhysicalExprRef, is_hint: bool) -> Result<()> {
        if is_true(expr) {
            return Ok(());
        }
        let mut places: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        places.sort_unstable();
        let (cost, is_sure) = (cost(expr, &self.schema), cannot_fail(expr)?);
        let expr = &in_pieces(expr, &self.schema)?;
        let own = moved(expr, |at| places.iter().position(|place| *place == at))?;
        let part = Part {
            cost,
            expr: own.ok_or_else(|| internal_datafusion_err!("a condition has lost a column"))?,
            places,
            is_hint,
            asked: 0.0,
            kept: 0.0,
        };
        if is_sure {
            self.sure.push(part);
        } else {
            self.rest.push(part);
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.sure.sort_by(|left, right| left.rank().total_cmp(&right.rank()));
    }

    fn ask(&mut self, batch: &RecordBatch) -> Result<BooleanArray> {
        let is_thorough = self.batches.is_multiple_of(BATCHES_BETWEEN);
        if is_thorough {
            self.sort();
        }
        self.batches += 1;
        let mut left = Left::all(batch);
        let few = self.sure.iter_mut().map(|part| (part, COPY_PART));
        let exactly = self.rest.iter_mut().map(|part| (part, 1));
        for (part, copy_part) in few.chain(exactly) {
            if left.count == 0 {
                break;
            }
            if is_thorough || !part.is_useless() {
                left.copy_if_few(copy_part);
                part.ask(&mut left)?;
            }
        }
        Ok(left.finish())
    }
}

impl Part {
    fn share_kept(&self) -> f64 {
        if self.asked > 0.0 {
            self.kept / self.asked
        } else {
            SHARE_UNKNOWN
        }
    }

    /// What it costs to leave out one row: those that leave out many rows cheaply come first.
    fn rank(&self) -> f64 {
        self.cost / (1.0 - self.share_kept()).max(0.001)
    }

    fn is_useless(&self) -> bool {
        self.is_hint && self.asked >= ROWS_TOLD && self.share_kept() > SHARE_USELESS
    }

    fn ask(&mut self, left: &mut Left<'_>) -> Result<()> {
        let rows = left.rows();
        let seen = left.columns(&self.places)?;
        let before = left.count;
        match self.expr.evaluate(&seen)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => {}
            ColumnarValue::Scalar(_) => left.keep(&BooleanBuffer::new_unset(rows)),
            ColumnarValue::Array(answer) => {
                let answer = answer
                    .as_boolean_opt()
                    .ok_or_else(|| internal_datafusion_err!("a condition gives {}", answer.data_type()))?;
                match answer.null_count() {
                    0 => left.keep(answer.values()),
                    _ => left.keep(prep_null_mask_filter(answer).values()),
                }
            }
        }
        if self.asked > ROWS_REMEMBERED {
            self.asked /= 2.0;
            self.kept /= 2.0;
        }
        self.asked += before as f64;
        self.kept += left.count as f64;
        Ok(())
    }
}

/// The rows of a batch that are left.
struct Left<'a> {
    batch: &'a RecordBatch,
    /// The rows that parts are asked about, copied column by column as they are needed; `None`: all.
    chosen: Option<Chosen>,
    /// Which of these are left; `None`: all.
    mask: Option<BooleanBuffer>,
    /// How many are.
    count: usize,
}

struct Chosen {
    rows: BooleanBuffer,
    count: usize,
    copy: FilterPredicate,
    columns: Vec<Option<ArrayRef>>,
}

impl<'a> Left<'a> {
    fn all(batch: &'a RecordBatch) -> Self {
        Self {
            batch,
            chosen: None,
            mask: None,
            count: batch.num_rows(),
        }
    }

    /// How many rows a part is asked about.
    fn rows(&self) -> usize {
        self.chosen
            .as_ref()
            .map_or(self.batch.num_rows(), |chosen| chosen.count)
    }

    /// Chooses the rows that are left if they are at most one in `part` of those chosen before.
    fn copy_if_few(&mut self, part: usize) {
        let rows = self.rows();
        if self.count == rows || self.count * part > rows {
            return;
        }
        let Some(mask) = self.mask.take() else { return };
        let rows = spread(self.chosen.as_ref(), mask);
        let copy = FilterBuilder::new(&BooleanArray::from(rows.clone())).optimize().build();
        self.chosen = Some(Chosen {
            rows,
            count: self.count,
            copy,
            columns: vec![None; self.batch.num_columns()],
        });
    }

    /// The columns at `places` of the rows that a part is asked about.
    fn columns(&mut self, places: &[usize]) -> Result<RecordBatch> {
        let Some(chosen) = &mut self.chosen else {
            return Ok(self.batch.project(places)?);
        };
        let mut columns = Vec::with_capacity(places.len());
        for place in places {
            let column = match &chosen.columns[*place] {
                Some(column) => column,
                None => chosen.columns[*place].insert(chosen.copy.filter(self.batch.column(*place))?),
            };
            columns.push(ArrayRef::clone(column));
        }
        let schema = self.batch.schema_ref().project(places)?;
        let options = RecordBatchOptions::new().with_row_count(Some(chosen.count));
        Ok(RecordBatch::try_new_with_options(schema.into(), columns, &options)?)
    }

    /// Leaves only those that `answer` keeps.
    fn keep(&mut self, answer: &BooleanBuffer) {
        let mask = match &self.mask {
            Some(mask) => mask & answer,
            None => answer.clone(),
        };
        self.count = mask.count_set_bits();
        self.mask = Some(mask);
    }

    fn finish(self) -> BooleanArray {
        let rows = self.batch.num_rows();
        let mask = match (self.mask, &self.chosen) {
            (Some(mask), chosen) => spread(chosen.as_ref(), mask),
            (None, Some(chosen)) => chosen.rows.clone(),
            (None, None) => BooleanBuffer::new_set(rows),
        };
        BooleanArray::from(mask)
    }
}

/// A mask of the chosen rows as one of all rows.
fn spread(chosen: Option<&Chosen>, mask: BooleanBuffer) -> BooleanBuffer {
    let Some(chosen) = chosen else { return mask };
    let rows = chosen.rows.len();
    let mut bits = MutableBuffer::from_len_zeroed(rows.div_ceil(8));
    for (at, row) in chosen.rows.set_indices().enumerate() {
        if mask.value(at) {
            bit_util::set_bit(bits.as_slice_mut(), row);
        }
    }
    BooleanBuffer::new(bits.into(), 0, rows)
}

/// Operators that compare any two values of a type.
const COMPARISONS: [Operator; 8] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

fn is_true(expr: &PhysicalExprRef) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}

/// Whether an expression gives a value for every row.
fn cannot_fail(expr: &PhysicalExprRef) -> Result<bool> {
    let mut sure = true;
    expr.apply(|node| {
        sure &= match node.downcast_ref::<BinaryExpr>() {
            Some(binary) => binary.op().is_logic_operator() || COMPARISONS.contains(binary.op()),
            None => {
                node.is::<Column>()
                    || node.is::<Literal>()
                    || node.is::<NotExpr>()
                    || node.is::<IsNullExpr>()
                    || node.is::<IsNotNullExpr>()
                    || node.is::<InListExpr>()
                    || node.is::<LikeExpr>()
                    || node.is::<HashTableLookupExpr>()
            }
        };
        Ok(if sure {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(sure)
}

/// What it costs to evaluate an expression for a row, in nanoseconds or so. Only how such costs compare matters.
fn cost(expr: &PhysicalExprRef, schema: &Schema) -> f64 {
    let own = if let Some(column) = expr.downcast_ref::<Column>() {
        let width = schema.field(column.index()).data_type().primitive_width();
        match width {
            Some(width) if width <= 8 => 0.3,
            Some(_) => 0.8,
            None => 2.5,
        }
    } else if expr.is::<Literal>() {
        0.0
    } else if expr.is::<BinaryExpr>() || expr.is::<NotExpr>() || expr.is::<IsNullExpr>() || expr.is::<IsNotNullExpr>() {
        0.3
    } else if expr.is::<InListExpr>() || expr.is::<HashTableLookupExpr>() {
        4.0
    } else {
        20.0
    };
    own + expr
        .children()
        .into_iter()
        .map(|child| cost(child, schema))
        .sum::<f64>()
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field};
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    const ROWS: i64 = 2000;

    fn schema() -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![field("a"), field("b"), field("c")]))
    }

    /// Three columns of small numbers, some NULL; each batch has others.
    fn batch(seed: i64) -> RecordBatch {
        let column = |factor: i64, values: i64| -> ArrayRef {
            let rows = (0..ROWS).map(|row| (row * factor + seed * 7) % values);
            let rows = rows.map(|value| (value != 1).then_some(value - 3));
            Arc::new(rows.collect::<Int64Array>())
        };
        RecordBatch::try_new(schema(), vec![column(5, 97), column(11, 13), column(17, 101)]).expect("columns fit")
    }

    fn op(left: PhysicalExprRef, op: Operator, right: PhysicalExprRef) -> PhysicalExprRef {
        binary(left, op, right, &schema()).expect("operands fit")
    }

    fn column(name: &str) -> PhysicalExprRef {
        col(name, &schema()).expect("there is such a column")
    }

    /// Row by row what `keep` says of the three columns.
    fn expected(batch: &RecordBatch, keep: impl Fn([Option<i64>; 3]) -> bool) -> Vec<bool> {
        let columns: Vec<&Int64Array> = batch
            .columns()
            .iter()
            .map(arrow::array::AsArray::as_primitive)
            .collect();
        let value = |at: usize, row: usize| columns[at].is_valid(row).then(|| columns[at].value(row));
        (0..batch.num_rows())
            .map(|row| keep([value(0, row), value(1, row), value(2, row)]))
            .collect()
    }

    fn kept(judge: &Judge, batch: &RecordBatch) -> Vec<bool> {
        let kept = judge.keep(batch).expect("no part fails");
        kept.iter().map(|row| row == Some(true)).collect()
    }

    /// 60 / a fails where a is 0, which an earlier part leaves out.
    #[test]
    fn parts_are_asked_in_any_order_and_those_that_may_fail_about_survivors_only() {
        let quotient = op(lit(60_i64), Operator::Divide, column("a"));
        let condition = op(
            op(
                op(quotient, Operator::Gt, lit(4_i64)),
                Operator::And,
                op(column("c"), Operator::Lt, column("b")),
            ),
            Operator::And,
            op(
                op(column("a"), Operator::NotEq, lit(0_i64)),
                Operator::And,
                op(column("b"), Operator::Eq, lit(5_i64)),
            ),
        );
        let judge = Judge::new(condition, vec![0, 1, 2], &schema());
        let mut survivors = 0;
        for seed in 0..40 {
            let batch = batch(seed);
            let naive = expected(
                &batch,
                |[a, b, c]| matches!((a, b, c), (Some(a), Some(b), Some(c)) if a != 0 && 60 / a > 4 && c < b && b == 5),
            );
            survivors += naive.iter().filter(|stays| **stays).count();
            assert_eq!(kept(&judge, &batch), naive, "batch {seed}");
        }
        assert!(survivors > 0, "nothing was shown");
    }

    /// A hint may be left out only once it has shown to keep nearly all rows, and comes back when it changes.
    #[test]
    fn hints_are_taken_in_as_they_change() {
        let learned = Arc::new(DynamicFilterPhysicalExpr::new(vec![column("a")], lit(true)));
        let hint = Arc::<DynamicFilterPhysicalExpr>::clone(&learned) as Arc<dyn PhysicalExpr>;
        let condition = op(op(column("c"), Operator::Gt, lit(0_i64)), Operator::And, hint);
        let judge = Judge::new(condition, vec![0, 1, 2], &schema());
        for seed in 0..40 {
            if seed == 30 {
                learned
                    .update(op(column("a"), Operator::Lt, lit(4_i64)))
                    .expect("a is a column");
            }
            let batch = batch(seed);
            let naive = expected(&batch, |[a, _, c]| {
                c.is_some_and(|c| c > 0) && (seed < 30 || a.is_some_and(|a| a < 4))
            });
            assert_eq!(kept(&judge, &batch), naive, "batch {seed}");
        }
    }
}
