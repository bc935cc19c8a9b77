//! The client's side of a redirect.
