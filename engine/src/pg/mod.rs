//! What PostgreSQL has and DataFusion has not: its operators, its casts, and functions of its own types.
//!
//! Operators are chosen while a statement is planned ([`operators`]), when the types of both sides are known and a literal
//! without a type can still take the other side's. Casts are rewritten after DataFusion has settled all types
//! ([`casts`]), so that values are read and printed by one module whoever asked for it.

mod array;
mod bytes;
pub(crate) mod casts;
pub(crate) mod enums;
mod function;
mod interval;
mod json;
mod json_build;
mod literal;
mod number;
pub(crate) mod operators;
pub(crate) mod overload;
mod regex;
pub(crate) mod rewrite;
mod series;
mod strings;
mod time;
mod time_format;
mod wider;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use function::{pg_name, pg_type_name};

/// All scalar functions that can be called by name.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let specs = [
        strings::FUNCTIONS,
        number::FUNCTIONS,
        time::FUNCTIONS,
        json::FUNCTIONS,
        array::FUNCTIONS,
        bytes::FUNCTIONS,
        regex::FUNCTIONS,
    ];
    specs
        .into_iter()
        .flatten()
        .map(function::udf)
        .chain(json_build::functions())
        .chain([
            function::type_of(),
            function::random_uuid(),
            series::function(),
            array::flat(),
        ])
}
