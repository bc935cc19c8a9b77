//! The Rust client: one call follows redirects by the algorithm every Candor driver shares
