//! The types that elements of an array may have: every type but arrays themselves, which are lists of lists.

use serde::{Deserialize, Serialize};

use crate::schema::{ColumnType, TypeId};

/// The most lists an array has inside each other, as in PostgreSQL.
pub const ARRAY_DEPTH_MAX: u8 = 6;

/// The type of an array's elements. Each variant means what the one of [`ColumnType`] of its name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ElementType {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Decimal { precision: u8, scale: i8 },
    Text,
    Varchar(u32),
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Enum(TypeId),
}

impl From<ElementType> for ColumnType {
    fn from(element: ElementType) -> Self {
        match element {
            ElementType::Bool => Self::Bool,
            ElementType::Int16 => Self::Int16,
            ElementType::Int32 => Self::Int32,
            ElementType::Int64 => Self::Int64,
            ElementType::Float32 => Self::Float32,
            ElementType::Float64 => Self::Float64,
            ElementType::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ElementType::Text => Self::Text,
            ElementType::Varchar(of) => Self::Varchar(of),
            ElementType::Bytes => Self::Bytes,
            ElementType::Date => Self::Date,
            ElementType::Time => Self::Time,
            ElementType::Timestamp => Self::Timestamp,
            ElementType::TimestampTz => Self::TimestampTz,
            ElementType::Interval => Self::Interval,
            ElementType::Uuid => Self::Uuid,
            ElementType::Json => Self::Json,
            ElementType::Jsonb => Self::Jsonb,
            ElementType::Enum(of) => Self::Enum(of),
        }
    }
}

/// An array is no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the elements of an array are no arrays: it has more dimensions instead")]
pub struct NotAnElement;

impl TryFrom<ColumnType> for ElementType {
    type Error = NotAnElement;

    fn try_from(ty: ColumnType) -> Result<Self, NotAnElement> {
        Ok(match ty {
            ColumnType::Bool => Self::Bool,
            ColumnType::Int16 => Self::Int16,
            ColumnType::Int32 => Self::Int32,
            ColumnType::Int64 => Self::Int64,
            ColumnType::Float32 => Self::Float32,
            ColumnType::Float64 => Self::Float64,
            ColumnType::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ColumnType::Text => Self::Text,
            ColumnType::Varchar(of) => Self::Varchar(of),
            ColumnType::Bytes => Self::Bytes,
            ColumnType::Date => Self::Date,
            ColumnType::Time => Self::Time,
            ColumnType::Timestamp => Self::Timestamp,
            ColumnType::TimestampTz => Self::TimestampTz,
            ColumnType::Interval => Self::Interval,
            ColumnType::Uuid => Self::Uuid,
            ColumnType::Json => Self::Json,
            ColumnType::Jsonb => Self::Jsonb,
            ColumnType::Enum(of) => Self::Enum(of),
            ColumnType::Array { .. } => return Err(NotAnElement),
        })
    }
}
