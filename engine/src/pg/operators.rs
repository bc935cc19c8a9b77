//! PostgreSQL's operators, chosen by the types of both sides.

use std::sync::Arc;

use arrow::datatypes::DataType;
use candor_storage::ColumnType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions_nested::expr_fn::{array_append, array_concat, array_has_all, array_has_any, array_prepend};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, GetFieldAccess, Operator, lit, when};
use sqlparser::ast::BinaryOperator as Op;

use super::function::{Spec, call};
use super::literal::{Side, cast_to, constant_date, narrowed, small_integer, typed, unknown_text};
use super::wider::{depth, wider_array, wider_arrays};
use super::{array, bytes, casts, enums, json, number, overload, time};

/// Chooses operators.
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr {
            mut op,
            left,
            mut right,
        } = expr;
        // `doc->-1`: the tokenizer takes the sign for a part of the operator.
        if let Op::Custom(written) = &op
            && let Some((_, arrow)) = [("->-", Op::Arrow), ("->>-", Op::LongArrow)]
                .into_iter()
                .find(|(text, _)| text == written)
        {
            op = arrow;
            right = narrowed(Expr::Negative(Box::new(right)));
        }
        let sides = (Side::of(&left, schema), Side::of(&right, schema));
        let planned = match sides {
            (Side::Other, Side::Other) => Planned::Left(left, right),
            _ => Choice { schema, sides }.plan(&op, left, right)?,
        };
        Ok(match planned {
            Planned::Done(expr) => PlannerResult::Planned(expr),
            Planned::Left(left, right) => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, _: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        let all_small = exprs.iter().all(|expr| small_integer(expr).is_some());
        let exprs = if all_small {
            exprs.into_iter().map(narrowed).collect()
        } else {
            exprs
        };
        Ok(PlannerResult::Original(exprs))
    }

    /// Parts that may have a fraction are NUMERIC; the others are DataFusion's own, which are fast.
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let field = args
            .first()
            .and_then(unknown_text)
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_ours = matches!(
            field.as_str(),
            "second"
                | "seconds"
                | "millisecond"
                | "milliseconds"
                | "microsecond"
                | "microseconds"
                | "epoch"
                | "decade"
                | "century"
                | "millennium"
                | "julian"
                | "timezone"
                | "timezone_hour"
                | "timezone_minute"
        );
        if is_ours {
            Ok(PlannerResult::Planned(call(&time::EXTRACT, args)))
        } else {
            Ok(PlannerResult::Original(args))
        }
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match overload::substring() {
            Some(substring) => PlannerResult::Planned(substring.call(args)),
            None => PlannerResult::Original(args),
        })
    }

    /// Subscripts: arrays start at 1, and outside of them is NULL.
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = expr;
        let side = Side::of(&expr, schema);
        match (side.ty(), field_access) {
            (Some(ColumnType::Jsonb), GetFieldAccess::NamedStructField { name }) => Ok(PlannerResult::Planned(call(
                &json::GET_B,
                vec![expr, Expr::Literal(name, None)],
            ))),
            (Some(ColumnType::Jsonb), GetFieldAccess::ListIndex { key }) => {
                Ok(PlannerResult::Planned(call(&json::GET_B, vec![expr, *key])))
            }
            (Some(list @ ColumnType::Array { .. }), GetFieldAccess::ListIndex { key })
                if kept_as_text(list).is_some() =>
            {
                let element = datafusion::functions_nested::expr_fn::array_element(expr, (*key).clone());
                let inside = when((*key).gt_eq(lit(1_i64)), element).end()?;
                let item = kept_as_text(list).unwrap_or(ColumnType::Text);
                Ok(PlannerResult::Planned(casts::read(inside, item, schema)))
            }
            (Some(ColumnType::Array { .. }), GetFieldAccess::ListIndex { key })
                if small_integer(&key).is_none_or(|at| at < 1) =>
            {
                let element = datafusion::functions_nested::expr_fn::array_element(expr, (*key).clone());
                let inside = when((*key).gt_eq(lit(1_i64)), element).end()?;
                Ok(PlannerResult::Planned(inside))
            }
            (_, field_access) => Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr })),
        }
    }
}

enum Planned {
    Done(Expr),
    /// DataFusion's own operator, of these operands.
    Left(Expr, Expr),
}

struct Choice<'a> {
    schema: &'a DFSchema,
    sides: (Side, Side),
}

const fn is_comparison(op: &Op) -> bool {
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
}

const fn is_arithmetic(op: &Op) -> bool {
    matches!(op, Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo)
}

fn operator(op: &Op) -> Operator {
    match op {
        Op::NotEq => Operator::NotEq,
        Op::Lt => Operator::Lt,
        Op::LtEq => Operator::LtEq,
        Op::Gt => Operator::Gt,
        Op::GtEq => Operator::GtEq,
        Op::Minus => Operator::Minus,
        Op::Plus => Operator::Plus,
        _ => Operator::Eq,
    }
}

fn binary(left: Expr, op: &Op, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator(op), Box::new(right)))
}

fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64)
}

fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

fn is_json(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Json | ColumnType::Jsonb)
}

impl Choice<'_> {
    fn plan(&self, op: &Op, left: Expr, right: Expr) -> Result<Planned> {
        if let Some(planned) = self.json(op, &left, &right)? {
            return Ok(Planned::Done(planned));
        }
        match op {
            Op::StringConcat => self.concatenation(left, right),
            Op::AtArrow | Op::ArrowAt | Op::PGOverlap => self.of_arrays(op, left, right),
            Op::PGExp => Ok(Planned::Done(datafusion::prelude::power(
                cast_to(left, ColumnType::Float64),
                cast_to(right, ColumnType::Float64),
            ))),
            Op::PGStartsWith => Ok(Planned::Done(datafusion::prelude::starts_with(left, right))),
            op if is_comparison(op) => self.comparison(op, left, right),
            op if is_arithmetic(op) => self.arithmetic(op, left, right),
            _ => Ok(Planned::Left(left, right)),
        }
    }

    /// `->`, `->>`, `#>`, `#>>`, `?`, `?|`, `?&`, and `||`, `-`, `#-`, `@>`, `<@` of documents.
    fn json(&self, op: &Op, left: &Expr, right: &Expr) -> Result<Option<Expr>> {
        let (l, r) = self.sides;
        let is_b = l.ty() == Some(ColumnType::Jsonb);
        let is_document = l.ty().is_some_and(is_json);
        let spec: &'static Spec = match op {
            Op::Arrow if is_b => &json::GET_B,
            Op::Arrow if is_document => &json::GET,
            Op::LongArrow if is_document => &json::GET_TEXT,
            Op::HashArrow if is_b => &json::PATH_B,
            Op::HashArrow if is_document => &json::PATH,
            Op::HashLongArrow if is_document => &json::PATH_TEXT,
            Op::Question if is_b => &json::HAS_KEY,
            Op::QuestionPipe if is_b => &json::HAS_ANY,
            Op::QuestionAnd if is_b => &json::HAS_ALL,
            Op::HashMinus if is_b => &json::WITHOUT_PATH,
            Op::Minus if is_b => &json::WITHOUT,
            Op::Arrow
            | Op::LongArrow
            | Op::HashArrow
            | Op::HashLongArrow
            | Op::Question
            | Op::QuestionPipe
            | Op::QuestionAnd
            | Op::HashMinus => {
                return plan_err!("`{op}` takes a JSON document on its left: cast it with ::jsonb");
            }
            Op::StringConcat | Op::AtArrow | Op::ArrowAt => {
                if !(is_b || r.ty() == Some(ColumnType::Jsonb)) {
                    return Ok(None);
                }
                let (left, right) = (Self::as_jsonb(left, l)?, Self::as_jsonb(right, r)?);
                return Ok(Some(match op {
                    Op::StringConcat => call(&json::CONCAT, vec![left, right]),
                    Op::AtArrow => call(&json::CONTAINS, vec![left, right]),
                    _ => call(&json::CONTAINS, vec![right, left]),
                }));
            }
            _ => return Ok(None),
        };
        let takes_texts = matches!(
            op,
            Op::HashArrow | Op::HashLongArrow | Op::QuestionPipe | Op::QuestionAnd | Op::HashMinus
        );
        let right = match unknown_text(right) {
            Some(text) if takes_texts => typed(text, texts())?,
            _ => narrowed(right.clone()),
        };
        Ok(Some(call(spec, vec![left.clone(), right])))
    }

    fn as_jsonb(expr: &Expr, side: Side) -> Result<Expr> {
        match side {
            Side::Typed(ColumnType::Jsonb) => Ok(expr.clone()),
            Side::Unknown => typed(unknown_text(expr).unwrap_or_default(), ColumnType::Jsonb),
            _ => plan_err!("a JSONB document goes with a JSONB document: cast the other side"),
        }
    }

    fn concatenation(&self, left: Expr, right: Expr) -> Result<Planned> {
        match self.sides {
            (Side::Typed(ColumnType::Bytes), Side::Typed(ColumnType::Bytes)) => {
                Ok(Planned::Done(call(&bytes::CONCAT, vec![left, right])))
            }
            (Side::Typed(ColumnType::Bytes), Side::Unknown) => {
                let right = typed(unknown_text(&right).unwrap_or_default(), ColumnType::Bytes)?;
                Ok(Planned::Done(call(&bytes::CONCAT, vec![left, right])))
            }
            // NULL without a type is an array, of nothing.
            (Side::Typed(ColumnType::Array { .. }), _) if is_null(&right) => Ok(Planned::Done(left)),
            (_, Side::Typed(ColumnType::Array { .. })) if is_null(&left) => Ok(Planned::Done(right)),
            (Side::Typed(list @ ColumnType::Array { .. }), Side::Unknown) => {
                let right = Self::array_part(&right, list)?;
                Ok(Planned::Left(left, right))
            }
            (Side::Unknown, Side::Typed(list @ ColumnType::Array { .. })) => {
                let left = Self::array_part(&left, list)?;
                Ok(Planned::Left(left, right))
            }
            // An array of one dimension less is an element.
            (Side::Typed(a @ ColumnType::Array { .. }), Side::Typed(b @ ColumnType::Array { .. }))
                if depth(a).abs_diff(depth(b)) == 1 =>
            {
                let (wide_a, wide_b) = wider_arrays(a, b);
                let (left, right) = (cast_to(left, wide_a), cast_to(right, wide_b));
                Ok(Planned::Done(if depth(a) > depth(b) {
                    array_append(left, right)
                } else {
                    array_prepend(left, right)
                }))
            }
            (Side::Typed(a @ ColumnType::Array { .. }), Side::Typed(b @ ColumnType::Array { .. })) => {
                let (left, right, a, b) = match wider_array(a, b) {
                    Some(wide) => (cast_to(left, wide), cast_to(right, wide), wide, wide),
                    None => (left, right, a, b),
                };
                let right = if a == b { right } else { cast_to(right, a) };
                Ok(if a == b || a.arrow() == b.arrow() {
                    Planned::Left(left, right)
                } else {
                    Planned::Done(array_concat(vec![left, right]))
                })
            }
            (Side::Typed(list @ ColumnType::Array { .. }), Side::Typed(other)) => {
                let wide = other.array().and_then(|other| wider_array(list, other)).unwrap_or(list);
                let item = wide.item().unwrap_or(ColumnType::Text);
                Ok(Planned::Left(cast_to(left, wide), cast_to(right, item)))
            }
            (Side::Typed(other), Side::Typed(list @ ColumnType::Array { .. })) => {
                let wide = other.array().and_then(|other| wider_array(list, other)).unwrap_or(list);
                let item = wide.item().unwrap_or(ColumnType::Text);
                Ok(Planned::Left(cast_to(left, item), cast_to(right, wide)))
            }
            (Side::Typed(a), Side::Typed(b)) if ![a, b].iter().any(|ty| ty.arrow() == DataType::Utf8View) => {
                plan_err!("there is no operator {a} || {b}: cast one of them to TEXT")
            }
            (l, r) => {
                let is_text = |side: Side| side.ty().is_none_or(|ty| ty.arrow() == DataType::Utf8View);
                let as_text = |expr: Expr, side| {
                    if is_text(side) {
                        expr
                    } else {
                        cast_to(expr, ColumnType::Text)
                    }
                };
                Ok(Planned::Left(as_text(left, l), as_text(right, r)))
            }
        }
    }

    /// A literal next to an array: an array in braces, or one element.
    fn array_part(expr: &Expr, list: ColumnType) -> Result<Expr> {
        let text = unknown_text(expr).unwrap_or_default();
        match list.item() {
            Some(item) if !text.trim_start().starts_with('{') => typed(text, item),
            _ => typed(text, list),
        }
    }

    fn of_arrays(&self, op: &Op, left: Expr, right: Expr) -> Result<Planned> {
        let (left, right) = match self.sides {
            (Side::Typed(a @ ColumnType::Array { .. }), Side::Typed(b @ ColumnType::Array { .. })) if a != b => {
                (left, cast_to(right, a))
            }
            (Side::Typed(list @ ColumnType::Array { .. }), Side::Unknown) => {
                let right = typed(unknown_text(&right).unwrap_or_default(), list)?;
                (left, right)
            }
            (Side::Unknown, Side::Typed(list @ ColumnType::Array { .. })) => {
                let left = typed(unknown_text(&left).unwrap_or_default(), list)?;
                (left, right)
            }
            _ => (left, right),
        };
        let is_array = |side: Side| matches!(side, Side::Typed(ColumnType::Array { .. }));
        if !is_array(self.sides.0) && !is_array(self.sides.1) {
            return Ok(Planned::Left(left, right));
        }
        Ok(Planned::Done(match op {
            Op::AtArrow if has_no_nulls(&right) => array_has_all(left, right),
            Op::AtArrow => call(&array::CONTAINS, vec![left, right]),
            Op::ArrowAt if has_no_nulls(&left) => array_has_all(right, left),
            Op::ArrowAt => call(&array::CONTAINS, vec![right, left]),
            _ if has_no_nulls(&left) || has_no_nulls(&right) => array_has_any(left, right),
            _ => call(&array::OVERLAPS, vec![left, right]),
        }))
    }

    fn comparison(&self, op: &Op, left: Expr, right: Expr) -> Result<Planned> {
        let (left, right, ty) = match self.sides {
            (Side::Typed(ty @ ColumnType::Enum(_)), _) | (_, Side::Typed(ty @ ColumnType::Enum(_))) => {
                return self.same(op, left, right, ty);
            }
            (Side::Typed(ty), Side::Unknown) if !is_plain_text(ty) => {
                let right = typed(unknown_text(&right).unwrap_or_default(), ty)?;
                (left, right, ty)
            }
            (Side::Unknown, Side::Typed(ty)) if !is_plain_text(ty) => {
                let left = typed(unknown_text(&left).unwrap_or_default(), ty)?;
                (left, right, ty)
            }
            (Side::Typed(a), Side::Typed(b)) => return self.comparison_of(op, left, right, a, b),
            (Side::Typed(ty), Side::Other) | (Side::Other, Side::Typed(ty)) => (left, right, ty),
            _ => return Ok(Planned::Left(left, right)),
        };
        self.same(op, left, right, ty)
    }

    fn comparison_of(&self, op: &Op, left: Expr, right: Expr, a: ColumnType, b: ColumnType) -> Result<Planned> {
        match (a, b) {
            (a, b) if a == b => self.same(op, left, right, a),
            (a, b) if is_integer(a) && is_integer(b) => {
                Ok(Planned::Left(narrow_beside(left, b), narrow_beside(right, a)))
            }
            (a, ColumnType::Decimal { .. }) if is_float(a) => {
                Ok(Planned::Left(left, cast_to(right, ColumnType::Float64)))
            }
            (ColumnType::Decimal { .. }, b) if is_float(b) => {
                Ok(Planned::Left(cast_to(left, ColumnType::Float64), right))
            }
            (ColumnType::Uuid, b) if is_plain_text(b) => Ok(Planned::Left(left, casts::read(right, a, self.schema))),
            (a, ColumnType::Uuid) if is_plain_text(a) => Ok(Planned::Left(casts::read(left, b, self.schema), right)),
            (ColumnType::Date, ColumnType::Timestamp) => Ok(date_compared(op, left, right, false)),
            (ColumnType::Timestamp, ColumnType::Date) => Ok(date_compared(op, right, left, true)),
            (ColumnType::Array { .. }, ColumnType::Array { .. }) => Ok(Planned::Left(left, cast_to(right, a))),
            (a, b) if is_json(a) || is_json(b) => self.same(op, left, right, if is_json(a) { a } else { b }),
            _ => Ok(Planned::Left(left, right)),
        }
    }

    /// A comparison of two values of one type.
    fn same(&self, op: &Op, left: Expr, right: Expr, ty: ColumnType) -> Result<Planned> {
        match ty {
            ColumnType::Json => {
                plan_err!("JSON has no `{op}`, since it is kept as it was written: cast both sides to JSONB")
            }
            ColumnType::Jsonb => {
                let order = call(&json::COMPARE, vec![left, right]);
                Ok(Planned::Done(binary(order, op, lit(0_i32))))
            }
            ColumnType::Interval => {
                let span = |expr| call(&time::SPAN, vec![expr]);
                Ok(Planned::Done(binary(span(left), op, span(right))))
            }
            ColumnType::Enum(_) => Ok(self.of_labels(op, left, right, ty)),
            _ => Ok(Planned::Left(left, right)),
        }
    }

    /// A comparison of labels: by their texts where only equality counts, else by their ranks.
    fn of_labels(&self, op: &Op, left: Expr, right: Expr, ty: ColumnType) -> Planned {
        let labels = enums::labels_of_expr(&left, self.schema).or_else(|| enums::labels_of_expr(&right, self.schema));
        let Some(labels) = labels else {
            return Planned::Left(left, right);
        };
        let checked = |expr: Expr| match enums::labels_of_expr(&expr, self.schema) {
            Some(_) => expr,
            None => casts::read_label(expr, ty, Arc::clone(&labels)),
        };
        let (left, right) = (checked(left), checked(right));
        match op {
            Op::Eq | Op::NotEq => Planned::Left(left, right),
            _ => {
                let rank = |expr| enums::rank(expr, Arc::clone(&labels));
                Planned::Done(binary(rank(left), op, rank(right)))
            }
        }
    }

    fn arithmetic(&self, op: &Op, left: Expr, right: Expr) -> Result<Planned> {
        match self.sides {
            (Side::Typed(ty), Side::Unknown) => {
                let text = unknown_text(&right).unwrap_or_default();
                let right = typed(text, counterpart(op, ty, true))?;
                let sides = (self.sides.0, Side::of(&right, self.schema));
                Choice { sides, ..*self }.arithmetic(op, left, right)
            }
            (Side::Unknown, Side::Typed(ty)) => {
                let text = unknown_text(&left).unwrap_or_default();
                let left = typed(text, counterpart(op, ty, false))?;
                let sides = (Side::of(&left, self.schema), self.sides.1);
                Choice { sides, ..*self }.arithmetic(op, left, right)
            }
            (Side::Typed(a), Side::Typed(b)) => match number::planned(op, &left, &right, a, b) {
                Some(expr) => Ok(Planned::Done(expr)),
                None => of_types(op, left, right, a, b),
            },
            _ => Ok(Planned::Left(left, right)),
        }
    }
}

/// The type of an array's elements where their texts do not tell it.
fn kept_as_text(list: ColumnType) -> Option<ColumnType> {
    let is_one = |item: &ColumnType| matches!(item, ColumnType::Uuid | ColumnType::Json | ColumnType::Jsonb);
    list.item().filter(is_one)
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Null, _))
}

/// Whether an array is written out without a NULL: to DataFusion, NULLs are equal here.
fn has_no_nulls(list: &Expr) -> bool {
    let is_value = |item: &Expr| matches!(item, Expr::Literal(value, _) if !value.is_null());
    match list {
        Expr::ScalarFunction(function) => function.name() == "make_array" && function.args.iter().all(is_value),
        Expr::Literal(ScalarValue::List(list), _) => list.values().null_count() == 0,
        Expr::Cast(cast) => has_no_nulls(&cast.expr),
        _ => false,
    }
}

/// The type that a literal takes next to a value in arithmetic.
fn counterpart(op: &Op, ty: ColumnType, is_right: bool) -> ColumnType {
    match (op, ty) {
        (Op::Plus, ColumnType::Timestamp | ColumnType::TimestampTz | ColumnType::Time | ColumnType::Date) => {
            ColumnType::Interval
        }
        (Op::Multiply | Op::Divide, ColumnType::Interval) => ColumnType::Float64,
        (Op::Minus, ColumnType::Interval) if !is_right => ColumnType::Interval,
        _ => ty,
    }
}

/// Arithmetic of two types that DataFusion has not, or has otherwise.
fn of_types(op: &Op, left: Expr, right: Expr, a: ColumnType, b: ColumnType) -> Result<Planned> {
    use ColumnType as T;
    let done = |spec, args| Ok(Planned::Done(call(spec, args)));
    match (op, a, b) {
        // REAL is computed with REAL alone.
        (_, T::Float32, b) if is_integer(b) => Ok(Planned::Left(cast_to(left, T::Float64), right)),
        (_, a, T::Float32) if is_integer(a) => Ok(Planned::Left(left, cast_to(right, T::Float64))),
        (_, a, b) if is_integer(a) && is_integer(b) => {
            let (l, r) = (small_integer(&left), small_integer(&right));
            Ok(match (l, r) {
                (Some(_), Some(_)) => Planned::Left(narrowed(left), narrowed(right)),
                (Some(_), None) if b != T::Int64 => Planned::Left(narrowed(left), right),
                (None, Some(_)) if a != T::Int64 => Planned::Left(left, narrowed(right)),
                _ => Planned::Left(left, right),
            })
        }
        (Op::Minus, T::Date, T::Date) => done(&time::DATE_MINUS, vec![left, right]),
        (Op::Plus, T::Date, b) if is_integer(b) => done(&time::DATE_PLUS, vec![left, right]),
        (Op::Plus, a, T::Date) if is_integer(a) => done(&time::DATE_PLUS, vec![right, left]),
        (Op::Minus, T::Date, b) if is_integer(b) => done(&time::DATE_LESS, vec![left, right]),
        (Op::Plus | Op::Minus, T::Date, T::Interval) => Ok(date_moved(op, left, right)),
        (Op::Plus, T::Interval, T::Date) => Ok(date_moved(op, right, left)),
        (Op::Plus, T::Date, T::Time) => done(&time::DATE_AT, vec![left, right]),
        (Op::Plus, T::Time, T::Date) => done(&time::DATE_AT, vec![right, left]),
        (Op::Plus, T::Time, T::Interval) => done(&time::TIME_PLUS, vec![left, right]),
        (Op::Plus, T::Interval, T::Time) => done(&time::TIME_PLUS, vec![right, left]),
        (Op::Minus, T::Time, T::Interval) => done(&time::TIME_LESS, vec![left, right]),
        (Op::Minus, T::Time, T::Time) => done(&time::TIME_MINUS, vec![left, right]),
        (Op::Plus, T::Interval, T::Timestamp | T::TimestampTz) => Ok(Planned::Left(right, left)),
        (Op::Minus, T::Timestamp | T::TimestampTz | T::Date, T::Timestamp | T::TimestampTz | T::Date) => {
            let moment = if a == T::TimestampTz || b == T::TimestampTz {
                T::TimestampTz
            } else {
                T::Timestamp
            };
            done(
                &time::TIMESTAMP_MINUS,
                vec![cast_to(left, moment), cast_to(right, moment)],
            )
        }
        (Op::Multiply, T::Interval, _) => done(&time::INTERVAL_TIMES, vec![left, right]),
        (Op::Multiply, _, T::Interval) => done(&time::INTERVAL_TIMES, vec![right, left]),
        (Op::Divide, T::Interval, _) => done(&time::INTERVAL_DIVIDED, vec![left, right]),
        _ => Ok(Planned::Left(left, right)),
    }
}

/// A literal integer next to a narrower integer becomes INTEGER.
fn narrow_beside(expr: Expr, other: ColumnType) -> Expr {
    match other {
        ColumnType::Int16 | ColumnType::Int32 => narrowed(expr),
        _ => expr,
    }
}

fn is_plain_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Varchar(_))
}

fn texts() -> ColumnType {
    ColumnType::Text.array().unwrap_or(ColumnType::Text)
}

/// A date moved by an interval is a timestamp. Of constants it is one here already, so that a column of dates can be
/// compared with a date in turn.
fn date_moved(op: &Op, date: Expr, by: Expr) -> Planned {
    let span = match &by {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), _) => Some(*span),
        _ => None,
    };
    if let (Some(days), Some(span)) = (constant_date(&date), span)
        && let Some(micros) = time::moved(
            i64::from(days) * crate::value::moment::MICROS_PER_DAY,
            span,
            matches!(op, Op::Minus),
        )
    {
        return Planned::Done(Expr::Literal(
            ScalarValue::TimestampMicrosecond(Some(micros), None),
            None,
        ));
    }
    Planned::Left(cast_to(date, ColumnType::Timestamp), by)
}

/// A date compared with a timestamp. A constant timestamp becomes the date that the comparison comes down to.
fn date_compared(op: &Op, date: Expr, moment: Expr, is_swapped: bool) -> Planned {
    use crate::value::moment::MICROS_PER_DAY;
    let op = match (op, is_swapped) {
        (Op::Lt, true) => Op::Gt,
        (Op::LtEq, true) => Op::GtEq,
        (Op::Gt, true) => Op::Lt,
        (Op::GtEq, true) => Op::LtEq,
        (op, _) => op.clone(),
    };
    let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) = &moment else {
        return Planned::Done(binary(cast_to(date, ColumnType::Timestamp), &op, moment));
    };
    let (days, rest) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    let op = match (&op, rest) {
        // Inside a day, a date is before it or after it, never at it.
        (Op::Lt | Op::LtEq, 1..) => Op::LtEq,
        (Op::Gt | Op::GtEq, 1..) => Op::Gt,
        (Op::Eq | Op::NotEq, 1..) => return Planned::Done(binary(cast_to(date, ColumnType::Timestamp), &op, moment)),
        _ => op,
    };
    match i32::try_from(days) {
        Ok(days) => Planned::Done(binary(date, &op, Expr::Literal(ScalarValue::Date32(Some(days)), None))),
        Err(_) => Planned::Done(binary(cast_to(date, ColumnType::Timestamp), &op, moment)),
    }
}
