//! `information_schema`: DataFusion's, with `columns` as PostgreSQL describes them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use async_trait::async_trait;
use candor_storage::ColumnType;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;

use crate::catalog::Names;
use crate::pg::{pg_name, pg_type_name};

const COLUMNS: &str = "columns";

/// The schema of one statement.
#[derive(Debug)]
pub(crate) struct InformationSchema {
    theirs: InformationSchemaProvider,
    names: Arc<Names>,
}

impl InformationSchema {
    pub(crate) fn new(catalogs: Arc<dyn CatalogProviderList>, names: Arc<Names>) -> Self {
        Self {
            theirs: InformationSchemaProvider::new(catalogs),
            names,
        }
    }

    async fn columns(&self) -> Result<RecordBatch> {
        let mut columns = Columns::default();
        for schema in self.names.schema_names() {
            for table in self.names.table_names(&schema) {
                self.add_table(&mut columns, &schema, &table).await?;
            }
        }
        columns.batch(self.names.namespace())
    }

    async fn add_table(&self, columns: &mut Columns, schema: &str, table: &str) -> Result<()> {
        if let Some(def) = self.names.definitions().collection(schema, table) {
            for (at, column) in def.columns.iter().enumerate() {
                columns.push(Column {
                    schema,
                    table,
                    name: &column.name,
                    default: column.default.clone(),
                    is_nullable: !def.requires_value(at),
                    ty: Some(column.ty),
                    type_name: self.names.definitions().sql_name(column.ty),
                });
            }
            return Ok(());
        }
        let Some(provider) = self.names.provider(schema, table).await? else {
            return Ok(());
        };
        columns.next = 0;
        for field in provider.schema().fields() {
            let ty = ColumnType::from_field(field);
            columns.push(Column {
                schema,
                table,
                name: field.name(),
                default: None,
                is_nullable: field.is_nullable(),
                ty,
                type_name: ty.map_or_else(|| pg_name(field), ColumnType::sql_name),
            });
        }
        Ok(())
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.theirs.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name != COLUMNS {
            return self.theirs.table(name).await;
        }
        let batch = self.columns().await?;
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.theirs.table_exist(name)
    }
}

struct Column<'a> {
    schema: &'a str,
    table: &'a str,
    name: &'a str,
    default: Option<String>,
    is_nullable: bool,
    ty: Option<ColumnType>,
    type_name: String,
}

#[derive(Default)]
struct Columns {
    /// Where the next column stands in its table, from 0.
    next: i32,
    last_table: Option<(String, String)>,
    texts: [Vec<Option<String>>; 9],
    numbers: [Vec<Option<i32>>; 6],
}

impl Columns {
    fn push(&mut self, column: Column<'_>) {
        let table = (column.schema.to_owned(), column.table.to_owned());
        if self.last_table.as_ref() != Some(&table) {
            self.next = 0;
        }
        self.next += 1;
        let data_type = match column.ty {
            Some(ColumnType::Array { .. }) => "ARRAY".to_owned(),
            Some(ColumnType::Enum(_)) => "USER-DEFINED".to_owned(),
            Some(ty) => pg_type_name(ty),
            None => column.type_name.clone(),
        };
        let texts = [
            Some(table.0.clone()),
            Some(table.1.clone()),
            Some(column.name.to_owned()),
            column.default,
            Some(if column.is_nullable { "YES" } else { "NO" }.to_owned()),
            Some(data_type),
            column.ty.map(udt_name),
            Some(column.type_name),
            Some("NEVER".to_owned()),
        ];
        for (values, text) in self.texts.iter_mut().zip(texts) {
            values.push(text);
        }
        for (values, number) in self.numbers.iter_mut().zip(sizes(self.next, column.ty)) {
            values.push(number);
        }
        self.last_table = Some(table);
    }

    fn batch(self, namespace: &str) -> Result<RecordBatch> {
        let rows = self.texts[0].len();
        let texts = self.texts.map(|values| Arc::new(StringArray::from(values)) as ArrayRef);
        let numbers = self
            .numbers
            .map(|values| Arc::new(Int32Array::from(values)) as ArrayRef);
        let [
            schema,
            table,
            name,
            default,
            nullable,
            data_type,
            udt,
            column_type,
            generated,
        ] = texts;
        let [position, length, precision, radix, scale, fraction] = numbers;
        let catalog: ArrayRef = Arc::new(StringArray::from(vec![namespace; rows]));
        let columns = [
            ("table_catalog", catalog),
            ("table_schema", schema),
            ("table_name", table),
            ("column_name", name),
            ("ordinal_position", position),
            ("column_default", default),
            ("is_nullable", nullable),
            ("data_type", data_type),
            ("character_maximum_length", length),
            ("numeric_precision", precision),
            ("numeric_precision_radix", radix),
            ("numeric_scale", scale),
            ("datetime_precision", fraction),
            ("udt_name", udt),
            ("is_generated", generated),
            ("column_type", column_type),
        ];
        let columns = columns.map(|(name, array)| (name, array, true));
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}

/// Position, length of texts, precision, its radix, scale, and digits of a second's fraction.
fn sizes(position: i32, ty: Option<ColumnType>) -> [Option<i32>; 6] {
    let number = |precision, radix, scale| [Some(position), None, Some(precision), Some(radix), scale, None];
    match ty {
        Some(ColumnType::Varchar(length)) => [Some(position), i32::try_from(length).ok(), None, None, None, None],
        Some(ColumnType::Int16) => number(16, 2, Some(0)),
        Some(ColumnType::Int32) => number(32, 2, Some(0)),
        Some(ColumnType::Int64) => number(64, 2, Some(0)),
        Some(ColumnType::Float32) => number(24, 2, None),
        Some(ColumnType::Float64) => number(53, 2, None),
        Some(ColumnType::Decimal { precision, scale }) => number(i32::from(precision), 10, Some(i32::from(scale))),
        Some(ColumnType::Date) => [Some(position), None, None, None, None, Some(0)],
        Some(ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz | ColumnType::Interval) => {
            [Some(position), None, None, None, None, Some(6)]
        }
        _ => [Some(position), None, None, None, None, None],
    }
}

/// The type's short name in `pg_type`.
fn udt_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Int16 => "int2".to_owned(),
        ColumnType::Int32 => "int4".to_owned(),
        ColumnType::Int64 => "int8".to_owned(),
        ColumnType::Float32 => "float4".to_owned(),
        ColumnType::Float64 => "float8".to_owned(),
        ColumnType::Bool => "bool".to_owned(),
        ColumnType::Varchar(_) => "varchar".to_owned(),
        ColumnType::Time => "time".to_owned(),
        ColumnType::Timestamp => "timestamp".to_owned(),
        ColumnType::TimestampTz => "timestamptz".to_owned(),
        ColumnType::Array { element, .. } => format!("_{}", udt_name(element.into())),
        other => pg_type_name(other),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn types_have_short_names() {
        assert_eq!(udt_name(ColumnType::Int32.array().expect("an array")), "_int4");
        assert_eq!(pg_name(&Field::new("c", DataType::Null, true)), "unknown");
    }
}
