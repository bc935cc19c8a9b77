//! Tests of the parser as its callers see it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read golden files, and bound time and stack"
)]

mod describe;
mod docs;
mod golden;
mod properties;
mod requirements;
