//! Windows that DataFusion plans otherwise, or not: those that build on a named one (`OVER (w ORDER BY …)`, of which it
//! leaves the name out), and those whose frame holds no row (`ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING`).

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{self, Expr, VisitMut as _, VisitorMut};

use crate::error::EngineError;
use crate::prepare::{folded, folded_parts};
use crate::tree::call;

/// Writes named windows out where others build on them.
pub(crate) fn write_out_windows(query: &mut ast::Query) -> Result<(), EngineError> {
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return Ok(());
    };
    let mut windows = Windows(HashMap::new());
    for ast::NamedWindowDefinition(name, window) in &mut select.named_window {
        let spec = match window {
            ast::NamedWindowExpr::WindowSpec(spec) => {
                windows.write_out(spec)?;
                spec.clone()
            }
            ast::NamedWindowExpr::NamedWindow(other) => windows.named(other)?.clone(),
        };
        *window = ast::NamedWindowExpr::WindowSpec(spec.clone());
        windows.0.insert(folded(name), spec);
    }
    select
        .named_window
        .retain(|ast::NamedWindowDefinition(name, _)| !windows.0.get(&folded(name)).is_some_and(has_no_row));
    let in_select = select.projection.visit(&mut windows);
    let in_order = query.order_by.visit(&mut windows);
    for flow in [in_select, in_order] {
        if let ControlFlow::Break(error) = flow {
            return Err(error);
        }
    }
    Ok(())
}

struct Windows(HashMap<String, ast::WindowSpec>);

impl Windows {
    fn named(&self, name: &ast::Ident) -> Result<&ast::WindowSpec, EngineError> {
        let window = self.0.get(&folded(name));
        window.ok_or_else(|| EngineError::plan(format!("there is no window `{}`", folded(name))))
    }

    fn write_out(&self, spec: &mut ast::WindowSpec) -> Result<(), EngineError> {
        let Some(name) = spec.window_name.take() else {
            return Ok(());
        };
        let base = self.named(&name)?;
        let name = folded(&name);
        if !spec.partition_by.is_empty() {
            return Err(EngineError::plan(format!(
                "PARTITION BY cannot be said again for the window `{name}`"
            )));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return Err(EngineError::plan(format!(
                "ORDER BY cannot be said again for the window `{name}`"
            )));
        }
        if base.window_frame.is_some() {
            return Err(EngineError::plan(format!(
                "the window `{name}` has a frame, so nothing can build on it: leave the brackets away"
            )));
        }
        spec.partition_by.clone_from(&base.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by.clone_from(&base.order_by);
        }
        Ok(())
    }
}

/// Functions that look at the whole partition, whatever the frame is.
const WITHOUT_FRAME: [&str; 8] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
];

/// Whether the frame ends before it starts.
fn has_no_row(spec: &ast::WindowSpec) -> bool {
    use ast::WindowFrameBound::{Following, Preceding};
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse::<f64>().ok(),
            _ => None,
        },
        _ => None,
    };
    let Some(frame) = &spec.window_frame else { return false };
    let (start, end) = match (&frame.start_bound, &frame.end_bound) {
        (Preceding(Some(start)), Some(Preceding(Some(end)))) => (number(end), number(start)),
        (Following(Some(start)), Some(Following(Some(end)))) => (number(start), number(end)),
        _ => return false,
    };
    start.zip(end).is_some_and(|(start, end)| start > end)
}

/// What a function gives for a frame without rows, with the type that it has.
fn of_no_rows(function: &ast::Function) -> Expr {
    let name = folded_parts(&function.name).and_then(|mut parts| parts.pop());
    let name = name.unwrap_or_default();
    if WITHOUT_FRAME.contains(&name.as_str()) {
        return Expr::Function(function.clone());
    }
    let never = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen {
            condition: Expr::value(ast::Value::Boolean(false)),
            result: Expr::Function(function.clone()),
        }],
        else_result: None,
    };
    if name != "count" {
        return never;
    }
    let zero = Expr::value(ast::Value::Number("0".to_owned(), false));
    let args = [never, zero].map(|arg| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)));
    call("coalesce", args.to_vec())
}

impl VisitorMut for Windows {
    type Break = EngineError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        if let Some(ast::WindowType::NamedWindow(name)) = &function.over
            && let Some(spec) = self.0.get(&folded(name)).filter(|spec| has_no_row(spec))
        {
            function.over = Some(ast::WindowType::WindowSpec(spec.clone()));
        }
        if let Some(ast::WindowType::WindowSpec(spec)) = &mut function.over
            && has_no_row(spec)
        {
            spec.window_frame = None;
            *expr = of_no_rows(function);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        if let Expr::Function(function) = expr
            && let Some(ast::WindowType::WindowSpec(spec)) = &mut function.over
            && let Err(error) = self.write_out(spec)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }
}
