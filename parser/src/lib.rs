//! SQL text to statements with spans: tails, scripts and statements of the Candor dialect
