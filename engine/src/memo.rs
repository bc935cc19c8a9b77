//! Expressions that are planned once and evaluated many times.
//!
//! What a CHECK, a DEFAULT or a SET means depends on its text, on the columns it stands over and on the definitions of
//! the namespace. As long as those are the same, so is the plan; only what asks for the instant, the session or chance
//! is planned anew each time.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use candor_storage::Catalog;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use sqlparser::ast;

use crate::write::has_subquery;

/// Expressions that are kept; when there are more, all go, and those in use come back.
const EXPRESSIONS_MAX: usize = 512;

/// Words that name an instant when a text is read as a date or a time.
const INSTANTS: [&str; 5] = ["now", "today", "tomorrow", "yesterday", "allballs"];

/// What names of types mean to a statement: the definitions of its namespace, and the database it has selected.
#[derive(Clone)]
pub(crate) struct Definitions {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) database: Option<String>,
}

impl Definitions {
    fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog) && self.database == other.database
    }
}

/// Expressions by their text, each over the columns and under the definitions that it was planned with.
#[derive(Default)]
pub(crate) struct Memo(Mutex<HashMap<ast::Expr, Vec<Known>>>);

struct Known {
    definitions: Definitions,
    schema: DFSchema,
    planned: Arc<dyn PhysicalExpr>,
}

impl Memo {
    /// The plan of `expr`, which `plan` makes if it is not known.
    ///
    /// # Errors
    /// Those of `plan`; they are not kept.
    pub(crate) fn planned<E>(
        &self,
        expr: &ast::Expr,
        schema: &DFSchema,
        definitions: &Definitions,
        plan: impl FnOnce() -> Result<Arc<dyn PhysicalExpr>, E>,
    ) -> Result<Arc<dyn PhysicalExpr>, E> {
        if !is_fixed(expr) {
            return plan();
        }
        let is_same = |known: &Known| known.definitions.are(definitions) && known.schema == *schema;
        if let Some(known) = self
            .0
            .lock()
            .get(expr)
            .and_then(|known| known.iter().find(|known| is_same(known)))
        {
            return Ok(Arc::clone(&known.planned));
        }
        let planned = plan()?;
        let mut kept = self.0.lock();
        if kept.len() >= EXPRESSIONS_MAX {
            kept.clear();
        }
        let known = kept.entry(expr.clone()).or_default();
        // Definitions do not come back.
        known.retain(|known| Arc::ptr_eq(&known.definitions.catalog, &definitions.catalog));
        known.push(Known {
            definitions: definitions.clone(),
            schema: schema.clone(),
            planned: Arc::clone(&planned),
        });
        Ok(planned)
    }
}

/// Whether an expression means the same whenever it is evaluated, in whichever session.
fn is_fixed(expr: &ast::Expr) -> bool {
    let changes = |expr: &ast::Expr| {
        let changes = match expr {
            ast::Expr::Function(_) => true,
            ast::Expr::Value(value) => is_instant(&value.value),
            ast::Expr::TypedString(typed) => is_instant(&typed.value.value),
            _ => false,
        };
        if changes {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    !has_subquery(expr) && ast::visit_expressions(expr, changes).is_continue()
}

fn is_instant(value: &ast::Value) -> bool {
    match value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => names_instant(text),
        ast::Value::Placeholder(_) => true,
        _ => false,
    }
}

/// Whether a text, read as a date or a time, may mean another moment each time.
pub(crate) fn names_instant(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    INSTANTS.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use datafusion::physical_expr::expressions::lit;

    use super::*;
    use crate::parse::parse_expr;

    fn definitions(database: &str) -> Definitions {
        Definitions {
            catalog: Arc::default(),
            database: Some(database.to_owned()),
        }
    }

    /// How often `sql` is planned when it is asked for twice, under the same definitions or others.
    fn plans(sql: &str, under: [&Definitions; 2]) -> usize {
        let (memo, plans) = (Memo::default(), Cell::new(0));
        let expr = parse_expr(sql).expect("an expression");
        for definitions in under {
            let plan = || {
                plans.set(plans.get() + 1);
                Ok::<_, ()>(lit(1))
            };
            memo.planned(&expr, &DFSchema::empty(), definitions, plan)
                .expect("plans");
        }
        plans.get()
    }

    #[test]
    fn what_stays_the_same_is_planned_once() {
        let same = definitions("main");
        for sql in [
            "balance + 1",
            "CASE WHEN a > 0 THEN 'yes' ELSE NULL END",
            "CAST(a AS TEXT)",
        ] {
            assert_eq!(plans(sql, [&same, &same]), 1, "{sql}");
        }
    }

    #[test]
    fn what_may_change_is_planned_each_time() {
        let same = definitions("main");
        for sql in [
            "now()",
            "a + random()",
            "t < 'now'",
            "TIMESTAMP ' Today'",
            "(SELECT 1)",
            "current_date",
        ] {
            assert_eq!(plans(sql, [&same, &same]), 2, "{sql}");
        }
        let changed = definitions("main");
        assert_eq!(plans("balance + 1", [&same, &changed]), 2, "definitions changed");
        let elsewhere = Definitions {
            database: None,
            ..same.clone()
        };
        assert_eq!(
            plans("CAST(a AS mood)", [&same, &elsewhere]),
            2,
            "another database has other types"
        );
    }

    #[test]
    fn there_is_a_bound() {
        let (memo, same) = (Memo::default(), definitions("main"));
        for number in 0..2 * EXPRESSIONS_MAX {
            let expr = parse_expr(&format!("a + {number}")).expect("an expression");
            let planned = memo.planned(&expr, &DFSchema::empty(), &same, || Ok::<_, ()>(lit(1)));
            planned.expect("plans");
        }
        assert!(memo.0.lock().len() <= EXPRESSIONS_MAX);
    }
}
