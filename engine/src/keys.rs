//! Keys of rows as bytes, and filters that fix a whole primary key.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};
use arrow::row::{RowConverter, SortField};
use candor_storage::{CollectionDef, ColumnDef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::error::EngineError;

/// One row's key, or the id of a row without one, as bytes that are equal when the keys are.
pub(crate) type Key = Box<[u8]>;

/// More keys than this in an IN list are found by a scan.
pub(crate) const LOOKUP_KEYS_MAX: usize = 1024;

/// The key of a row in a collection without a primary key.
pub(crate) fn row_id_key(id: u64) -> Key {
    Box::new(id.to_be_bytes())
}

/// Turns columns of a primary key into bytes.
pub(crate) struct KeyCoder(RowConverter);

impl KeyCoder {
    pub(crate) fn new(def: &CollectionDef) -> Result<Self, EngineError> {
        let fields = key_columns(def)
            .map(|column| SortField::new(column.ty.arrow()))
            .collect();
        Ok(Self(RowConverter::new(fields)?))
    }

    /// For a batch that holds nothing but the key's columns, in the key's order.
    pub(crate) fn of_types(keys: &RecordBatch) -> Result<Self, EngineError> {
        let fields = keys
            .columns()
            .iter()
            .map(|column| SortField::new(column.data_type().clone()))
            .collect();
        Ok(Self(RowConverter::new(fields)?))
    }

    /// One key per row.
    pub(crate) fn encode(&self, columns: &[ArrayRef]) -> Result<Vec<Key>, EngineError> {
        let rows = self.0.convert_columns(columns)?;
        Ok(rows.iter().map(|row| Box::from(row.as_ref())).collect())
    }

    /// One key per row of a batch that holds the key's columns by name.
    pub(crate) fn encode_named(&self, def: &CollectionDef, batch: &RecordBatch) -> Result<Vec<Key>, EngineError> {
        self.encode(named_columns(def, batch)?.columns())
    }
}

/// The columns of the primary key, in its order.
pub(crate) fn key_columns(def: &CollectionDef) -> impl Iterator<Item = &ColumnDef> {
    def.key.iter().map(|ordinal| &def.columns[*ordinal as usize])
}

/// The schema of a batch of keys.
pub(crate) fn key_schema(def: &CollectionDef) -> Arc<Schema> {
    let fields: Vec<Field> = key_columns(def)
        .map(|column| Field::new(&column.name, column.ty.arrow(), false))
        .collect();
    Arc::new(Schema::new(fields))
}

/// The key's columns of a batch that holds them by name.
pub(crate) fn named_columns(def: &CollectionDef, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let columns = key_columns(def)
        .map(|column| {
            let found = batch.column_by_name(&column.name).map(Arc::clone);
            found.ok_or_else(|| EngineError::internal(format!("the key column `{}` is missing", column.name)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(key_schema(def), columns)?)
}

/// The keys of a collection, as ordinals of their columns: the primary key, if there is one, then the unique keys.
pub(crate) fn key_sets(def: &CollectionDef) -> impl Iterator<Item = &[u32]> {
    let primary = Some(def.key.as_slice()).filter(|key| !key.is_empty());
    let unique = def.keys.iter().filter(|key| key.is_unique());
    primary.into_iter().chain(unique.map(|key| key.columns.as_slice()))
}

/// The columns of the key on `ordinals`, of a batch that holds them by name.
pub(crate) fn columns_on(
    def: &CollectionDef,
    ordinals: &[u32],
    batch: &RecordBatch,
) -> Result<RecordBatch, EngineError> {
    let mut fields = Vec::with_capacity(ordinals.len());
    let mut columns = Vec::with_capacity(ordinals.len());
    for ordinal in ordinals {
        let column = &def.columns[*ordinal as usize];
        let values = batch.column_by_name(&column.name);
        let values =
            values.ok_or_else(|| EngineError::internal(format!("the key column `{}` is missing", column.name)))?;
        fields.push(Field::new(&column.name, column.ty.arrow(), true));
        columns.push(same_when_equal(values));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The key of one row of a batch of [`columns_on`] for a message; one that is not the primary key says which it is.
pub(crate) fn shown_key(def: &CollectionDef, ordinals: &[u32], keys: &RecordBatch, row: usize) -> String {
    let values = crate::text::key_text(keys, row);
    if ordinals == def.key.as_slice() {
        return values;
    }
    let names = ordinals.iter().map(|at| def.columns[*at as usize].name.as_str());
    format!("{values} of the unique key ({})", names.collect::<Vec<_>>().join(", "))
}

/// One key per row, for a batch of [`columns_on`]; `None` where it holds a NULL, which no key is equal to.
pub(crate) fn encode_complete(keys: &RecordBatch) -> Result<Vec<Option<Key>>, EngineError> {
    let encoded = KeyCoder::of_types(keys)?.encode(keys.columns())?;
    let complete = |row: usize| keys.columns().iter().all(|column| column.is_valid(row));
    let rows = encoded.into_iter().enumerate();
    Ok(rows.map(|(row, key)| complete(row).then_some(key)).collect())
}

/// Numbers that are equal in SQL made equal in bytes, as the store does: the two zeros, and all NaNs.
fn same_when_equal(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let plain = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(plain))
        }
        DataType::Float64 => {
            let plain = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(plain))
        }
        _ => Arc::clone(column),
    }
}

/// The column that `filter` fixes to one constant or a list of them.
pub(crate) fn fixed_column(filter: &Expr) -> Option<&str> {
    fixed(filter).map(|(column, _)| column)
}

/// A column and the constants that `filter` allows for it.
fn fixed(filter: &Expr) -> Option<(&str, Vec<&ScalarValue>)> {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Literal(value, _)) | (Expr::Literal(value, _), Expr::Column(column)) => {
                Some((&column.name, vec![value]))
            }
            _ => None,
        },
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) if list.len() <= LOOKUP_KEYS_MAX => {
            let Expr::Column(column) = expr.as_ref() else {
                return None;
            };
            let values = list.iter().map(|item| match item {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            Some((&column.name, values.collect::<Option<_>>()?))
        }
        // A short IN list reaches the scan as a chain of ORs.
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            let (column, mut values) = fixed(left)?;
            let (other, more) = fixed(right)?;
            values.extend(more);
            (column == other && values.len() <= LOOKUP_KEYS_MAX).then_some((column, values))
        }
        _ => None,
    }
}

/// The keys that `filters`, all of which must hold, leave; `None` when they do not fix all columns at `ordinals`.
pub(crate) fn fixed_by(
    def: &CollectionDef,
    ordinals: &[u32],
    filters: &[Expr],
) -> Result<Option<RecordBatch>, EngineError> {
    let mut by_column: BTreeMap<&str, Vec<&ScalarValue>> = BTreeMap::new();
    for (column, values) in filters.iter().filter_map(fixed) {
        // Two filters on one column: either alone keeps every row that both keep.
        by_column.entry(column).or_insert(values);
    }
    let mut keys: Vec<Vec<ScalarValue>> = vec![Vec::new()];
    let of_key = || ordinals.iter().map(|ordinal| &def.columns[*ordinal as usize]);
    for column in of_key() {
        let Some(values) = by_column.get(column.name.as_str()) else {
            return Ok(None);
        };
        // NULL equals nothing, and a constant of another type would have to be converted: the scan can do that.
        let ty = column.ty.arrow();
        if values.iter().any(|value| value.is_null() || value.data_type() != ty) {
            return Ok(None);
        }
        if keys.len() * values.len() > LOOKUP_KEYS_MAX {
            return Ok(None);
        }
        keys = keys
            .iter()
            .flat_map(|key| {
                values
                    .iter()
                    .map(move |value| key.iter().cloned().chain([(*value).clone()]).collect())
            })
            .collect();
    }
    distinct(&mut keys);
    let fields: Vec<Field> = of_key()
        .map(|column| Field::new(&column.name, column.ty.arrow(), false))
        .collect();
    let columns = (0..ordinals.len())
        .map(|at| ScalarValue::iter_to_array(keys.iter().map(|key| key[at].clone())))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| EngineError::internal(error.to_string()))?;
    Ok(Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?))
}

/// Looking a key up twice would give its row twice.
fn distinct(keys: &mut Vec<Vec<ScalarValue>>) {
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
}
