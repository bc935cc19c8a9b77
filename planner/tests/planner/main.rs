//! Tests of the verdict and of the follow machine from outside: against a naive model, and as transcripts.

mod domain;
mod exhaustive;
mod follow_script;
mod model;
mod route_script;
mod staleness_rule;
mod transcript;
