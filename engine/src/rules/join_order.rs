//! The order of inner joins, by estimated cost.
//!
//! `DataFusion` joins tables in the order in which the statement names them. This rule takes a tree of inner joins apart
//! into its relations and conditions, and puts it together again in the cheapest order that dynamic programming over
//! connected sets finds (Moerkotte and Neumann, 2006); with many relations, greedily. Equalities are kept as classes:
//! where `a = b` and `b = c`, `a` and `c` may be joined first. A semi or anti join above the tree that concerns one
//! relation only moves down to it when that relation is smaller than what the tree gives.
//!
//! A tree is left as it stands unless the new order is clearly cheaper, so that the rule comes to rest.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinConstraint, JoinType, LogicalPlan, Operator, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::cardinality::{Estimate, estimate, match_share, share_of_keys};

/// Up to this many relations all orders are looked at: 3^10 pairs of sets take about a millisecond.
const EXHAUSTIVE_MAX: usize = 10;

/// More relations than this are left in the order of the statement.
const RELATIONS_MAX: usize = 60;

/// A new order must cost at most this share of the old one.
const WORTH_SHARE: f64 = 0.9;

/// What it costs to put a row into a hash table, in rows looked up.
const BUILD_COST: f64 = 2.0;

/// Orders inner joins.
#[derive(Debug, Default)]
pub(crate) struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &'static str {
        "join_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_join(&plan) {
            return Ok(Transformed::no(plan));
        }
        reorder(plan)
    }
}

fn has_join(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))))
        .unwrap_or(false)
}

fn reorder(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !is_tree(&plan) {
        return plan.map_children(reorder);
    }
    let mut tree = Tree::default();
    tree.take(&plan);
    let mut changed = tree.moved;
    for relation in &mut tree.relations {
        let inner = relation.plan.clone().map_children(reorder)?;
        changed |= inner.transformed;
        relation.plan = inner.data;
        relation.estimate = estimate(&relation.plan);
    }
    if tree.relations.len() < 2 || tree.relations.len() > RELATIONS_MAX {
        return plan.map_children(reorder);
    }
    let before = tree.cost_of(&plan);
    let Some(best) = tree.order() else {
        return plan.map_children(reorder);
    };
    if !changed && best.cost > before * WORTH_SHARE {
        return Ok(Transformed::no(plan));
    }
    let wanted = plan.schema().columns();
    let joined = tree.build(&best)?;
    if joined.schema().columns() == wanted {
        return Ok(Transformed::yes(joined));
    }
    let columns = wanted.into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(joined),
    )?)))
}

/// Whether a plan is inner joins, and what may stand between and above them.
fn is_tree(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_inner(join) || (is_semi(join) && is_tree(&join.left)),
        LogicalPlan::Projection(projection) => picks_columns(projection) && is_tree(&projection.input),
        _ => false,
    }
}

fn is_inner(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

fn is_semi(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
}

/// Whether a projection only leaves columns out.
fn picks_columns(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// A set of relations, one bit each.
type Set = u64;

struct Relation {
    plan: LogicalPlan,
    estimate: Estimate,
}

/// Expressions that the tree holds equal, each on the columns of one relation.
#[derive(Default)]
struct Class {
    members: Vec<Member>,
}

/// A relation, and an expression on its columns.
type Member = (usize, Expr);

/// Two expressions that are equal, one on each side of a join.
type Key<'a> = (&'a Member, &'a Member);

/// A tree of inner joins, taken apart.
#[derive(Default)]
struct Tree {
    relations: Vec<Relation>,
    classes: Vec<Class>,
    /// Conditions that are no equality between two relations.
    others: Vec<(Set, Expr)>,
    /// Which relation has a column.
    owners: HashMap<Column, usize>,
    /// Whether a semi join has gone down to a relation.
    moved: bool,
}

/// A way to join a set of relations.
#[derive(Clone, Debug)]
struct Way {
    set: Set,
    rows: f64,
    cost: f64,
    parts: Option<(Box<Way>, Box<Way>)>,
}

impl Tree {
    /// Adds a plan's relations and conditions.
    fn take(&mut self, plan: &LogicalPlan) {
        match plan {
            LogicalPlan::Projection(projection) if is_tree(plan) => self.take(&projection.input),
            LogicalPlan::Join(join) if is_inner(join) => {
                self.take(&join.left);
                self.take(&join.right);
                for (left, right) in &join.on {
                    self.equal(left.clone(), right.clone());
                }
                for condition in join.filter.clone().map(split_conjunction_owned).unwrap_or_default() {
                    self.condition(condition);
                }
            }
            LogicalPlan::Join(join) if is_semi(join) && is_tree(&join.left) => self.take_semi(plan, join),
            _ => {
                self.take_relation(plan);
            }
        }
    }

    /// A semi join above a tree: it moves down to the one relation that it concerns, or the tree is one relation.
    fn take_semi(&mut self, plan: &LogicalPlan, join: &Join) {
        let mut below = Self::default();
        below.take(&join.left);
        let ours: BTreeSet<usize> = concerned(join)
            .iter()
            .filter_map(|column| below.owners.get(column))
            .copied()
            .collect();
        let whole = estimate(&join.left).rows;
        let one = ours.iter().next().filter(|_| ours.len() == 1);
        let Some(at) = one.filter(|at| below.relations[**at].estimate.rows <= whole) else {
            return self.take_relation(plan);
        };
        let relation = &mut below.relations[*at];
        relation.plan = LogicalPlan::Join(Join {
            left: Arc::new(relation.plan.clone()),
            schema: Arc::clone(relation.plan.schema()),
            ..join.clone()
        });
        relation.estimate = estimate(&relation.plan);
        self.absorb(below);
        self.moved = true;
    }

    fn take_relation(&mut self, plan: &LogicalPlan) {
        let at = self.relations.len();
        self.owners
            .extend(plan.schema().columns().into_iter().map(|column| (column, at)));
        self.relations.push(Relation {
            plan: plan.clone(),
            estimate: estimate(plan),
        });
    }

    fn absorb(&mut self, other: Self) {
        let by = self.relations.len();
        self.relations.extend(other.relations);
        self.owners
            .extend(other.owners.into_iter().map(|(column, at)| (column, at + by)));
        self.classes.extend(other.classes.into_iter().map(|class| Class {
            members: class.members.into_iter().map(|(at, expr)| (at + by, expr)).collect(),
        }));
        self.others
            .extend(other.others.into_iter().map(|(set, expr)| (set << by, expr)));
        self.moved |= other.moved;
    }

    /// The relations whose columns an expression uses; `None` if one of them is not of the tree.
    fn uses(&self, expr: &Expr) -> Option<Set> {
        expr.column_refs()
            .into_iter()
            .try_fold(0, |set, column| Some(set | 1 << self.owners.get(column)?))
    }

    fn condition(&mut self, condition: Expr) {
        match condition {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => self.equal(*left, *right),
            other => self.other(other),
        }
    }

    fn other(&mut self, condition: Expr) {
        // A condition on nothing of the tree holds everywhere: it is asked at the top.
        let set = self.uses(&condition).unwrap_or(Set::MAX);
        self.others.push((set, condition));
    }

    fn equal(&mut self, left: Expr, right: Expr) {
        let (l, r) = (self.uses(&left).and_then(single), self.uses(&right).and_then(single));
        let (Some(l), Some(r)) = (l, r) else {
            return self.other(left.eq(right));
        };
        if l == r {
            return self.other(left.eq(right));
        }
        let (l, r) = ((l, left), (r, right));
        let of = |tree: &Self, member| tree.classes.iter().position(|class| class.members.contains(member));
        match (of(self, &l), of(self, &r)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                let gone = self.classes.remove(a.max(b));
                self.classes[a.min(b)].members.extend(gone.members);
            }
            (Some(a), None) => self.classes[a].members.push(r),
            (None, Some(b)) => self.classes[b].members.push(l),
            (None, None) => self.classes.push(Class { members: vec![l, r] }),
        }
    }

    /// One equality of each class that has members on both sides.
    fn keys(&self, left: Set, right: Set) -> Vec<Key<'_>> {
        let within = |class: &'_ Class, set: Set| class.members.iter().position(|(at, _)| set & (1 << at) != 0);
        let pair = |class: &'_ Class| Some((within(class, left)?, within(class, right)?));
        self.classes
            .iter()
            .filter_map(|class| pair(class).map(|(l, r)| (&class.members[l], &class.members[r])))
            .collect()
    }

    fn leaf(&self, at: usize) -> Way {
        Way {
            set: 1 << at,
            rows: self.relations[at].estimate.rows,
            cost: 0.0,
            parts: None,
        }
    }

    /// Two ways joined; `None` if nothing connects them.
    fn joined(&self, left: &Way, right: &Way) -> Option<Way> {
        let keys = self.keys(left.set, right.set);
        if keys.is_empty() {
            return None;
        }
        Some(self.priced(left, right, &keys))
    }

    fn priced(&self, left: &Way, right: &Way, keys: &[Key<'_>]) -> Way {
        let share = share_of_keys(keys.iter().map(|((l, left), (r, right))| {
            match_share(&self.relations[*l].estimate, left, &self.relations[*r].estimate, right)
        }));
        let rows = (left.rows * right.rows * share).max(1.0);
        let (build, probe) = (left.rows.min(right.rows), left.rows.max(right.rows));
        let (small, large) = if left.rows <= right.rows {
            (left, right)
        } else {
            (right, left)
        };
        Way {
            set: left.set | right.set,
            rows,
            cost: left.cost + right.cost + BUILD_COST * build + probe + rows,
            parts: Some((Box::new(small.clone()), Box::new(large.clone()))),
        }
    }

    /// What the joins of `plan` cost as they stand.
    fn cost_of(&self, plan: &LogicalPlan) -> f64 {
        self.way_of(plan, &mut 0).map_or(f64::INFINITY, |way| way.cost)
    }

    fn way_of(&self, plan: &LogicalPlan, next: &mut usize) -> Option<Way> {
        match plan {
            LogicalPlan::Projection(projection) if is_tree(plan) => self.way_of(&projection.input, next),
            LogicalPlan::Join(join) if is_inner(join) => {
                let left = self.way_of(&join.left, next)?;
                let right = self.way_of(&join.right, next)?;
                Some(self.priced(&left, &right, &self.keys(left.set, right.set)))
            }
            _ => {
                let at = *next;
                *next += 1;
                (at < self.relations.len()).then(|| self.leaf(at))
            }
        }
    }

    /// The cheapest way to join everything; `None` if that takes a product without a condition.
    fn order(&self) -> Option<Way> {
        if self.relations.len() <= EXHAUSTIVE_MAX {
            self.exhaustive()
        } else {
            self.greedy()
        }
    }

    fn exhaustive(&self) -> Option<Way> {
        let all: Set = (1 << self.relations.len()) - 1;
        let mut best: Vec<Option<Way>> = vec![None; all as usize + 1];
        for at in 0..self.relations.len() {
            best[1 << at] = Some(self.leaf(at));
        }
        for set in 1..=all {
            if set.is_power_of_two() {
                continue;
            }
            // Each split is met twice; the half with the lowest relation is called left.
            let mut left = (set - 1) & set;
            while left > 0 {
                let right = set & !left;
                if left & (set & set.wrapping_neg()) != 0
                    && let (Some(l), Some(r)) = (&best[left as usize], &best[right as usize])
                    && let Some(way) = self.joined(l, r)
                    && best[set as usize].as_ref().is_none_or(|known| way.cost < known.cost)
                {
                    best[set as usize] = Some(way);
                }
                left = (left - 1) & set;
            }
        }
        best.pop().flatten()
    }

    /// Joins the two that give the fewest rows, until one is left.
    fn greedy(&self) -> Option<Way> {
        let mut ways: Vec<Way> = (0..self.relations.len()).map(|at| self.leaf(at)).collect();
        while ways.len() > 1 {
            let mut best: Option<(usize, usize, Way)> = None;
            for left in 0..ways.len() {
                for right in left + 1..ways.len() {
                    if let Some(way) = self.joined(&ways[left], &ways[right])
                        && best.as_ref().is_none_or(|(_, _, known)| way.rows < known.rows)
                    {
                        best = Some((left, right, way));
                    }
                }
            }
            let (left, right, way) = best?;
            ways.swap_remove(right);
            ways[left] = way;
        }
        ways.pop()
    }

    /// The plan of a way. The smaller side stands left, where a hash join builds its table.
    fn build(&self, best: &Way) -> Result<LogicalPlan> {
        let mut left_over: Vec<(Set, Expr)> = self.others.clone();
        let plan = self.build_way(best, &mut left_over)?;
        let rest = conjunction(left_over.into_iter().map(|(_, condition)| condition));
        match rest {
            Some(condition) => Ok(LogicalPlan::Filter(datafusion::logical_expr::Filter::try_new(
                condition,
                Arc::new(plan),
            )?)),
            None => Ok(plan),
        }
    }

    fn build_way(&self, way: &Way, left_over: &mut Vec<(Set, Expr)>) -> Result<LogicalPlan> {
        let Some((left, right)) = &way.parts else {
            return Ok(self.relations[way.set.trailing_zeros() as usize].plan.clone());
        };
        let (l, r) = (self.build_way(left, left_over)?, self.build_way(right, left_over)?);
        let on = self.keys(left.set, right.set);
        let on = on.into_iter().map(|((_, l), (_, r))| (l.clone(), r.clone())).collect();
        let here = left_over.extract_if(.., |(set, _)| *set & !way.set == 0);
        let filter = conjunction(here.map(|(_, condition)| condition));
        Ok(LogicalPlan::Join(Join::try_new(
            Arc::new(l),
            Arc::new(r),
            on,
            filter,
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?))
    }
}

/// The columns of its left side that a semi join looks at.
fn concerned(join: &Join) -> Vec<Column> {
    let left = join.left.schema();
    let filter = join.filter.iter();
    let exprs = join.on.iter().map(|(left, _)| left).chain(filter);
    let columns = exprs.flat_map(|expr| expr.column_refs().into_iter().cloned().collect::<Vec<_>>());
    columns.filter(|column| left.has_column(column)).collect()
}

/// The one relation of a set.
fn single(set: Set) -> Option<usize> {
    set.is_power_of_two().then(|| set.trailing_zeros() as usize)
}
