#![doc = include_str!("../README.md")]

mod address;
mod admit;
mod arrive;
mod explain;
pub mod follow;
mod refusal;
mod requirement;
mod span;
mod standing;
mod view;

pub use admit::{Basis, Verdict, admit, recheck};
pub use arrive::arrive;
pub use explain::{RouteRow, explain};
pub use refusal::{Clause, Refusal};
pub use requirement::{Access, Fallback, Requirement};
pub use span::span;
pub use view::{Heard, OwnCopy, OwnView, PeerView, View};
