//! How many rows a physical plan gives, about: the estimates of [`super::cardinality`] once more, for the choices that are
//! made late, such as the side of which a join makes its table.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, JoinSide, JoinType, Result, Statistics};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::operator_statistics::{
    DefaultStatisticsProvider, ExtendedStatistics, LimitStatisticsProvider, PassthroughStatisticsProvider,
    ProjectionStatisticsProvider, StatisticsProvider, StatisticsRegistry, StatisticsResult, UnionStatisticsProvider,
};

use super::cardinality::{
    EQUAL_SHARE, OTHER_SHARE, PATTERN_SHARE, not_if, operator_share, place, share_below, share_of_keys,
};

/// What DataFusion asks for estimates.
pub(crate) fn registry() -> StatisticsRegistry {
    StatisticsRegistry::with_providers(vec![
        Arc::new(Cardinality),
        Arc::new(ProjectionStatisticsProvider),
        Arc::new(PassthroughStatisticsProvider),
        Arc::new(LimitStatisticsProvider),
        Arc::new(UnionStatisticsProvider),
        Arc::new(DefaultStatisticsProvider),
    ])
}

/// Estimates of filters, joins by equality, and aggregates.
#[derive(Debug)]
struct Cardinality;

impl StatisticsProvider for Cardinality {
    fn compute_statistics(
        &self,
        plan: &dyn ExecutionPlan,
        children: &[ExtendedStatistics],
    ) -> Result<StatisticsResult> {
        let children: Vec<&Statistics> = children.iter().map(ExtendedStatistics::base).collect();
        let known = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            of_filter(filter, &children)
        } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            of_join(join, &children)
        } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            of_aggregate(aggregate, &children)
        } else {
            None
        };
        let fits = |known: &Statistics| known.column_statistics.len() == plan.schema().fields().len();
        Ok(match known.filter(fits) {
            Some(known) => StatisticsResult::Computed(ExtendedStatistics::new(known)),
            None => StatisticsResult::Delegate,
        })
    }
}

fn rows_of(statistics: &Statistics) -> Option<f64> {
    statistics.num_rows.get_value().map(|rows| (*rows as f64).max(1.0))
}

/// Rows of these columns; there are no more distinct values than rows.
fn with_rows(rows: f64, mut columns: Vec<ColumnStatistics>) -> Statistics {
    let rows = rows.max(1.0) as usize;
    for column in &mut columns {
        if let Some(distinct) = column.distinct_count.get_value() {
            column.distinct_count = Precision::Inexact((*distinct).min(rows));
        }
    }
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Absent,
        column_statistics: columns,
    }
}

fn of_filter(filter: &FilterExec, children: &[&Statistics]) -> Option<Statistics> {
    let [input] = children else { return None };
    let share = share_of_all(input, filter.predicate());
    let kept = with_rows(rows_of(input)? * share, input.column_statistics.clone());
    Some(kept.project(filter.projection().as_ref()))
}

fn of_aggregate(aggregate: &AggregateExec, children: &[&Statistics]) -> Option<Statistics> {
    let [input] = children else { return None };
    if aggregate.group_expr().groups().len() > 1 {
        return None;
    }
    let rows = rows_of(input)?;
    let mut columns = vec![ColumnStatistics::new_unknown(); aggregate.schema().fields().len()];
    let mut groups = 1.0;
    for ((group, _), shown) in aggregate.group_expr().expr().iter().zip(&mut columns) {
        groups *= distinct(input, group).unwrap_or((rows * EQUAL_SHARE).max(1.0));
        if let Some(known) = column(input, group) {
            *shown = known.clone();
        }
    }
    Some(with_rows(groups.min(rows), columns))
}

fn of_join(join: &HashJoinExec, children: &[&Statistics]) -> Option<Statistics> {
    let [left, right] = children else { return None };
    let (left_rows, right_rows) = (rows_of(left)?, rows_of(right)?);
    let keys: Vec<(f64, f64)> = join
        .on()
        .iter()
        .map(|(l, r)| {
            let (ours, theirs) = (distinct(left, l), distinct(right, r));
            let either = ours.or(theirs).unwrap_or(left_rows.max(right_rows));
            (ours.unwrap_or(either), theirs.unwrap_or(either))
        })
        .collect();
    let others = join.filter().map_or(1.0, |filter| share_of_pairs(left, right, filter));
    let shares = keys.iter().map(|(ours, theirs)| 1.0 / ours.max(*theirs).max(1.0));
    let matched = left_rows * right_rows * others * share_of_keys(shares);
    let partnered = |rows: f64, key: fn(&(f64, f64)) -> f64| keys.iter().map(key).fold(1.0, f64::min) * rows;
    let left_partnered = partnered(left_rows, |(ours, theirs)| theirs / ours);
    let right_partnered = partnered(right_rows, |(ours, theirs)| ours / theirs);
    let (left, right) = (&left.column_statistics, &right.column_statistics);
    let both = || left.iter().chain(right).cloned().collect();
    let (rows, columns) = match join.join_type() {
        JoinType::Inner => (matched, both()),
        JoinType::Left => (matched.max(left_rows), both()),
        JoinType::Right => (matched.max(right_rows), both()),
        JoinType::Full => (matched.max(left_rows + right_rows), both()),
        JoinType::LeftSemi => (left_partnered, left.clone()),
        JoinType::RightSemi => (right_partnered, right.clone()),
        JoinType::LeftAnti => ((left_rows - left_partnered).max(left_rows * EQUAL_SHARE), left.clone()),
        JoinType::RightAnti => (
            (right_rows - right_partnered).max(right_rows * EQUAL_SHARE),
            right.clone(),
        ),
        JoinType::LeftMark | JoinType::RightMark => return None,
    };
    Some(with_rows(rows, columns).project(join.projection.as_ref()))
}

/// The share of pairs of rows that a further condition of a join leaves.
fn share_of_pairs(left: &Statistics, right: &Statistics, filter: &JoinFilter) -> f64 {
    let columns = filter.column_indices().iter().map(|place| {
        let side = match place.side {
            JoinSide::Left => left,
            JoinSide::Right | JoinSide::None => right,
        };
        let known = side.column_statistics.get(place.index);
        known.cloned().unwrap_or_else(ColumnStatistics::new_unknown)
    });
    let pairs = Statistics {
        num_rows: Precision::Absent,
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect(),
    };
    share_of_all(&pairs, filter.expression())
}

/// What is known of the column that an expression is, but for casts.
fn column<'a>(input: &'a Statistics, expr: &PhysicalExprRef) -> Option<&'a ColumnStatistics> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return column(input, cast.expr());
    }
    let at = expr.downcast_ref::<Column>()?.index();
    input.column_statistics.get(at)
}

/// How many distinct values an expression has.
fn distinct(input: &Statistics, expr: &PhysicalExprRef) -> Option<f64> {
    let known = column(input, expr)?.distinct_count.get_value()?;
    Some((*known as f64).max(1.0))
}

/// Its least and its greatest value, as places on a line.
fn range(input: &Statistics, expr: &PhysicalExprRef) -> Option<(f64, f64)> {
    let known = column(input, expr)?;
    Some((
        place(known.min_value.get_value()?)?,
        place(known.max_value.get_value()?)?,
    ))
}

fn literal_place(expr: &PhysicalExprRef) -> Option<f64> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => literal_place(cast.expr()),
        None => place(expr.downcast_ref::<Literal>()?.value()),
    }
}

fn share_of_all(input: &Statistics, condition: &PhysicalExprRef) -> f64 {
    let parts = split_conjunction(condition);
    parts.into_iter().fold(1.0, |all, part| all * share(input, part))
}

/// The share of rows that a condition leaves.
fn share(input: &Statistics, condition: &PhysicalExprRef) -> f64 {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return operator_share(
            *binary.op(),
            || [share(input, left), share(input, right)],
            || [distinct(input, left), distinct(input, right)],
            || {
                share_below(
                    (range(input, left), literal_place(left)),
                    (range(input, right), literal_place(right)),
                )
            },
        );
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let one = distinct(input, list.expr()).map_or(EQUAL_SHARE, |distinct| 1.0 / distinct);
        return not_if(list.negated(), (one * list.list().len() as f64).min(1.0));
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        return not_if(like.negated(), PATTERN_SHARE);
    }
    match condition.downcast_ref::<NotExpr>() {
        Some(not) => 1.0 - share(input, not.arg()),
        None if condition.is::<IsNotNullExpr>() => 1.0,
        None if condition.is::<IsNullExpr>() => EQUAL_SHARE,
        None => OTHER_SHARE,
    }
}
