//! How many rows a logical plan gives, about.
//!
//! Textbook estimates: columns are independent, values spread evenly, and a join finds a partner for each value of the side
//! that has fewer. What is not known is guessed by the usual fractions (Selinger and others, 1979). Nothing depends
//! on an estimate but the order of joins, so a wrong one costs time only.

use std::collections::HashMap;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinType, LogicalPlan, Operator};

use crate::scan::CollectionTable;

/// Rows of what nothing is known about.
const ROWS_UNKNOWN: f64 = 1000.0;

/// The share of rows that an equality leaves when the number of distinct values is not known.
pub(super) const EQUAL_SHARE: f64 = 0.1;

/// The share that one end of a range leaves.
const RANGE_SHARE: f64 = 1.0 / 3.0;

/// The share that a pattern leaves.
pub(super) const PATTERN_SHARE: f64 = 0.1;

/// The share that any other condition leaves.
pub(super) const OTHER_SHARE: f64 = 0.25;

/// What is thought of one column.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnEstimate {
    /// How many distinct values it has.
    pub(crate) distinct: Option<f64>,
    /// Its least and its greatest value, as places on a line.
    pub(crate) range: Option<(f64, f64)>,
}

/// What is thought of a plan's rows.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    pub(crate) columns: HashMap<Column, ColumnEstimate>,
}

impl Estimate {
    fn unknown() -> Self {
        Self {
            rows: ROWS_UNKNOWN,
            columns: HashMap::new(),
        }
    }

    /// How many distinct values an expression has.
    pub(crate) fn distinct(&self, expr: &Expr) -> Option<f64> {
        let known = self.columns.get(column_of(expr)?)?.distinct?;
        Some(known.min(self.rows).max(1.0))
    }

    fn with_share(mut self, share: f64) -> Self {
        self.rows = (self.rows * share).max(1.0);
        self
    }
}

/// The column that an expression is, but for casts.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// Estimates the rows of `plan`.
pub(crate) fn estimate(plan: &LogicalPlan) -> Estimate {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let mut estimate = of_table(plan).unwrap_or_else(Estimate::unknown);
            for filter in &scan.filters {
                let share = share(&estimate, filter);
                estimate = estimate.with_share(share);
            }
            estimate
        }
        LogicalPlan::Filter(filter) => {
            let input = estimate(&filter.input);
            let share = split_conjunction(&filter.predicate)
                .into_iter()
                .fold(1.0, |all, part| all * share(&input, part));
            input.with_share(share)
        }
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => renamed(plan),
        LogicalPlan::Aggregate(aggregate) => {
            let input = estimate(&aggregate.input);
            let groups = aggregate.group_expr.iter().map(|group| input.distinct(group));
            let groups = groups.fold(1.0, |all, one| all * one.unwrap_or((input.rows * EQUAL_SHARE).max(1.0)));
            Estimate {
                rows: groups.min(input.rows).max(1.0),
                columns: input.columns,
            }
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (estimate(&join.left), estimate(&join.right));
            let (on, others) = conditions(join);
            let both = Estimate {
                rows: left.rows * right.rows,
                columns: left.columns.iter().chain(&right.columns).map(cloned).collect(),
            };
            let equal = on.iter().map(|(l, r)| match_share(&left, l, &right, r));
            let others = others.iter().map(|condition| share(&both, condition));
            let matched = others.fold(both.rows * share_of_keys(equal), |rows, share| rows * share);
            let rows = match join.join_type {
                JoinType::Inner => matched,
                JoinType::Left => matched.max(left.rows),
                JoinType::Right => matched.max(right.rows),
                JoinType::Full => matched.max(left.rows + right.rows),
                JoinType::LeftSemi | JoinType::LeftMark => semi_rows(&left, &right, &on),
                JoinType::RightSemi | JoinType::RightMark => right.rows.min(matched),
                JoinType::LeftAnti => (left.rows - semi_rows(&left, &right, &on)).max(left.rows * EQUAL_SHARE),
                JoinType::RightAnti => right.rows * RANGE_SHARE,
            };
            Estimate {
                rows: rows.max(1.0),
                columns: both.columns,
            }
        }
        LogicalPlan::EmptyRelation(_) => Estimate {
            rows: 1.0,
            ..Estimate::unknown()
        },
        LogicalPlan::Limit(_) | LogicalPlan::Sort(_) | LogicalPlan::Distinct(_) => plan
            .inputs()
            .first()
            .map_or_else(Estimate::unknown, |input| estimate(input)),
        LogicalPlan::Union(union) => {
            let rows = union.inputs.iter().map(|input| estimate(input).rows).sum();
            Estimate {
                rows,
                ..Estimate::unknown()
            }
        }
        _ => Estimate::unknown(),
    }
}

/// Equal expressions of the two sides of a join, and its other conditions. DataFusion finds equalities late: until then
/// they stand among the conditions.
fn conditions(join: &Join) -> (Vec<(Expr, Expr)>, Vec<Expr>) {
    let mut on = join.on.clone();
    let mut others = Vec::new();
    let (left, right) = (join.left.schema(), join.right.schema());
    let is_of = |expr: &Expr, side: &DFSchema| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(|column| side.has_column(column))
    };
    for condition in join.filter.iter().flat_map(split_conjunction) {
        match condition {
            Expr::BinaryExpr(BinaryExpr {
                left: one,
                op: Operator::Eq,
                right: other,
            }) if is_of(one, left) && is_of(other, right) => on.push((Expr::clone(one), Expr::clone(other))),
            Expr::BinaryExpr(BinaryExpr {
                left: one,
                op: Operator::Eq,
                right: other,
            }) if is_of(other, left) && is_of(one, right) => on.push((Expr::clone(other), Expr::clone(one))),
            other => others.push(other.clone()),
        }
    }
    (on, others)
}

fn cloned((column, estimate): (&Column, &ColumnEstimate)) -> (Column, ColumnEstimate) {
    (column.clone(), estimate.clone())
}

/// Rows of `left` that have a partner.
fn semi_rows(left: &Estimate, right: &Estimate, on: &[(Expr, Expr)]) -> f64 {
    let share = on
        .iter()
        .map(|(l, r)| {
            let ours = left.distinct(l).unwrap_or(left.rows);
            let theirs = right.distinct(r).unwrap_or(right.rows);
            (theirs / ours).min(1.0)
        })
        .fold(1.0, f64::min);
    (left.rows * share).max(1.0)
}

/// The share of all pairs that are equal in several keys, from the share of each. Keys depend on one another, so each
/// further one counts for less.
pub(super) fn share_of_keys(shares: impl Iterator<Item = f64>) -> f64 {
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(f64::total_cmp);
    let shares = shares.iter().zip([1.0, 0.5, 0.25]);
    shares.fold(1.0, |all, (share, weight)| all * share.powf(weight))
}

/// The share of all pairs that are equal in these columns.
pub(crate) fn match_share(left: &Estimate, left_key: &Expr, right: &Estimate, right_key: &Expr) -> f64 {
    let distinct = match (left.distinct(left_key), right.distinct(right_key)) {
        (Some(l), Some(r)) => l.max(r),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => left.rows.max(right.rows),
    };
    1.0 / distinct.max(1.0)
}

/// The input's estimate under the names of the output.
fn renamed(plan: &LogicalPlan) -> Estimate {
    let (input, names): (_, Vec<Option<Column>>) = match plan {
        LogicalPlan::Projection(projection) => (
            &projection.input,
            projection.expr.iter().map(|expr| column_of(expr).cloned()).collect(),
        ),
        LogicalPlan::SubqueryAlias(alias) => {
            let names = alias.input.schema().columns();
            (&alias.input, names.into_iter().map(Some).collect())
        }
        _ => return Estimate::unknown(),
    };
    let input = estimate(input);
    let shown = plan.schema().columns();
    let columns = shown.into_iter().zip(names);
    let columns = columns.filter_map(|(shown, name)| Some((shown, input.columns.get(&name?)?.clone())));
    Estimate {
        rows: input.rows,
        columns: columns.collect(),
    }
}

fn of_table(plan: &LogicalPlan) -> Option<Estimate> {
    let LogicalPlan::TableScan(scan) = plan else {
        return None;
    };
    let provider = source_as_provider(&scan.source).ok()?;
    let known = provider.downcast_ref::<CollectionTable>()?.estimates();
    let columns = plan.schema().columns().into_iter().filter_map(|column| {
        let at = provider.schema().index_of(&column.name).ok()?;
        Some((column, known.columns.get(at)?.clone()))
    });
    Some(Estimate {
        rows: (known.rows as f64).max(1.0),
        columns: columns.collect(),
    })
}

/// What is known of a table: its rows, and each of its columns.
pub(crate) struct TableEstimates {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ColumnEstimate>,
}

/// The share of rows that a condition leaves.
fn share(input: &Estimate, condition: &Expr) -> f64 {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => operator_share(
            *op,
            || [share(input, left), share(input, right)],
            || [input.distinct(left), input.distinct(right)],
            || range_share(input, left, right),
        ),
        Expr::Not(inner) => 1.0 - share(input, inner),
        Expr::Like(Like { negated, .. }) | Expr::SimilarTo(Like { negated, .. }) => not_if(*negated, PATTERN_SHARE),
        Expr::InList(InList { expr, list, negated }) => {
            let one = input.distinct(expr).map_or(EQUAL_SHARE, |distinct| 1.0 / distinct);
            not_if(*negated, (one * list.len() as f64).min(1.0))
        }
        Expr::Between(between) => {
            let share = |bound| range_share(input, &between.expr, bound).unwrap_or(RANGE_SHARE);
            let (above, below) = (1.0 - share(&between.low), share(&between.high));
            not_if(between.negated, (above + below - 1.0).max(0.0))
        }
        Expr::IsNotNull(_) => 1.0,
        Expr::IsNull(_) => EQUAL_SHARE,
        _ => OTHER_SHARE,
    }
}

pub(super) fn not_if(negated: bool, share: f64) -> f64 {
    if negated { 1.0 - share } else { share }
}

/// The share of rows for which an operator is true, from what is known of its two sides: the shares of conditions, the
/// distinct values of operands, and the share of rows in which the left one lies below.
pub(super) fn operator_share(
    op: Operator,
    shares: impl Fn() -> [f64; 2],
    distincts: impl Fn() -> [Option<f64>; 2],
    below: impl Fn() -> Option<f64>,
) -> f64 {
    let equal = || {
        let known = distincts().into_iter().flatten();
        known.reduce(f64::max).map_or(EQUAL_SHARE, |distinct| 1.0 / distinct)
    };
    match op {
        Operator::And => shares().into_iter().product(),
        Operator::Or => {
            let [left, right] = shares();
            left + right - left * right
        }
        Operator::Eq => equal(),
        Operator::NotEq => 1.0 - equal(),
        Operator::Lt | Operator::LtEq => below().unwrap_or(RANGE_SHARE),
        Operator::Gt | Operator::GtEq => below().map_or(RANGE_SHARE, |below| 1.0 - below),
        _ => OTHER_SHARE,
    }
}

/// The share of rows whose `left` lies below `right`.
fn range_share(input: &Estimate, left: &Expr, right: &Expr) -> Option<f64> {
    let range = |side: &Expr| input.columns.get(column_of(side)?)?.range;
    share_below((range(left), literal_place(left)), (range(right), literal_place(right)))
}

/// What is known of an operand: the range of its values if it is a column, its place if it is a literal.
type Operand = (Option<(f64, f64)>, Option<f64>);

/// The share of values of one operand that lie below the other; `None` if that is not known.
pub(super) fn share_below(left: Operand, right: Operand) -> Option<f64> {
    let share = match (left, right) {
        ((Some((least, greatest)), _), (_, Some(place))) if greatest > least => (place - least) / (greatest - least),
        ((_, Some(place)), (Some((least, greatest)), _)) if greatest > least => (greatest - place) / (greatest - least),
        _ => return None,
    };
    Some(share.clamp(0.0, 1.0))
}

fn literal_place(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(value, _) => place(value),
        Expr::Cast(cast) => literal_place(&cast.expr),
        _ => None,
    }
}

/// A value's place on a line, where its type has one: values of one type compare as their places do.
pub(crate) fn place(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as V;
    Some(match value {
        V::Int8(Some(v)) => f64::from(*v),
        V::Int16(Some(v)) => f64::from(*v),
        V::Int32(Some(v)) | V::Date32(Some(v)) => f64::from(*v),
        V::Int64(Some(v)) | V::Time64Microsecond(Some(v)) | V::TimestampMicrosecond(Some(v), _) => *v as f64,
        V::Float32(Some(v)) => f64::from(*v),
        V::Float64(Some(v)) => *v,
        V::Decimal128(Some(v), _, scale) => *v as f64 / 10_f64.powi(i32::from(*scale)),
        _ => return None,
    })
}
