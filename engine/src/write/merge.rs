//! MERGE: each row of a source is met with the rows of a collection, and the first WHEN that fits says what happens.
//!
//! One query joins the two and gives every pair, and every row without a partner that some WHEN asks for. Then each WHEN
//! in turn takes the rows that fit it out of those that are left, and its action is evaluated over them.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use candor_parser::{does_nothing, inserts_defaults};
use sqlparser::ast::{self, VisitMut as _, VisitorMut};

use super::assign::assignments;
use super::insert::{check_given, default_of, insert_columns, is_default, names_for};
use super::modify::{Target, change};
use super::references::{Replaced, has_actions};
use super::sides::{Side, Sides, beside, number, split_number};
use super::unique::identity_keys;
use super::{CARDINALITY_VIOLATION, Evaluated, RowCompleter, build, returning, unique};
use crate::env::Env;
use crate::error::EngineError;
use crate::existing::identity_schema;
use crate::keys::Key;
use crate::pending::concat;
use crate::prepare::{folded_parts, quoted};
use crate::tree;

/// The column that says whether a row of the source is there.
const HERE: &str = "\0here";

/// What RETURNING calls the action.
const ACTION: &str = "merge_action";

/// The relation of the action.
const ACTIONS: &str = "\0actions";

pub(super) async fn merge(env: &Env, merge: &ast::Merge) -> Result<Evaluated, EngineError> {
    check(merge)?;
    let target = Target::named(env, &merge.table)?;
    let passing = target.pass(env, Vec::new());
    let (schema, rows) = passing.collect(&pairs_query(&target, merge)?).await?;
    let pairs = Pairs::of(&target, merge, &schema, &rows)?;
    let mut run = Run {
        env,
        target: &target,
        source: pairs.source.clone(),
        pairs: &pairs,
        left: vec![true; pairs.rows.num_rows()],
        touched: HashSet::new(),
        ended: Vec::new(),
        begun: Vec::new(),
        written: Vec::new(),
        rows_affected: 0,
        replaced: Vec::new(),
    };
    for clause in &merge.clauses {
        run.clause(clause).await?;
    }
    let updated = std::mem::take(&mut run.replaced);
    let (ended, begun, written, rows_affected) = (concat(&run.ended)?, run.begun, run.written, run.rows_affected);
    unique::check(env, &target.def, ended.as_ref(), &begun, None)?;
    let returning = match &merge.output {
        Some(ast::OutputClause::Returning { select_items, .. }) => {
            let sides = vec![Side::collection(&target.alias, &target.def), pairs.source.clone()];
            let (sides, items) = with_action(sides, select_items);
            returning::answer(env, sides, Some(&items), written).await?
        }
        _ => None,
    };
    Ok(Evaluated {
        schema: Vec::new(),
        changes: change(&target.def, ended, concat(&begun)?),
        rows_affected,
        upsert: Some(target.def.name.clone()),
        returning,
        updated,
    })
}

/// Refuses clauses of other dialects, and a WHEN that nothing can reach.
fn check(merge: &ast::Merge) -> Result<(), EngineError> {
    if matches!(merge.output, Some(ast::OutputClause::Output { .. })) {
        return Err(EngineError::unsupported_try("OUTPUT", "write RETURNING …"));
    }
    let mut ended: Vec<Kind> = Vec::new();
    for clause in &merge.clauses {
        let kind = Kind::of(clause.clause_kind);
        if ended.contains(&kind) {
            return Err(EngineError::plan(
                "a WHEN of MERGE stands after one of its kind that takes every row",
            ));
        }
        if clause.predicate.is_none() {
            ended.push(kind);
        }
        let oracle = match &clause.action {
            ast::MergeAction::Insert(insert) => insert.insert_predicate.is_some(),
            ast::MergeAction::Update(update) => update.update_predicate.is_some() || update.delete_predicate.is_some(),
            ast::MergeAction::Delete { .. } => false,
        };
        if oracle {
            return Err(EngineError::unsupported_try(
                "WHERE after an action of MERGE",
                "put the condition into WHEN … AND condition",
            ));
        }
    }
    Ok(())
}

/// Which rows a WHEN is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Pairs.
    Matched,
    /// Rows of the source without a partner.
    NotMatched,
    /// Rows of the target without a partner.
    BySource,
}

impl Kind {
    fn of(kind: ast::MergeClauseKind) -> Self {
        match kind {
            ast::MergeClauseKind::Matched => Self::Matched,
            ast::MergeClauseKind::NotMatched | ast::MergeClauseKind::NotMatchedByTarget => Self::NotMatched,
            ast::MergeClauseKind::NotMatchedBySource => Self::BySource,
        }
    }
}

fn asks_for(merge: &ast::Merge, kind: Kind) -> bool {
    merge.clauses.iter().any(|clause| Kind::of(clause.clause_kind) == kind)
}

/// Everything of both sides and the identity of the target's row: which side is there shows in what cannot be NULL.
fn pairs_query(target: &Target, merge: &ast::Merge) -> Result<ast::Statement, EngineError> {
    let on = ast::JoinConstraint::On(merge.on.as_ref().clone());
    let operator = match (asks_for(merge, Kind::NotMatched), asks_for(merge, Kind::BySource)) {
        (false, false) => ast::JoinOperator::Inner(on),
        (true, false) => ast::JoinOperator::RightOuter(on),
        (false, true) => ast::JoinOperator::LeftOuter(on),
        (true, true) => ast::JoinOperator::FullOuter(on),
    };
    let alias = source_alias(&merge.source)?;
    let everything = ast::SelectItem::QualifiedWildcard(
        ast::SelectItemQualifiedWildcardKind::ObjectName(ast::ObjectName::from(vec![alias.clone()])),
        ast::WildcardAdditionalOptions::default(),
    );
    let here = build::named(ast::Expr::Value(ast::Value::Boolean(true).into()), HERE);
    let plain = tree::alone(merge.source.clone());
    let subquery = Box::new(tree::query(vec![everything.clone(), here], vec![plain], None));
    let source = ast::TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(ast::TableAlias {
            explicit: true,
            name: alias,
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    let mut from = target.from();
    from.joins.push(ast::Join {
        relation: source,
        global: false,
        join_operator: operator,
    });
    let own = target.def.columns.iter().enumerate();
    let mut projection: Vec<_> = own
        .map(|(at, column)| build::named(build::column(&target.alias, &column.name), &format!("\0old{at}")))
        .collect();
    projection.extend(target.identity_items());
    projection.push(everything);
    Ok(build::select(projection, vec![from], None))
}

/// What the statement calls its source.
fn source_alias(source: &ast::TableFactor) -> Result<ast::Ident, EngineError> {
    let (name, alias) = match source {
        ast::TableFactor::Table { name, alias, .. } => (Some(name), alias),
        ast::TableFactor::Derived { alias, .. } | ast::TableFactor::Function { alias, .. } => (None, alias),
        _ => {
            return Err(EngineError::unsupported_try(
                "this source of MERGE",
                "put it into a query: USING (SELECT …) AS name",
            ));
        }
    };
    let last = name
        .and_then(folded_parts)
        .and_then(|parts| parts.last().map(|name| quoted(name)));
    let alias = alias.as_ref().map(|alias| alias.name.clone()).or(last);
    alias.ok_or_else(|| EngineError::plan("the source of MERGE needs a name: USING (…) AS name"))
}

/// The rows that the join gave.
struct Pairs {
    /// Columns of the target, then those of the source.
    rows: RecordBatch,
    source: Side,
    identity: RecordBatch,
    keys: Vec<Key>,
    kinds: Vec<Kind>,
}

impl Pairs {
    fn of(
        target: &Target,
        merge: &ast::Merge,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<Self, EngineError> {
        let all = concat_batches(schema, batches)?;
        let width = target.def.columns.len();
        let first_source = width + target.identity().len();
        let here = all.num_columns() - 1;
        let identity = &all.columns()[width..first_source];
        let kind = |row| match (identity[0].is_valid(row), all.column(here).is_valid(row)) {
            (true, true) => Kind::Matched,
            (false, _) => Kind::NotMatched,
            (true, false) => Kind::BySource,
        };
        let kinds: Vec<Kind> = (0..all.num_rows()).map(kind).collect();
        let nullable: Vec<Field> = identity_schema(&target.def)
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        let identity = RecordBatch::try_new(Arc::new(Schema::new(nullable)), identity.to_vec())?;
        let keys = identity_keys_of(target, &identity)?;
        let columns: Vec<usize> = (0..width).chain(first_source..here).collect();
        let fields: Vec<Field> = schema.fields()[first_source..here]
            .iter()
            .map(|field| Field::new(crate::names::shown_name(field.name()), field.data_type().clone(), true))
            .collect();
        Ok(Self {
            rows: all.project(&columns)?,
            source: Side::new(source_alias(&merge.source)?, &Arc::new(Schema::new(fields))),
            identity,
            keys,
            kinds,
        })
    }
}

/// Rows without a row of the target have NULLs here, and nobody asks for their keys.
fn identity_keys_of(target: &Target, identity: &RecordBatch) -> Result<Vec<Key>, EngineError> {
    if target.def.key.is_empty() {
        return identity_keys(&target.def, identity);
    }
    crate::keys::KeyCoder::of_types(identity)?.encode(identity.columns())
}

/// A MERGE on its way through its clauses.
struct Run<'a> {
    env: &'a Env,
    target: &'a Target,
    source: Side,
    pairs: &'a Pairs,
    /// Rows that no WHEN has taken.
    left: Vec<bool>,
    /// Rows of the target that were updated or deleted.
    touched: HashSet<Key>,
    ended: Vec<RecordBatch>,
    begun: Vec<RecordBatch>,
    /// Rows for RETURNING: the target's, the source's, the action.
    written: Vec<RecordBatch>,
    rows_affected: u64,
    replaced: Vec<Replaced>,
}

impl Run<'_> {
    async fn clause(&mut self, clause: &ast::MergeClause) -> Result<(), EngineError> {
        let kind = Kind::of(clause.clause_kind);
        let taken = self.taken(kind, clause.predicate.as_ref()).await?;
        for row in &taken {
            self.left[*row as usize] = false;
        }
        // Without rows, the action is still planned: a column that is not there is an error today and tomorrow.
        if does_nothing(&clause.action) {
            return Ok(());
        }
        self.rows_affected += taken.len() as u64;
        match &clause.action {
            ast::MergeAction::Insert(insert) => self.insert(&taken, insert).await,
            ast::MergeAction::Update(update) => self.update(kind, &taken, &update.assignments).await,
            ast::MergeAction::Delete { .. } => self.delete(&taken),
        }
    }

    /// The rows of a kind that are left and hold to the condition.
    async fn taken(&self, kind: Kind, predicate: Option<&ast::Expr>) -> Result<Vec<u64>, EngineError> {
        let of_kind = |row: &usize| self.left[*row] && self.pairs.kinds[*row] == kind;
        let rows = (0..self.left.len()).filter(of_kind).map(|row| row as u64);
        let rows: Vec<u64> = rows.collect();
        let Some(predicate) = predicate else {
            return Ok(rows);
        };
        let sides = self.sides(kind, &rows)?;
        let (_, batches) = sides.select(self.env, vec![number()], Some(predicate.clone())).await?;
        let mut taken = Vec::new();
        for batch in &batches {
            let (_, numbers) = split_number(batch)?;
            taken.extend(numbers.values().iter().map(|at| rows[*at as usize]));
        }
        taken.sort_unstable();
        Ok(taken)
    }

    /// Some rows, as far as a WHEN of this kind may name them.
    fn sides(&self, kind: Kind, rows: &[u64]) -> Result<Sides, EngineError> {
        let width = self.target.def.columns.len();
        let all = take_record_batch(&self.pairs.rows, &UInt64Array::from(rows.to_vec()))?;
        let target = Side::collection(&self.target.alias, &self.target.def);
        let (sides, columns) = match kind {
            Kind::Matched => (vec![target, self.source.clone()], 0..all.num_columns()),
            Kind::NotMatched => (vec![self.source.clone()], width..all.num_columns()),
            Kind::BySource => (vec![target], 0..width),
        };
        let rows = all.project(&columns.collect::<Vec<_>>())?;
        Sides::new(sides, vec![rows]).numbered()
    }

    /// A statement changes a row once.
    fn touch(&mut self, rows: &[u64]) -> Result<(), EngineError> {
        for row in rows {
            if !self.touched.insert(self.pairs.keys[*row as usize].clone()) {
                return Err(EngineError::Constraint {
                    message: format!(
                        "MERGE would change a row of `{}` a second time: several rows of the source match it",
                        self.target.def.name
                    ),
                    sqlstate: CARDINALITY_VIOLATION,
                    row: None,
                });
            }
        }
        self.ended.push(self.identity(rows)?);
        Ok(())
    }

    /// What tells the target's rows of some pairs apart.
    fn identity(&self, rows: &[u64]) -> Result<RecordBatch, EngineError> {
        let identity = take_record_batch(&self.pairs.identity, &UInt64Array::from(rows.to_vec()))?;
        let schema = identity_schema(&self.target.def);
        Ok(RecordBatch::try_new(schema, identity.columns().to_vec())?)
    }

    fn delete(&mut self, rows: &[u64]) -> Result<(), EngineError> {
        self.touch(rows)?;
        let width = self.target.def.columns.len();
        let taken = take_record_batch(&self.pairs.rows, &UInt64Array::from(rows.to_vec()))?;
        let old = taken.project(&(0..width).collect::<Vec<_>>())?;
        self.write(&old, rows, "DELETE")
    }

    async fn update(&mut self, kind: Kind, rows: &[u64], list: &[ast::Assignment]) -> Result<(), EngineError> {
        self.touch(rows)?;
        let def = &self.target.def;
        let assigned = assignments(def, list)?;
        if assigned.keys().any(|name| def.column(name).is_none()) {
            return Err(EngineError::unsupported("a new column in MERGE"));
        }
        let values = def.columns.iter().map(|column| {
            let value = assigned.get(&column.name).cloned();
            value.unwrap_or_else(|| build::column(&self.target.alias, &column.name))
        });
        let names: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
        self.begin(kind, rows, &names, values.collect(), "UPDATE").await
    }

    async fn insert(&mut self, rows: &[u64], insert: &ast::MergeInsertExpr) -> Result<(), EngineError> {
        let def = &self.target.def;
        let ast::MergeInsertKind::Values(values) = &insert.kind else {
            return Err(EngineError::unsupported_try("INSERT ROW", "write INSERT VALUES (…)"));
        };
        if inserts_defaults(&insert.kind) {
            return self.begin(Kind::NotMatched, rows, &[], Vec::new(), "INSERT").await;
        }
        let [row] = values.rows.as_slice() else {
            return Err(EngineError::plan("INSERT of MERGE takes one row of VALUES"));
        };
        let names = names_for(def, insert_columns(def, &insert.columns)?, row.content.len())?;
        if let Some(unknown) = names.iter().find(|name| def.column(name).is_none()) {
            return Err(EngineError::unsupported(format!("the new column `{unknown}` in MERGE")));
        }
        let values = row.content.iter().zip(&names).map(|(value, name)| {
            if is_default(value) {
                default_of(def, name)
            } else {
                check_given(def, name)?;
                Ok(value.clone())
            }
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        self.begin(Kind::NotMatched, rows, &names, values, "INSERT").await
    }

    /// Rows begin with these values in the columns `names`.
    async fn begin(
        &mut self,
        kind: Kind,
        rows: &[u64],
        names: &[String],
        values: Vec<ast::Expr>,
        action: &str,
    ) -> Result<(), EngineError> {
        let named = values.into_iter().enumerate();
        let mut projection: Vec<_> = named
            .map(|(at, value)| build::named(value, &format!("\0new{at}")))
            .collect();
        projection.push(number());
        let (_, batches) = self.sides(kind, rows)?.select(self.env, projection, None).await?;
        let mut completer = RowCompleter::new(self.env, &self.target.def, names)?;
        for batch in &batches {
            let (values, numbers) = split_number(batch)?;
            let completed = completer.complete(values.columns(), values.num_rows())?;
            let from: Vec<u64> = numbers.values().iter().map(|at| rows[*at as usize]).collect();
            if kind != Kind::NotMatched && has_actions(self.env, &self.target.def) {
                self.replaced.push(Replaced {
                    collection: self.target.def.id,
                    ended: self.identity(&from)?,
                    begun: completed.clone(),
                });
            }
            self.begun.push(completed.clone());
            self.write(&completed, &from, action)?;
        }
        Ok(())
    }

    /// Keeps what RETURNING may ask for.
    fn write(&mut self, target: &RecordBatch, rows: &[u64], action: &str) -> Result<(), EngineError> {
        let pairs = take_record_batch(&self.pairs.rows, &UInt64Array::from(rows.to_vec()))?;
        let width = self.target.def.columns.len();
        let source = pairs.project(&(width..width + self.source.width()).collect::<Vec<_>>())?;
        let action: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|_| action)));
        let action = RecordBatch::try_new(Arc::new(Schema::new(vec![action_field()])), vec![action])?;
        self.written.push(beside(&beside(target, &source)?, &action)?);
        Ok(())
    }
}

fn action_field() -> Field {
    Field::new(ACTION, DataType::Utf8, true)
}

/// The relation of the action behind the others, and the items in the words of that: `merge_action()` is its column, and
/// `*` the columns of all others.
fn with_action(mut sides: Vec<Side>, items: &[ast::SelectItem]) -> (Vec<Side>, Vec<ast::SelectItem>) {
    let aliases: Vec<ast::Ident> = sides.iter().map(|side| side.alias().clone()).collect();
    sides.push(Side::new(quoted(ACTIONS), &Arc::new(Schema::new(vec![action_field()]))));
    let mut worded = Vec::new();
    for item in items {
        match item {
            ast::SelectItem::Wildcard(options) => worded.extend(aliases.iter().map(|alias| {
                let name = ast::ObjectName::from(vec![alias.clone()]);
                let kind = ast::SelectItemQualifiedWildcardKind::ObjectName(name);
                ast::SelectItem::QualifiedWildcard(kind, options.clone())
            })),
            other => worded.push(actions_named(other.clone())),
        }
    }
    (sides, worded)
}

fn actions_named(mut item: ast::SelectItem) -> ast::SelectItem {
    struct Actions;
    impl VisitorMut for Actions {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Function(function) = expr
                && folded_parts(&function.name).is_some_and(|parts| parts == [ACTION])
            {
                *expr = build::column(&quoted(ACTIONS), ACTION);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = item.visit(&mut Actions);
    item
}
