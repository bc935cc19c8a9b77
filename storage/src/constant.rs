//! One value of a column, as it stands in a definition.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use serde::{Deserialize, Serialize};

use crate::batch::{SchemaCache, WireBatch};
use crate::error::RecordError;

/// One value of a column type, NULL included: rows of one row and one column, encoded as in a record. Equal values that
/// were made alike are equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Constant(Vec<u8>);

impl Constant {
    /// The value of an array of one row.
    ///
    /// # Errors
    /// An array of another length, or of a type that is not stored.
    pub fn new(value: &ArrayRef) -> Result<Self, RecordError> {
        if value.len() != 1 {
            return Err(RecordError::Batch(format!("{} values are no constant", value.len())));
        }
        let field = Field::new("", value.data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(value)])
            .map_err(|error| RecordError::Batch(error.to_string()))?;
        let bytes = postcard::to_allocvec(&WireBatch::new(&batch)?);
        bytes
            .map(Self)
            .map_err(|error| RecordError::Malformed(error.to_string()))
    }

    /// The value, as an array of one row.
    ///
    /// # Errors
    /// Bytes that no [`Constant::new`] made.
    pub fn array(&self) -> Result<ArrayRef, RecordError> {
        let wire: WireBatch<'_> =
            postcard::from_bytes(&self.0).map_err(|error| RecordError::Malformed(error.to_string()))?;
        let batch = wire.read(&mut SchemaCache::default())?;
        match batch.columns() {
            [value] if value.len() == 1 => Ok(Arc::clone(value)),
            _ => Err(RecordError::Batch("a constant is one value".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray, new_null_array};
    use arrow::datatypes::DataType;

    #[test]
    fn a_value_comes_back() {
        let values: [ArrayRef; 3] = [
            Arc::new(Int64Array::from(vec![-7])),
            Arc::new(StringViewArray::from(vec!["a text that is too long for its view"])),
            new_null_array(&DataType::Date32, 1),
        ];
        for value in values {
            let constant = Constant::new(&value).expect("one value");
            assert_eq!(&constant.array().expect("sound"), &value);
        }
    }

    #[test]
    fn nothing_but_one_value_is_a_constant() {
        let two: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert!(Constant::new(&two).is_err());
        assert!(Constant(vec![1, 2, 3]).array().is_err());
    }
}
