#![doc = include_str!("../README.md")]

mod arithmetic;
mod catalog;
mod context;
mod convert;
mod copy;
mod define;
mod engine;
mod env;
mod error;
mod functions;
mod keys;
mod open;
mod parse;
mod pending;
mod point;
mod prepare;
mod rules;
mod scan;
mod session;
mod shown;
mod spans;
mod sum;
mod text;
mod types;
mod write;

pub use context::{Param, StatementContext};
pub use copy::{Copied, CopyInput, CopyOutput, CopyProgress, Progress, RowSink};
pub use engine::{Engine, EngineConfig, RowStream};
pub use error::EngineError;
pub use pending::PendingWrites;
pub use spans::ScriptText;
pub use write::Evaluated;
