//! What is kept of a statement between its runs: an application sends the same few texts over and over.

use std::sync::{Arc, Weak};

use candor_storage::Catalog;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use parking_lot::Mutex;

use crate::context::Param;
use crate::memo::names_instant;
use crate::point::PointRead;
use crate::scan::CollectionTable;

/// What the engine knows of one statement from the last time it ran. It belongs to that statement's syntax tree alone: with
/// another one, the answer would be the first one's.
#[derive(Default)]
pub struct StatementMemo {
    read: Mutex<Option<Known<Option<Arc<PointRead>>>>>,
    plan: Mutex<Option<KnownPlan>>,
}

/// What something is under these definitions, with this database selected.
struct Known<T> {
    /// Weak, so that definitions which nobody uses any more go; their place in memory is not given to others meanwhile.
    catalog: Weak<Catalog>,
    database: Option<String>,
    what: T,
}

/// The parameters of the last run; and the plan, once a statement has come twice in a row with the same: one that comes once,
/// or with other parameters each time, costs nothing.
struct KnownPlan {
    params: Vec<Param>,
    plan: Option<Known<LogicalPlan>>,
}

impl<T> Known<T> {
    fn new(catalog: &Arc<Catalog>, database: Option<&String>, what: T) -> Self {
        Self {
            catalog: Arc::downgrade(catalog),
            database: database.cloned(),
            what,
        }
    }

    fn is_under(&self, catalog: &Arc<Catalog>, database: Option<&String>) -> bool {
        std::ptr::eq(self.catalog.as_ptr(), Arc::as_ptr(catalog)) && self.database.as_ref() == database
    }
}

impl StatementMemo {
    /// The statement as a read by key, if it is one; `plan` finds out where that is not known.
    pub(crate) fn point_read(
        &self,
        catalog: &Arc<Catalog>,
        database: Option<&String>,
        plan: impl FnOnce() -> Option<Arc<PointRead>>,
    ) -> Option<Arc<PointRead>> {
        let mut kept = self.read.lock();
        if let Some(known) = kept.as_ref().filter(|known| known.is_under(catalog, database)) {
            return known.what.clone();
        }
        let read = plan();
        *kept = Some(Known::new(catalog, database, read.clone()));
        read
    }

    /// The optimized plan of the statement with these parameters, over tables without rows, if it was kept.
    pub(crate) fn plan(
        &self,
        catalog: &Arc<Catalog>,
        database: Option<&String>,
        params: &[Param],
    ) -> Option<LogicalPlan> {
        let kept = self.plan.lock();
        let known = kept.as_ref().filter(|known| known.params == params)?;
        let plan = known.plan.as_ref().filter(|plan| plan.is_under(catalog, database))?;
        Some(plan.what.clone())
    }

    /// Whether the last run had these parameters; from now on it had.
    pub(crate) fn comes_again(&self, params: &[Param]) -> bool {
        let mut kept = self.plan.lock();
        let again = kept.as_ref().is_some_and(|known| known.params == params);
        if !again {
            *kept = Some(KnownPlan {
                params: params.to_vec(),
                plan: None,
            });
        }
        again
    }

    /// Keeps the optimized plan of the statement with these parameters; the one before goes.
    pub(crate) fn keep_plan(
        &self,
        catalog: &Arc<Catalog>,
        database: Option<&String>,
        params: &[Param],
        optimized: LogicalPlan,
    ) -> Result<()> {
        // A table with its rows would keep what the store has long compacted.
        let plan = with_tables(optimized, CollectionTable::without_rows)?;
        *self.plan.lock() = Some(KnownPlan {
            params: params.to_vec(),
            plan: Some(Known::new(catalog, database, plan)),
        });
        Ok(())
    }
}

/// The plan over other rows of its collections.
pub(crate) fn with_tables(
    plan: LogicalPlan,
    table: impl Fn(&CollectionTable) -> CollectionTable,
) -> Result<LogicalPlan> {
    let changed = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        let Some(known) = provider.downcast_ref::<CollectionTable>() else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let source = provider_as_source(Arc::new(table(known)));
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
    })?;
    Ok(changed.data)
}

/// Whether the plan of a query, as it was before it was optimized, says the same whenever it runs and whoever asks: it reads
/// collections alone, and calls nothing that knows the instant, the session or chance. Optimizing puts the values of such
/// calls in their places.
pub(crate) fn is_lasting(plan: &LogicalPlan, template: &SessionState) -> bool {
    let mut lasts = true;
    // Looking cannot fail.
    let _ = plan.apply_with_subqueries(|node| {
        lasts &= match node {
            LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)
                .is_ok_and(|provider| provider.downcast_ref::<CollectionTable>().is_some()),
            LogicalPlan::Extension(_) => false,
            _ => true,
        };
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                lasts &= lasts_itself(expr, template);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    lasts
}

/// Whether an expression lasts if those in it do. Functions that a session brings of its own know it, whatever they say of
/// themselves.
fn lasts_itself(expr: &Expr, template: &SessionState) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            let known = template.scalar_functions().get(call.func.name());
            let is_shared = known.is_some_and(|known| Arc::ptr_eq(known, &call.func));
            is_shared && call.func.signature().volatility == Volatility::Immutable
        }
        Expr::AggregateFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        Expr::Literal(value, _) => !value.try_as_str().flatten().is_some_and(names_instant),
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => false,
        _ => true,
    }
}
