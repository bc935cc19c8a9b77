//! Tests of the store as a whole; small rules are tested beside their code.

mod alter;
mod apply;
mod concurrent;
mod crash;
mod damage;
mod format;
mod kept;
mod kinds;
mod log;
mod model;
mod records;
mod runs;
mod segments;
mod support;
mod tables;
mod upkeep;
