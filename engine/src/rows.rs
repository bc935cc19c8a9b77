//! Row values, `(a, b) = (1, 2)`: compared column by column, as SQL defines it.
//!
//! DataFusion compares them as structs, in which NULL is a value like any other.

use sqlparser::ast::{self, BinaryOperator, Expr};

use crate::error::EngineError;
use crate::prepare::quoted;
use crate::tree;

/// The name under which the rows of a subquery are compared.
const ROWS: &str = "__rows";

/// Takes a comparison of row values apart; leaves everything else as it is.
pub(crate) fn compare_columns(expr: &mut Expr) -> Result<(), EngineError> {
    let compared = match &*expr {
        Expr::BinaryOp { left, op, right } => match (items(left), items(right)) {
            (Some(left), Some(right)) => compared(&left, op, &right)?,
            _ => return Ok(()),
        },
        Expr::IsDistinctFrom(left, right) => match (items(left), items(right)) {
            (Some(left), Some(right)) => Some(pairwise(&left, &right, &BinaryOperator::Or, |left, right| {
                Expr::IsDistinctFrom(left, right)
            })?),
            _ => return Ok(()),
        },
        Expr::IsNotDistinctFrom(left, right) => match (items(left), items(right)) {
            (Some(left), Some(right)) => Some(pairwise(&left, &right, &BinaryOperator::And, |left, right| {
                Expr::IsNotDistinctFrom(left, right)
            })?),
            _ => return Ok(()),
        },
        // A row is NULL when all of it is, and not NULL when nothing of it is.
        Expr::IsNull(inner) => items(inner).map(|values| each(&values, Expr::IsNull)),
        Expr::IsNotNull(inner) => items(inner).map(|values| each(&values, Expr::IsNotNull)),
        Expr::InList { expr, list, negated } => in_list(expr, list, *negated)?,
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => match items(expr) {
            Some(values) => Some(in_query(&values, &BinaryOperator::Eq, subquery, *negated)?),
            None => None,
        },
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => match (items(left), right.as_ref()) {
            (Some(values), Expr::Subquery(query)) => Some(in_query(&values, compare_op, query, false)?),
            _ => None,
        },
        // All compare so when none compares the other way.
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => match (items(left), right.as_ref(), opposite(compare_op)) {
            (Some(values), Expr::Subquery(query), Some(op)) => Some(in_query(&values, &op, query, true)?),
            _ => None,
        },
        _ => None,
    };
    if let Some(compared) = compared {
        *expr = compared;
    }
    Ok(())
}

/// `(a, b) IN (SELECT …)` as a condition that rows must meet, where NULL is as good as false.
pub(crate) fn look_up_rows(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            look_up_rows(left);
            look_up_rows(right);
        }
        Expr::Nested(inner) => look_up_rows(inner),
        Expr::InSubquery {
            expr,
            subquery,
            negated: false,
        } => {
            if let Some(values) = items(expr) {
                let found = equal_columns(&values);
                let one = ast::SelectItem::UnnamedExpr(number("1"));
                *condition = Expr::Exists {
                    subquery: Box::new(select(one, subquery, values.len(), Some(found))),
                    negated: false,
                };
            }
        }
        _ => {}
    }
}

/// The columns of a row value.
fn items(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(items) if items.len() > 1 => Some(items.clone()),
        Expr::Nested(inner) => items(inner),
        Expr::Function(function) if crate::prepare::folded_parts(&function.name)? == ["row"] => {
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let value = |arg: &ast::FunctionArg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            let values: Option<Vec<Expr>> = list.args.iter().map(value).collect();
            values.filter(|values| !values.is_empty())
        }
        _ => None,
    }
}

fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>, EngineError> {
    let by = |op: BinaryOperator| {
        move |left: Box<Expr>, right: Box<Expr>| Expr::BinaryOp {
            left,
            op: op.clone(),
            right,
        }
    };
    Ok(Some(match op {
        BinaryOperator::Eq => pairwise(left, right, &BinaryOperator::And, by(op.clone()))?,
        BinaryOperator::NotEq => pairwise(left, right, &BinaryOperator::Or, by(op.clone()))?,
        BinaryOperator::Lt | BinaryOperator::LtEq => ordered(left, right, &BinaryOperator::Lt, op)?,
        BinaryOperator::Gt | BinaryOperator::GtEq => ordered(left, right, &BinaryOperator::Gt, op)?,
        _ => return Ok(None),
    }))
}

fn each(values: &[Expr], test: impl Fn(Box<Expr>) -> Expr) -> Expr {
    joined(values.iter().map(|value| test(nested(value))), &BinaryOperator::And)
}

fn same_length(left: &[Expr], right: &[Expr]) -> Result<(), EngineError> {
    if left.len() == right.len() {
        Ok(())
    } else {
        Err(EngineError::plan(format!(
            "rows of {} and {} columns cannot be compared",
            left.len(),
            right.len()
        )))
    }
}

fn pairwise(
    left: &[Expr],
    right: &[Expr],
    together: &BinaryOperator,
    compare: impl Fn(Box<Expr>, Box<Expr>) -> Expr,
) -> Result<Expr, EngineError> {
    same_length(left, right)?;
    let pairs = left.iter().zip(right);
    let compared = pairs.map(|(left, right)| compare(nested(left), nested(right)));
    Ok(joined(compared, together))
}

/// The first columns that differ decide: `a < c OR (a = c AND b < d)`.
fn ordered(
    left: &[Expr],
    right: &[Expr],
    strictly: &BinaryOperator,
    last: &BinaryOperator,
) -> Result<Expr, EngineError> {
    same_length(left, right)?;
    let mut pairs = left.iter().zip(right).rev();
    let Some((left, right)) = pairs.next() else {
        return Err(EngineError::plan("a row of no columns cannot be compared"));
    };
    let mut decided = binary(left, last, right);
    for (left, right) in pairs {
        let equal = binary(left, &BinaryOperator::Eq, right);
        let further = joined([equal, decided].into_iter(), &BinaryOperator::And);
        decided = joined(
            [binary(left, strictly, right), further].into_iter(),
            &BinaryOperator::Or,
        );
    }
    Ok(decided)
}

fn in_list(expr: &Expr, list: &[Expr], negated: bool) -> Result<Option<Expr>, EngineError> {
    let Some(values) = items(expr) else {
        return Ok(None);
    };
    let mut equal = Vec::with_capacity(list.len());
    for row in list {
        let Some(row) = items(row) else {
            return Ok(None);
        };
        equal.extend(compared(&values, &BinaryOperator::Eq, &row)?);
    }
    let any = joined(equal.into_iter(), &BinaryOperator::Or);
    Ok(Some(denied_if(negated, any)))
}

/// TRUE is among the comparisons with each row: that is false, NULL and true just when IN is.
fn in_query(values: &[Expr], op: &BinaryOperator, subquery: &ast::Query, negated: bool) -> Result<Expr, EngineError> {
    let columns: Vec<Expr> = (0..values.len()).map(column_of_row).collect();
    let Some(comparison) = compared(values, op, &columns)? else {
        return Err(EngineError::unsupported(format!("{op} between rows")));
    };
    let comparison = ast::SelectItem::UnnamedExpr(comparison);
    let within = Expr::InSubquery {
        expr: Box::new(Expr::value(ast::Value::Boolean(true))),
        subquery: Box::new(select(comparison, subquery, values.len(), None)),
        negated: false,
    };
    Ok(denied_if(negated, within))
}

/// What holds when `op` does not; both are NULL alike.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

fn column_of_row(at: usize) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(ROWS), column(at)])
}

fn equal_columns(values: &[Expr]) -> Expr {
    let equal = values
        .iter()
        .enumerate()
        .map(|(at, value)| binary(value, &BinaryOperator::Eq, &column_of_row(at)));
    joined(equal, &BinaryOperator::And)
}

fn column(at: usize) -> ast::Ident {
    quoted(&format!("{ROWS}_{at}"))
}

/// `SELECT item FROM (query) AS rows (…) WHERE condition`
fn select(item: ast::SelectItem, query: &ast::Query, width: usize, condition: Option<Expr>) -> ast::Query {
    let rows = tree::derived(query.clone(), quoted(ROWS), (0..width).map(column));
    tree::query(vec![item], vec![rows], condition)
}

fn denied_if(negated: bool, expr: Expr) -> Expr {
    if negated {
        Expr::UnaryOp {
            op: ast::UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(expr))),
        }
    } else {
        expr
    }
}

fn nested(expr: &Expr) -> Box<Expr> {
    Box::new(Expr::Nested(Box::new(expr.clone())))
}

fn binary(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp {
        left: nested(left),
        op: op.clone(),
        right: nested(right),
    }
}

/// All of them in brackets, with `op` between them.
fn joined(exprs: impl Iterator<Item = Expr>, op: &BinaryOperator) -> Expr {
    let all = exprs.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    });
    Expr::Nested(Box::new(all.unwrap_or_else(|| Expr::value(ast::Value::Boolean(true)))))
}

fn number(text: &str) -> Expr {
    Expr::value(ast::Value::Number(text.to_owned(), false))
}
