#![doc = include_str!("../README.md")]

mod answer;
mod call;
mod client;
mod close;
mod config;
mod error;
mod exchange;
mod progress;
mod raw;
mod script;
mod session;
mod wire;

pub use answer::{Answer, Column, Hop, SessionInfo, StatementResult};
pub use client::Client;
pub use config::Config;
pub use error::ClientError;
pub use progress::CopyProgress;
pub use raw::{Format, RawAnswer, RowStream};
