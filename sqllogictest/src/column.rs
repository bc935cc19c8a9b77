//! The letters of `query` lines: what kind of value each column holds.

use sqllogictest::ColumnType;

/// One letter of a `query` line, as DataFusion's scripts use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Date,
    Integer,
    Timestamp,
    Real,
    Text,
    Other,
}

impl Kind {
    /// The kind of a column by the SQL name of its type.
    pub(crate) fn of(type_name: &str) -> Self {
        let upper = type_name.to_ascii_uppercase();
        let word = upper.split(['(', ' ']).next().unwrap_or_default();
        match word {
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "DATE" | "TIME" => Self::Date,
            "SMALLINT" | "INTEGER" | "INT" | "BIGINT" | "INT2" | "INT4" | "INT8" | "TINYINT" => Self::Integer,
            "TIMESTAMP" | "TIMESTAMPTZ" => Self::Timestamp,
            "REAL" | "DOUBLE" | "FLOAT" | "FLOAT4" | "FLOAT8" | "NUMERIC" | "DECIMAL" => Self::Real,
            "TEXT" | "VARCHAR" | "CHAR" | "CHARACTER" | "STRING" => Self::Text,
            _ => Self::Other,
        }
    }
}

impl ColumnType for Kind {
    fn from_char(letter: char) -> Option<Self> {
        Some(match letter {
            'B' => Self::Boolean,
            'D' => Self::Date,
            'I' => Self::Integer,
            'P' => Self::Timestamp,
            'R' => Self::Real,
            'T' => Self::Text,
            _ => Self::Other,
        })
    }

    fn to_char(&self) -> char {
        match self {
            Self::Boolean => 'B',
            Self::Date => 'D',
            Self::Integer => 'I',
            Self::Timestamp => 'P',
            Self::Real => 'R',
            Self::Text => 'T',
            Self::Other => '?',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_letters() {
        for (name, letter) in [
            ("BIGINT", 'I'),
            ("NUMERIC(10,2)", 'R'),
            ("DOUBLE PRECISION", 'R'),
            ("varchar(25)", 'T'),
            ("TIMESTAMP WITH TIME ZONE", 'P'),
            ("BYTEA", '?'),
        ] {
            assert_eq!(Kind::of(name).to_char(), letter, "{name}");
        }
    }
}
