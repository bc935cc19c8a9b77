#![doc = include_str!("../README.md")]

mod alter;
mod copy;
mod create;
mod cursor;
mod define;
mod dialect;
mod error;
mod explain;
mod lex;
mod merge;
mod refuse;
mod script;
mod sequences;
mod session;
pub mod span;
mod sql;
mod statement;
mod tails;
mod trim;
mod types;

pub use error::ParseError;
pub use lex::{NESTING_MAX, OPERATORS_MAX, QUERIES_MAX, SCRIPT_BYTES_MAX};
pub use merge::{does_nothing, inserts_defaults};
pub use script::parse_script;
pub use sqlparser::ast;
pub use statement::{
    AnsweredBy, AtLeast, Body, Clause, Copy, CopyDirection, CopyFormat, CopyOptions, CopySource, CopyTarget, Define,
    DefineCollection, DefineReplica, DefineWhat, InfoFor, NumberValue, Param, QualifiedName, Remove, RemoveKind,
    ResolvedTails, Script, Setting, SpanValue, Statement, Tail, Tails,
};
