//! Tests of the parser as its callers see it.

mod describe;
mod docs;
mod golden;
mod properties;
mod requirements;
