//! Values of the types that Arrow has no word for, as text: reading what PostgreSQL reads, writing what it writes.

pub(crate) mod array;
pub(crate) mod float;
pub(crate) mod interval;
pub(crate) mod json;
pub(crate) mod moment;
pub(crate) mod uuid;
pub(crate) mod zone;
