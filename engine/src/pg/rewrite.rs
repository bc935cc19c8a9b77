//! Spellings of PostgreSQL that are other spellings of what DataFusion has, exchanged in the syntax tree.

use sqlparser::ast::{self, BinaryOperator};

use super::interval;
use crate::prepare::{folded, folded_parts, quoted};
use crate::tree::{self, call};
use crate::value::array::{self, Item};

/// Exchanges one expression, whose parts were exchanged before.
pub(crate) fn expression(expr: &mut ast::Expr) {
    let replacement = match expr {
        ast::Expr::Function(function) => of_function(function),
        ast::Expr::AtTimeZone { timestamp, time_zone } => Some(call(
            "timezone",
            vec![arg(time_zone.as_ref().clone()), arg(timestamp.as_ref().clone())],
        )),
        ast::Expr::Cast { expr, data_type, .. } => {
            if let Some(scale) = literal_scale(expr).filter(|_| is_bare_numeric(data_type)) {
                *data_type = ast::DataType::Numeric(ast::ExactNumberInfo::PrecisionAndScale(NUMERIC_DIGITS_MAX, scale));
            }
            None
        }
        // Texts are ordered by their bytes, which is what these collations say.
        ast::Expr::Collate { expr, collation } if is_by_bytes(collation) => Some(expr.as_ref().clone()),
        ast::Expr::Identifier(name)
            if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_catalog") =>
        {
            Some(call("current_database", Vec::new()))
        }
        // The sign binds closer than the power.
        ast::Expr::UnaryOp {
            op: op @ (ast::UnaryOperator::Minus | ast::UnaryOperator::Plus),
            expr: power,
        } if matches!(
            power.as_ref(),
            ast::Expr::BinaryOp {
                op: BinaryOperator::PGExp,
                ..
            }
        ) =>
        {
            Some(sign_of_base(*op, power.as_ref()))
        }
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            access_chain.iter_mut().for_each(bounds_of_slice);
            column_of_row(root, access_chain)
        }
        ast::Expr::Like { any, pattern, .. } | ast::Expr::ILike { any, pattern, .. }
            if quantified(*any, pattern).is_some() =>
        {
            like_each(expr)
        }
        ast::Expr::Like {
            pattern, escape_char, ..
        }
        | ast::Expr::ILike {
            pattern, escape_char, ..
        } => {
            escape(pattern, escape_char);
            None
        }
        ast::Expr::Interval(interval) => {
            interval::read(interval);
            None
        }
        ast::Expr::UnaryOp {
            op: op @ (ast::UnaryOperator::PGSquareRoot | ast::UnaryOperator::PGCubeRoot | ast::UnaryOperator::PGAbs),
            expr: value,
        } => {
            let name = match op {
                ast::UnaryOperator::PGSquareRoot => "sqrt",
                ast::UnaryOperator::PGCubeRoot => "cbrt",
                _ => "abs",
            };
            Some(call(name, vec![arg(value.as_ref().clone())]))
        }
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::BitwiseNot,
            expr: value,
        } => Some(ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
            left: Box::new(ast::Expr::Nested(value.clone())),
            op: BinaryOperator::PGBitwiseXor,
            right: Box::new(ast::Expr::Value(ast::Value::Number("-1".to_owned(), false).into())),
        }))),
        // DataFusion puts the sign in front of the text, where it is that of the first part alone.
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: inner,
        } if matches!(inner.as_ref(), ast::Expr::Interval(_)) => {
            Some(ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
                left: inner.clone(),
                op: BinaryOperator::Multiply,
                right: Box::new(ast::Expr::Value(ast::Value::Number("-1".to_owned(), false).into())),
            })))
        }
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) if !is_numeric(digits) => Some(as_double(digits)),
            ast::Value::Number(digits, long) => {
                written_out(digits).map(|plain| ast::Expr::Value(ast::Value::Number(plain, *long).into()))
            }
            _ => None,
        },
        ast::Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => of_list(left, compare_op, right, &BinaryOperator::Or).or_else(|| any_or_null(left, compare_op, right)),
        ast::Expr::AllOp {
            left,
            compare_op,
            right,
        } => of_list(left, compare_op, right, &BinaryOperator::And),
        _ => None,
    };
    if let Some(replacement) = replacement {
        *expr = replacement;
    }
}

fn is_by_bytes(collation: &ast::ObjectName) -> bool {
    let name = collation.0.last().and_then(ast::ObjectNamePart::as_ident);
    name.is_some_and(|name| ["C", "POSIX", "ucs_basic", "default"].contains(&name.value.as_str()))
}

fn sign_of_base(op: ast::UnaryOperator, power: &ast::Expr) -> ast::Expr {
    let mut power = power.clone();
    if let ast::Expr::BinaryOp {
        left,
        op: BinaryOperator::PGExp,
        ..
    } = &mut power
    {
        // Of a chain of powers, the first one.
        **left = match left.as_ref() {
            inner @ ast::Expr::BinaryOp {
                op: BinaryOperator::PGExp,
                ..
            } => sign_of_base(op, inner),
            base => ast::Expr::UnaryOp {
                op,
                expr: Box::new(base.clone()),
            },
        };
    }
    power
}

/// `a[:2]`, `a[2:]` and bounds below the first element: DataFusion wants both bounds, and counts negative ones from the end.
fn bounds_of_slice(access: &mut ast::AccessExpr) {
    let ast::AccessExpr::Subscript(ast::Subscript::Slice {
        lower_bound,
        upper_bound,
        ..
    }) = access
    else {
        return;
    };
    let number = |digits: &str| ast::Expr::Value(ast::Value::Number(digits.to_owned(), false).into());
    let is_negative = |bound: &ast::Expr| matches!(bound, ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } if matches!(expr.as_ref(), ast::Expr::Value(_)));
    if lower_bound.as_ref().is_none_or(is_negative) {
        *lower_bound = Some(number("1"));
    }
    match upper_bound {
        None => *upper_bound = Some(number(ELEMENTS_MAX)),
        Some(bound) if is_negative(bound) => *bound = number("0"),
        Some(_) => {}
    }
}

/// No array has more elements.
const ELEMENTS_MAX: &str = "2147483647";

/// A pattern with another escape character than the backslash, written with that one.
fn escape(pattern: &mut ast::Expr, escape_char: &mut Option<ast::ValueWithSpan>) {
    let backslash = ast::Value::SingleQuotedString("\\".to_owned());
    if let Some(escape) = escape_char.take_if(|escape| escape.value != backslash) {
        let args = [pattern.clone(), ast::Expr::Value(escape)];
        *pattern = call("like_escape", args.map(arg).to_vec());
    }
}

/// `(t).a` is a column of the table `t`.
fn column_of_row(root: &ast::Expr, access: &[ast::AccessExpr]) -> Option<ast::Expr> {
    let ast::Expr::Nested(row) = root else { return None };
    match (row.as_ref(), access) {
        (ast::Expr::Identifier(table), [ast::AccessExpr::Dot(ast::Expr::Identifier(column))]) => {
            Some(ast::Expr::CompoundIdentifier(vec![table.clone(), column.clone()]))
        }
        _ => None,
    }
}

/// The patterns of LIKE ANY and LIKE ALL that are written out, and whether all of them are asked for.
fn quantified(any: bool, pattern: &ast::Expr) -> Option<(bool, Vec<ast::Expr>)> {
    if any {
        return patterns(pattern).map(|patterns| (false, patterns.to_vec()));
    }
    let ast::Expr::Function(function) = pattern else {
        return None;
    };
    let all = match <[String; 1]>::try_from(folded_parts(&function.name)?).ok()?[0].as_str() {
        "all" => true,
        "any" | "some" => false,
        _ => return None,
    };
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(list))] => {
            patterns(list).map(|patterns| (all, patterns.to_vec()))
        }
        _ => None,
    }
}

fn patterns(pattern: &ast::Expr) -> Option<&[ast::Expr]> {
    match pattern {
        ast::Expr::Nested(inner) => patterns(inner),
        ast::Expr::Array(array) => Some(&array.elem),
        ast::Expr::Tuple(items) => Some(items),
        _ => None,
    }
}

/// `x LIKE ANY (ARRAY[a, b])` is `x LIKE a OR x LIKE b`.
fn like_each(expr: &ast::Expr) -> Option<ast::Expr> {
    let (ast::Expr::Like { any, pattern, .. } | ast::Expr::ILike { any, pattern, .. }) = expr else {
        return None;
    };
    let (all, patterns) = quantified(*any, pattern)?;
    let each = patterns.into_iter().map(|one| {
        let mut like = expr.clone();
        if let ast::Expr::Like {
            any,
            pattern,
            escape_char,
            ..
        }
        | ast::Expr::ILike {
            any,
            pattern,
            escape_char,
            ..
        } = &mut like
        {
            *any = false;
            **pattern = one;
            escape(pattern, escape_char);
        }
        like
    });
    let whole = each.reduce(|whole, next| ast::Expr::BinaryOp {
        left: Box::new(whole),
        op: if all { BinaryOperator::And } else { BinaryOperator::Or },
        right: Box::new(next),
    });
    let nothing = ast::Expr::Value(ast::Value::Boolean(all).into());
    Some(ast::Expr::Nested(Box::new(whole.unwrap_or(nothing))))
}

const fn is_bare_numeric(ty: &ast::DataType) -> bool {
    use ast::{DataType, ExactNumberInfo};
    matches!(
        ty,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

/// The digits behind the point of a number that is written out; a NUMERIC of it has as many.
fn literal_scale(expr: &ast::Expr) -> Option<i64> {
    let text = match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text) => text,
            _ => return None,
        },
        ast::Expr::Nested(inner)
        | ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus,
            expr: inner,
        } => return literal_scale(inner),
        _ => return None,
    };
    let text = text.trim();
    let digits = text.trim_start_matches(['-', '+']);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && digits.len() <= 37;
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    is_plain.then_some(decimals as i64)
}

/// Gives the rows of VALUES one type where a cell of a column is cast to one of the types that are kept as text: what the
/// other rows have there has that type too.
pub(crate) fn values(values: &mut ast::Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for at in 0..width {
        let cast_type = values.rows.iter().find_map(|row| match row.content.get(at) {
            Some(ast::Expr::Cast { data_type, .. }) if is_kept_as_text(data_type) => Some(data_type.clone()),
            _ => None,
        });
        let Some(data_type) = cast_type else { continue };
        for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if !matches!(cell, ast::Expr::Cast { data_type: own, .. } if *own == data_type) {
                *cell = ast::Expr::Cast {
                    kind: ast::CastKind::Cast,
                    expr: Box::new(cell.clone()),
                    data_type: data_type.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

fn is_kept_as_text(ty: &ast::DataType) -> bool {
    use ast::DataType;
    match ty {
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) => is_kept_as_text(inner),
        DataType::Uuid | DataType::JSON | DataType::JSONB | DataType::Custom(..) => true,
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::Char(length) => length.is_some(),
        _ => false,
    }
}

/// The most digits of a NUMERIC.
const NUMERIC_DIGITS_MAX: u64 = 38;

/// Whether a literal with an exponent fits NUMERIC; others are DataFusion's to judge.
fn is_numeric(digits: &str) -> bool {
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else {
        return true;
    };
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX);
    exponent.unsigned_abs().saturating_add(mantissa.len() as u64) <= NUMERIC_DIGITS_MAX
}

/// A number without its exponent, where that makes it larger: a NUMERIC of fewer than no decimals loses digits on its way to
/// a floating point number.
fn written_out(digits: &str) -> Option<String> {
    let (mantissa, exponent) = digits.split_once(['e', 'E'])?;
    let exponent: usize = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (up, down) = fraction.split_at(exponent.min(fraction.len()));
    let zeros = "0".repeat(exponent - up.len());
    Some(format!("{whole}{up}{zeros}.{down}"))
}

fn as_double(digits: &str) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(ast::Expr::Value(
            ast::Value::SingleQuotedString(digits.to_owned()).into(),
        )),
        data_type: ast::DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

/// Exchanges a function in FROM.
pub(crate) fn table(factor: &mut ast::TableFactor) {
    let (name, alias, args) = match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: Some(args),
            ..
        } => (name, alias, &args.args),
        ast::TableFactor::Function { name, alias, args, .. } => (name, alias, &*args),
        _ => return,
    };
    let Some([name]) = folded_parts(name).map(|parts| <[String; 1]>::try_from(parts).unwrap_or_default()) else {
        return;
    };
    let (items, columns) = if let Some([keys, values]) = pair_of_lists(&name) {
        let items = vec![rows_of(keys, args), rows_of(values, args)];
        (items, vec!["key".to_owned(), "value".to_owned()])
    } else if let Some(list) = list_function(&name) {
        // A table that is called otherwise gives its name to its only column.
        let column = match alias {
            Some(alias) => folded(&alias.name),
            None if name.contains("array_elements") => "value".to_owned(),
            None => name.clone(),
        };
        (vec![rows_of(list, args)], vec![column])
    } else {
        return;
    };
    let mut alias = alias.take().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: ast::Ident::new(&name),
        columns: Vec::new(),
        at: None,
    });
    let named = alias.columns.len();
    let rest = columns.iter().skip(named);
    alias.columns.extend(rest.map(|column| ast::TableAliasColumnDef {
        name: quoted(column),
        data_type: None,
    }));
    let items = items
        .into_iter()
        .zip(&columns)
        .map(|(expr, column)| ast::SelectItem::ExprWithAlias {
            expr,
            alias: quoted(column),
        });
    *factor = ast::TableFactor::Derived {
        lateral: true,
        subquery: Box::new(tree::query(items.collect(), Vec::new(), None)),
        alias: Some(alias),
        sample: None,
    };
}

/// The elements of a list as rows, of the type that they have.
fn rows_of(list: &str, args: &[ast::FunctionArg]) -> ast::Expr {
    let rows = call("unnest", vec![arg(call(list, args.to_vec()))]);
    let data_type = match list {
        "json_array_items" | "json_value_list" => ast::DataType::JSON,
        "jsonb_array_items" | "jsonb_value_list" => ast::DataType::JSONB,
        _ => return rows,
    };
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(rows),
        data_type,
        array: false,
        format: None,
    }
}

/// Whether a function gives rows that are made of a list.
pub(crate) fn gives_rows(name: &str) -> bool {
    list_function(name).is_some()
}

/// The functions that give as lists the two columns of the rows that `name` gives.
fn pair_of_lists(name: &str) -> Option<[&'static str; 2]> {
    Some(match name {
        "json_each" => ["json_key_list", "json_value_list"],
        "jsonb_each" => ["jsonb_key_list", "jsonb_value_list"],
        "json_each_text" => ["json_key_list", "json_value_texts"],
        "jsonb_each_text" => ["jsonb_key_list", "jsonb_value_texts"],
        _ => return None,
    })
}

/// The function that gives as a list what `name` gives as rows.
fn list_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "json_array_elements" => "json_array_items",
        "jsonb_array_elements" => "jsonb_array_items",
        "json_array_elements_text" | "jsonb_array_elements_text" => "json_array_texts",
        "json_object_keys" => "json_key_list",
        "jsonb_object_keys" => "jsonb_key_list",
        "string_to_table" => "string_to_array",
        "generate_subscripts" => "array_subscripts",
        "regexp_matches" => "regexp_match_list",
        "regexp_split_to_table" => "regexp_split_to_array",
        _ => return None,
    })
}

fn ident(name: &str) -> ast::ObjectName {
    ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new(name))])
}

fn arg(expr: ast::Expr) -> ast::FunctionArg {
    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
}

fn of_function(function: &ast::Function) -> Option<ast::Expr> {
    let [name] = <[String; 1]>::try_from(folded_parts(&function.name)?).ok()?;
    if let Some(list) = list_function(&name) {
        let ast::FunctionArguments::List(args) = &function.args else {
            return None;
        };
        return Some(rows_of(list, &args.args));
    }
    match (name.as_str(), arity(function)) {
        ("json_agg", 1) => Some(aggregated(function, "to_json", "json_of_items")),
        ("jsonb_agg", 1) => Some(aggregated(function, "to_jsonb", "jsonb_of_items")),
        ("json_object_agg", 2) => Some(aggregated(function, "json_member", "json_of_members")),
        ("jsonb_object_agg", 2) => Some(aggregated(function, "json_member", "jsonb_of_members")),
        ("age", 1) => {
            let ast::FunctionArguments::List(args) = &function.args else {
                return None;
            };
            let today = call("current_date", Vec::new());
            Some(call("age", [vec![arg(today)], args.args.clone()].concat()))
        }
        // The operator finds the type that holds both.
        ("array_append" | "array_prepend" | "array_cat", 2) => {
            let (left, right) = tree::two_arguments(function)?;
            let is_array = |expr: &ast::Expr| matches!(expr, ast::Expr::Array(_));
            let is_number = |expr: &ast::Expr| matches!(expr, ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)));
            let plain = [left, right].into_iter().all(|side| is_array(side) || is_number(side));
            plain.then(|| {
                ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
                    left: Box::new(left.clone()),
                    op: BinaryOperator::StringConcat,
                    right: Box::new(right.clone()),
                }))
            })
        }
        // All elements, and not the first one alone.
        ("array_remove", 2) => renamed(function, "array_remove_all"),
        ("array_replace", 3) => renamed(function, "array_replace_all"),
        // Elements of all dimensions.
        ("unnest", 1) => match &function.args {
            ast::FunctionArguments::List(list) if !is_flat(list.args.first()) => {
                Some(call("unnest", vec![arg(call("array_flat", list.args.clone()))]))
            }
            _ => None,
        },
        ("date_trunc", 2) if !has_plain_unit(function) => renamed(function, "date_trunc_any"),
        ("transaction_timestamp" | "statement_timestamp", 0) => Some(call("now", Vec::new())),
        _ => None,
    }
}

/// Whether the first argument is one of the units that DataFusion cuts off.
fn has_plain_unit(function: &ast::Function) -> bool {
    const PLAIN: [&str; 10] = [
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
    ];
    let ast::FunctionArguments::List(list) = &function.args else {
        return true;
    };
    match list.args.first() {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value)))) => match &value.value {
            ast::Value::SingleQuotedString(unit) => PLAIN.contains(&unit.to_ascii_lowercase().as_str()),
            _ => true,
        },
        _ => false,
    }
}

fn renamed(function: &ast::Function, name: &str) -> Option<ast::Expr> {
    match &function.args {
        ast::FunctionArguments::List(list) => Some(call(name, list.args.clone())),
        _ => None,
    }
}

fn is_flat(list: Option<&ast::FunctionArg>) -> bool {
    matches!(
        list,
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(function))))
            if folded_parts(&function.name).as_deref() == Some(&["array_flat".to_owned()])
    )
}

fn arity(function: &ast::Function) -> usize {
    match &function.args {
        ast::FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    }
}

/// `json_agg(x ORDER BY y)` is `json_of_items(array_agg(to_json(x) ORDER BY y))`.
fn aggregated(function: &ast::Function, each: &str, all: &str) -> ast::Expr {
    let mut inner = function.clone();
    inner.name = ident("array_agg");
    if let ast::FunctionArguments::List(list) = &mut inner.args {
        let values = std::mem::take(&mut list.args);
        list.args = vec![arg(call(each, values))];
    }
    call(all, vec![arg(ast::Expr::Function(inner))])
}

/// `x = ANY (list)` is NULL where no element is equal and one is NULL; DataFusion says it is false.
fn any_or_null(left: &ast::Expr, op: &BinaryOperator, list: &ast::Expr) -> Option<ast::Expr> {
    if matches!(list, ast::Expr::Subquery(_)) || is_list_of_values(list) {
        return None;
    }
    let any = ast::Expr::AnyOp {
        left: Box::new(left.clone()),
        compare_op: op.clone(),
        right: Box::new(list.clone()),
        is_some: false,
    };
    let truth = |value: bool| ast::Expr::Value(ast::Value::Boolean(value).into());
    let when = |condition: ast::Expr, result: bool| ast::CaseWhen {
        condition,
        result: truth(result),
    };
    let binary = |left: ast::Expr, op: BinaryOperator, right: ast::Expr| ast::Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let zero = ast::Expr::Value(ast::Value::Number("0".to_owned(), false).into());
    let is_empty = binary(call("cardinality", vec![arg(list.clone())]), BinaryOperator::Eq, zero);
    let holds_null = call("array_holds_null", vec![arg(list.clone())]);
    let without_null = binary(
        ast::Expr::IsNotNull(Box::new(ast::Expr::Nested(Box::new(left.clone())))),
        BinaryOperator::And,
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Not,
            expr: Box::new(holds_null),
        },
    );
    Some(ast::Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![when(any, true), when(is_empty, false), when(without_null, false)],
        else_result: None,
    })
}

/// An array that is written out, of values that are not NULL.
fn is_list_of_values(list: &ast::Expr) -> bool {
    match list {
        ast::Expr::Array(array) => array.elem.iter().all(|element| match element {
            ast::Expr::Value(value) => value.value != ast::Value::Null,
            _ => false,
        }),
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => is_list_of_values(inner),
        _ => false,
    }
}

/// `x = ANY ('{1,2}')` is `x = '1' OR x = '2'`: literals without a type, which take that of `x`.
fn of_list(left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, joined: &BinaryOperator) -> Option<ast::Expr> {
    let ast::Expr::Value(value) = right else {
        return None;
    };
    let ast::Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let items = array::parse(text).ok()?;
    let compared = items.into_iter().map(|item| {
        let value = match item {
            Item::Null => ast::Value::Null,
            Item::Text(text) => ast::Value::SingleQuotedString(text),
            Item::List(_) => return None,
        };
        Some(ast::Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: op.clone(),
            right: Box::new(ast::Expr::Value(value.into())),
        })
    });
    let mut compared = compared.collect::<Option<Vec<_>>>()?.into_iter();
    let is_all = *joined == BinaryOperator::And;
    let first = compared
        .next()
        .unwrap_or(ast::Expr::Value(ast::Value::Boolean(is_all).into()));
    let whole = compared.fold(first, |whole, next| ast::Expr::BinaryOp {
        left: Box::new(whole),
        op: joined.clone(),
        right: Box::new(next),
    });
    Some(ast::Expr::Nested(Box::new(whole)))
}
