//! The client against stub nodes: the shared conversations of `vectors/`, and streamed answers.

mod streams;
mod stub;
mod vectors;
