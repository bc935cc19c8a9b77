#![doc = include_str!("../README.md")]

mod bulk;
mod config;
mod define;
mod failure;
mod http;
mod info;
mod metrics;
mod parsed;
mod progress;
mod relations;
mod route;
mod rows;
mod script;
mod sequences;
mod server;
mod session;
mod settings;
mod statement;
mod transaction;
mod turns;
mod write;

pub use config::ServerConfig;
pub use server::{Server, ServerError};
