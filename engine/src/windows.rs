//! Windows that build on a named one: `OVER (w ORDER BY …)`. DataFusion leaves the name out of such a window.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, VisitMut as _, VisitorMut};

use crate::error::EngineError;
use crate::prepare::folded;

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

impl VisitorMut for Windows {
    type Break = EngineError;

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
