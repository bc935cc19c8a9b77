//! How the columns of a definition are found in stored rows.
//!
//! Stored rows keep their columns by id, so that a renamed column keeps its values and a column that takes the name of a
//! dropped one does not show the old values. Rows that were written before a column was added have none of it; they
//! read as the column's `missing` value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::error::RecordError;
use crate::schema::CollectionDef;
use crate::segments::SegmentColumn;

/// The columns of one definition, by ordinal.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<LayoutColumn>,
    /// The same as segments know them.
    pub(crate) stored: Arc<[SegmentColumn]>,
}

/// One column of a definition.
#[derive(Debug)]
pub(crate) struct LayoutColumn {
    pub(crate) id: u32,
    pub(crate) ty: DataType,
    /// One value; `None` stands for NULL.
    missing: Option<ArrayRef>,
}

impl Layout {
    /// # Errors
    /// A `missing` value that does not read.
    pub(crate) fn new(def: &CollectionDef) -> Result<Self, RecordError> {
        let column = |column: &crate::schema::ColumnDef| {
            Ok(LayoutColumn {
                id: column.id,
                ty: column.ty.arrow(),
                missing: column.missing.as_ref().map(crate::Constant::array).transpose()?,
            })
        };
        let columns: Vec<LayoutColumn> = def.columns.iter().map(column).collect::<Result<_, RecordError>>()?;
        let schema = def.schema();
        let stored = columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| SegmentColumn {
                missing: column.missing.clone(),
                ..SegmentColumn::new(column.id, column.ty.clone(), field.is_nullable())
            });
        Ok(Self {
            stored: stored.collect(),
            schema,
            columns,
        })
    }

    /// The ordinal of the column with this id.
    pub(crate) fn ordinal(&self, id: u32) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }
}

impl LayoutColumn {
    /// What `rows` rows read as that were written before the column was there.
    pub(crate) fn absent(&self, rows: usize) -> ArrayRef {
        match &self.missing {
            None => new_null_array(&self.ty, rows),
            Some(value) => {
                let first = UInt32Array::from_value(0, rows);
                take(value, &first, None).expect("the constant has a first value")
            }
        }
    }
}

/// Rows as a batch. Rows that have ended may hold a NULL where a value is required since; then the batch says so.
pub(crate) fn batch_of(schema: &Schema, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter().zip(&columns).map(|(field, column)| {
        if field.is_nullable() || column.null_count() == 0 {
            Arc::clone(field)
        } else {
            Arc::new(field.as_ref().clone().with_nullable(true))
        }
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}
