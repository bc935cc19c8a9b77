//! SQL types: what a column may be declared as, and what a query's answer is stored as.
//!
//! One mapping serves both CREATE TABLE and CAST, so `CAST(x AS t)` gives exactly what a column of type `t` holds.
//! `FLOAT` is double precision and `TIMESTAMP` counts microseconds, as in PostgreSQL. `CHAR(n)` is `VARCHAR(n)`:
//! a length limit, never padding. A NUMERIC that names no precision has 38 digits, 10 of them behind the point; a value
//! that needs more is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use candor_storage::{ARRAY_DEPTH_MAX, Catalog, ColumnType};
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};

use crate::env::Env;
use crate::error::EngineError;
use crate::pg::enums;
use crate::prepare::folded_parts;

/// The most digits a NUMERIC has.
const PRECISION_MAX: u64 = 38;

/// Precision and scale of a NUMERIC that names none.
const NUMERIC_DEFAULT: (u8, i8) = (38, 10);

/// The type of a column declared as `sql`, which may name an enumerated type.
pub(crate) fn of_column(env: &Env, sql: &ast::DataType) -> Result<ColumnType, EngineError> {
    let database = env.names.database();
    resolved(sql, &|name| named(env.names.definitions(), database, name))
}

/// The enumerated type of this name, which may have a database before it.
fn named(catalog: &Catalog, selected: Option<&str>, name: &ast::ObjectName) -> Option<ColumnType> {
    let parts = folded_parts(name)?;
    let (database, name) = match parts.as_slice() {
        [name] => (selected?, name),
        [.., database, name] => (database.as_str(), name),
        [] => return None,
    };
    catalog.type_named(database, name).map(|def| ColumnType::Enum(def.id))
}

/// The type of a column declared as `sql`, where no enumerated types are known.
pub(crate) fn from_sql(sql: &ast::DataType) -> Result<ColumnType, EngineError> {
    resolved(sql, &|_| None)
}

fn resolved(
    sql: &ast::DataType,
    own: &dyn Fn(&ast::ObjectName) -> Option<ColumnType>,
) -> Result<ColumnType, EngineError> {
    use ast::DataType as Sql;
    Ok(match sql {
        Sql::Uuid => ColumnType::Uuid,
        Sql::JSON => ColumnType::Json,
        Sql::JSONB => ColumnType::Jsonb,
        Sql::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::AngleBracket(inner)) => {
            let inner = resolved(inner, own)?;
            inner
                .array()
                .ok_or_else(|| EngineError::plan(format!("an array has at most {ARRAY_DEPTH_MAX} dimensions")))?
        }
        Sql::Custom(name, modifiers) if modifiers.is_empty() && is_word(name, "bpchar") => ColumnType::Text,
        Sql::Custom(name, modifiers) if modifiers.is_empty() && is_word(name, "name") => ColumnType::Text,
        Sql::Custom(name, modifiers) if modifiers.is_empty() && own(name).is_some() => {
            own(name).unwrap_or(ColumnType::Text)
        }
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

fn is_word(name: &ast::ObjectName, word: &str) -> bool {
    matches!(folded_parts(name).as_deref(), Some([only]) if only == word)
}

fn instead(sql: &ast::DataType) -> &'static str {
    let name = sql.to_string().to_uppercase();
    if name.starts_with("TIME ") {
        "TIME has no zone here, because an offset without a day is no zone: TIMESTAMPTZ is there"
    } else if name.contains("MONEY") {
        "NUMERIC(p, s) holds amounts"
    } else if name.contains("SERIAL") {
        "SERIAL stands in CREATE TABLE only"
    } else if name.contains("UNSIGNED") || name.contains("INT") {
        "SMALLINT, INTEGER and BIGINT are there"
    } else {
        "BOOLEAN, SMALLINT, INTEGER, BIGINT, REAL, DOUBLE PRECISION, NUMERIC(p, s), TEXT, VARCHAR(n), BYTEA, DATE, \
         TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, UUID, JSON, JSONB and arrays of them are there"
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

/// The column type that holds every value of an answer's column, for CREATE TABLE AS and open collections; `None` for a
/// column of bare NULLs.
pub(crate) fn from_answer(field: &Field) -> Result<Option<ColumnType>, EngineError> {
    let storable = match field.data_type() {
        DataType::Null => return Ok(None),
        // Counts and ranks are unsigned in DataFusion; values beyond BIGINT are refused one by one.
        DataType::UInt64 => Some(ColumnType::Int64),
        DataType::Duration(_) => Some(ColumnType::Interval),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale)
            if *scale < 0 =>
        {
            None
        }
        _ => ColumnType::from_field(field),
    };
    match storable {
        Some(ty) => Ok(Some(ty)),
        None => Err(EngineError::unsupported_try(
            format!("storing a value of type {}", field.data_type()),
            "select its parts, or cast it to TEXT",
        )),
    }
}

/// Gives DataFusion our meaning of type names in CAST and typed literals.
#[derive(Debug)]
pub(crate) struct ColumnTypePlanner;

impl TypePlanner for ColumnTypePlanner {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion::common::Result<Option<FieldRef>> {
        // Types that columns cannot have (small and unsigned integers) keep DataFusion's meaning in queries.
        let Ok(column) = from_sql(sql_type) else {
            return Ok(None);
        };
        // INTERVAL literals and casts are DataFusion's own business, and the same type.
        Ok(Some(Arc::new(column.field("", true))))
    }
}

/// The same where the catalog has enumerated types.
#[derive(Debug)]
pub(crate) struct OwnTypePlanner {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) database: Option<String>,
}

impl TypePlanner for OwnTypePlanner {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion::common::Result<Option<FieldRef>> {
        let own = |name: &ast::ObjectName| named(&self.catalog, self.database.as_deref(), name);
        let Ok(column) = resolved(sql_type, &own) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(enums::labelled(column.field("", true), &self.catalog))))
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
            ("uuid", ColumnType::Uuid),
            ("jsonb", ColumnType::Jsonb),
            (
                "int[][]",
                ColumnType::Array {
                    element: candor_storage::ElementType::Int32,
                    depth: 2,
                },
            ),
        ] {
            assert_eq!(parse(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn other_types_are_refused_by_name() {
        for text in [
            "serial",
            "money",
            "inet",
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
