//! SQL types: what a column may be declared as, and what a query's answer is stored as.
//!
//! One mapping serves both CREATE TABLE and CAST, so `CAST(x AS t)` gives exactly what a column of type `t` holds.
//! `FLOAT` is double precision and `TIMESTAMP` counts microseconds, as in PostgreSQL. `CHAR(n)` is `VARCHAR(n)`:
//! a length limit, never padding.

use arrow::datatypes::{DataType, Field, FieldRef};
use candor_storage::ColumnType;
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};

use crate::error::EngineError;

/// The most digits a NUMERIC has.
const PRECISION_MAX: u64 = 38;

/// Precision and scale of a NUMERIC that names none.
const NUMERIC_DEFAULT: (u8, i8) = (38, 10);

/// The type of a column declared as `sql`.
pub(crate) fn from_sql(sql: &ast::DataType) -> Result<ColumnType, EngineError> {
    use ast::DataType as Sql;
    Ok(match sql {
        Sql::Bool | Sql::Boolean => ColumnType::Bool,
        Sql::SmallInt(None) | Sql::Int2(None) | Sql::Int16 => ColumnType::Int16,
        Sql::Int(None) | Sql::Integer(None) | Sql::Int4(None) | Sql::Int32 => ColumnType::Int32,
        Sql::BigInt(None) | Sql::Int8(None) | Sql::Int64 => ColumnType::Int64,
        Sql::Real | Sql::Float4 | Sql::Float32 => ColumnType::Float32,
        Sql::Float(ExactNumberInfo::Precision(bits)) if (1..=24).contains(bits) => ColumnType::Float32,
        Sql::Float(ExactNumberInfo::Precision(bits)) if (25..=53).contains(bits) => ColumnType::Float64,
        Sql::Float(ExactNumberInfo::None)
        | Sql::Double(ExactNumberInfo::None)
        | Sql::DoublePrecision
        | Sql::Float8
        | Sql::Float64 => ColumnType::Float64,
        Sql::Numeric(info) | Sql::Decimal(info) | Sql::Dec(info) => decimal(*info)?,
        Sql::Text | Sql::String(None) => ColumnType::Text,
        Sql::Varchar(length) | Sql::CharacterVarying(length) | Sql::CharVarying(length) => match length {
            None => ColumnType::Text,
            Some(length) => varchar(*length)?,
        },
        // CHAR without a length is CHAR(1) in SQL.
        Sql::Char(length) | Sql::Character(length) => match length {
            None => ColumnType::Varchar(1),
            Some(length) => varchar(*length)?,
        },
        Sql::Bytea => ColumnType::Bytes,
        Sql::Date => ColumnType::Date,
        Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Time,
        Sql::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Timestamp,
        Sql::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => ColumnType::TimestampTz,
        Sql::Interval { fields: None, .. } => ColumnType::Interval,
        other => {
            return Err(EngineError::unsupported_try(
                format!("the column type {other}"),
                instead(other),
            ));
        }
    })
}

fn instead(sql: &ast::DataType) -> &'static str {
    let name = sql.to_string().to_uppercase();
    if name.contains("SERIAL") {
        "write BIGINT and give the key in the INSERT"
    } else if name.contains("UNSIGNED") || name.contains("INT") {
        "SMALLINT, INTEGER and BIGINT are there"
    } else {
        "BOOLEAN, SMALLINT, INTEGER, BIGINT, REAL, DOUBLE PRECISION, NUMERIC(p, s), TEXT, VARCHAR(n), BYTEA, DATE, \
         TIME, TIMESTAMP, TIMESTAMPTZ and INTERVAL are there"
    }
}

fn decimal(info: ExactNumberInfo) -> Result<ColumnType, EngineError> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => {
            return Ok(ColumnType::Decimal {
                precision: NUMERIC_DEFAULT.0,
                scale: NUMERIC_DEFAULT.1,
            });
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=PRECISION_MAX).contains(&precision) {
        return Err(EngineError::plan(format!(
            "NUMERIC has 1 to {PRECISION_MAX} digits, not {precision}"
        )));
    }
    match i8::try_from(scale) {
        Ok(scale) if scale >= 0 && scale as u64 <= precision => Ok(ColumnType::Decimal {
            precision: precision as u8,
            scale,
        }),
        _ => Err(EngineError::plan(format!(
            "NUMERIC({precision}, {scale}): the digits after the point are between 0 and the number of digits"
        ))),
    }
}

fn varchar(length: CharacterLength) -> Result<ColumnType, EngineError> {
    match length {
        CharacterLength::Max => Ok(ColumnType::Text),
        CharacterLength::IntegerLength { length, .. } => match u32::try_from(length) {
            Ok(length) if length > 0 => Ok(ColumnType::Varchar(length)),
            _ => Err(EngineError::plan(format!(
                "a text length lies between 1 and {}, not at {length}",
                u32::MAX
            ))),
        },
    }
}

/// The column type that holds every value of an answer's type, for CREATE TABLE AS and open collections; `None` for a
/// column of bare NULLs.
pub(crate) fn from_answer(arrow: &DataType) -> Result<Option<ColumnType>, EngineError> {
    Ok(Some(match arrow {
        DataType::Null => return Ok(None),
        DataType::Boolean => ColumnType::Bool,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => ColumnType::Int16,
        DataType::UInt16 | DataType::Int32 => ColumnType::Int32,
        // Counts and ranks are unsigned in DataFusion; values beyond BIGINT are refused one by one.
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => ColumnType::Int64,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            ColumnType::Decimal {
                precision: *precision,
                scale: *scale,
            }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ColumnType::Bytes
        }
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        DataType::Timestamp(_, Some(_)) => ColumnType::TimestampTz,
        DataType::Interval(_) | DataType::Duration(_) => ColumnType::Interval,
        DataType::Dictionary(_, value) => return from_answer(value),
        other => {
            return Err(EngineError::unsupported_try(
                format!("storing a value of type {other}"),
                "select its parts, or cast it to TEXT",
            ));
        }
    }))
}

/// Gives DataFusion our meaning of type names in CAST and typed literals.
#[derive(Debug)]
pub(crate) struct ColumnTypePlanner;

impl TypePlanner for ColumnTypePlanner {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion::common::Result<Option<FieldRef>> {
        // Types that columns cannot have (arrays, small and unsigned integers) keep DataFusion's meaning in queries.
        let Ok(column) = from_sql(sql_type) else {
            return Ok(None);
        };
        // INTERVAL literals and casts are DataFusion's own business, and the same type.
        Ok(Some(std::sync::Arc::new(Field::new("", column.arrow(), true))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn parse(text: &str) -> Result<ColumnType, EngineError> {
        let dialect = PostgreSqlDialect {};
        let sql = Parser::new(&dialect)
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_data_type())
            .expect("a type");
        from_sql(&sql)
    }

    #[test]
    fn names_mean_what_postgresql_means() {
        for (text, expected) in [
            ("int", ColumnType::Int32),
            ("int8", ColumnType::Int64),
            ("float", ColumnType::Float64),
            ("float(24)", ColumnType::Float32),
            ("double precision", ColumnType::Float64),
            (
                "numeric(15,2)",
                ColumnType::Decimal {
                    precision: 15,
                    scale: 2,
                },
            ),
            ("numeric(5)", ColumnType::Decimal { precision: 5, scale: 0 }),
            ("character varying(10)", ColumnType::Varchar(10)),
            ("varchar", ColumnType::Text),
            ("char(3)", ColumnType::Varchar(3)),
            ("timestamp", ColumnType::Timestamp),
            ("timestamp with time zone", ColumnType::TimestampTz),
            ("bytea", ColumnType::Bytes),
            ("interval", ColumnType::Interval),
        ] {
            assert_eq!(parse(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn other_types_are_refused_by_name() {
        for text in [
            "serial",
            "uuid",
            "jsonb",
            "int[]",
            "numeric(39,2)",
            "numeric(3,4)",
            "tinyint",
            "time with time zone",
        ] {
            let error = parse(text).expect_err(text);
            assert!(!error.to_string().is_empty(), "{text}");
        }
    }
}
