//! What a range may hold: collections, views, databases and declared replicas, and the changes to them that a
//! transaction carries.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use candor_proto::{NodeName, PeerRole};
use serde::{Deserialize, Serialize};

use crate::constant::Constant;

/// Where Arrow keeps the name of an extension type.
const EXTENSION_TYPE_NAME_KEY: &str = "ARROW:extension:name";

/// Where Arrow keeps the parameter of an extension type.
const EXTENSION_TYPE_METADATA_KEY: &str = "ARROW:extension:metadata";

/// The column that stands for the hidden row id of a collection without a primary key.
pub const ROW_ID_COLUMN: &str = "_row";

pub use crate::element::{ARRAY_DEPTH_MAX, ElementType};

/// Names one collection of a range for ever: a removed collection's id is never given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CollectionId(pub u32);

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one enumerated type of a range for ever: a removed type's id is never given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub u32);

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An enumerated type: its values are its labels, and the labels' order is theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDef {
    /// Its id, never given again.
    pub id: TypeId,
    /// The database it stands in.
    pub database: String,
    /// Its name, unique among the types of the database.
    pub name: String,
    /// Its labels, each once.
    pub labels: Vec<String>,
}

/// Names one sequence of a range for ever: a removed sequence's id is never given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceId(pub u32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far the values of a sequence are spoken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequencePlace {
    /// The first value that nobody has reserved; none where the last one is.
    pub next: Option<i64>,
    /// Grows when the sequence is set to a value, so that what was reserved before is not given out any more.
    pub generation: u32,
}

/// A sequence: integers, each given out once. Whoever gives them out reserves some in the log before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDef {
    /// Its id, never given again.
    pub id: SequenceId,
    /// The database it stands in.
    pub database: String,
    /// Its name, unique among the sequences of the database.
    pub name: String,
    /// The type that its values fit: a SMALLINT, INTEGER or BIGINT.
    pub ty: ColumnType,
    /// The first value.
    pub start: i64,
    /// From one value to the next; negative for one that goes down, never 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Begins anew behind the last value.
    pub cycle: bool,
    /// The column that it goes with, by its id.
    pub owner: Option<(CollectionId, u32)>,
    /// How far it is.
    pub place: SequencePlace,
}

/// Where the values of a column come from, if not from whoever writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generated {
    /// From its default, a sequence; `always` refuses other values.
    Identity {
        /// GENERATED ALWAYS, and not BY DEFAULT.
        always: bool,
    },
    /// From the other columns of the row: an expression as SQL text.
    Stored(String),
}

/// The types a column may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    /// `BOOLEAN`
    Bool,
    /// `SMALLINT`
    Int16,
    /// `INTEGER`
    Int32,
    /// `BIGINT`
    Int64,
    /// `REAL`
    Float32,
    /// `DOUBLE PRECISION`
    Float64,
    /// `NUMERIC(precision, scale)`
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// `TEXT`
    Text,
    /// `VARCHAR(n)`: text of at most `n` characters. The length is checked by whoever writes, not by storage.
    Varchar(u32),
    /// `BYTEA`
    Bytes,
    /// `DATE`
    Date,
    /// `TIME`, microseconds
    Time,
    /// `TIMESTAMP`, microseconds, no zone
    Timestamp,
    /// `TIMESTAMPTZ`, microseconds in UTC
    TimestampTz,
    /// `INTERVAL`
    Interval,
    /// `UUID`: its canonical text, lower case with hyphens. Whoever writes makes it so, as for the next four.
    Uuid,
    /// `JSON`: a valid document, as it was given.
    Json,
    /// `JSONB`: a valid document in its normal form.
    Jsonb,
    /// An enumerated type: the text of one of its labels.
    Enum(TypeId),
    /// An array: `depth` lists inside each other, 1 to 6, with `element` in the innermost. Elements may be NULL.
    Array {
        /// The type of the elements.
        element: ElementType,
        /// How many lists deep, 1 to [`ARRAY_DEPTH_MAX`].
        depth: u8,
    },
}

impl ColumnType {
    /// The Arrow type of the column's arrays; exactly this type is stored.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Text | Self::Varchar(_) | Self::Uuid | Self::Json | Self::Jsonb | Self::Enum(_) => DataType::Utf8View,
            Self::Bytes => DataType::BinaryView,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Array { element, depth } => {
                let element = ColumnType::from(element).arrow();
                (0..depth).fold(element, |inner, _| DataType::new_list(inner, true))
            }
        }
    }

    /// The Arrow field of a column of this type. A type that shares its Arrow type with another stands in the field's
    /// metadata, as an Arrow extension type; [`ColumnType::from_field`] reads it back.
    pub fn field(self, name: &str, nullable: bool) -> Field {
        let mut field = Field::new(name, self.arrow(), nullable);
        if let Some((name, of)) = self.extension() {
            let metadata = field.metadata_mut();
            metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
            metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), of);
        }
        field
    }

    /// Name and parameter of the Arrow extension type.
    fn extension(self) -> Option<(&'static str, String)> {
        let scalar = |ty: Self| match ty {
            Self::Uuid => Some(("candor.uuid", String::new())),
            Self::Json => Some(("candor.json", String::new())),
            Self::Jsonb => Some(("candor.jsonb", String::new())),
            Self::Enum(id) => Some(("candor.enum", id.to_string())),
            Self::Varchar(length) => Some(("candor.varchar", length.to_string())),
            _ => None,
        };
        match self {
            Self::Array { element, .. } => scalar(element.into()),
            other => scalar(other),
        }
    }

    /// The type that [`ColumnType::field`] made `field` of; for other fields as [`ColumnType::from_arrow`].
    pub fn from_field(field: &Field) -> Option<Self> {
        let plain = Self::from_arrow(field.data_type())?;
        let of = || field.metadata().get(EXTENSION_TYPE_METADATA_KEY)?.parse().ok();
        let scalar = match field.extension_type_name() {
            Some("candor.uuid") => Self::Uuid,
            Some("candor.json") => Self::Json,
            Some("candor.jsonb") => Self::Jsonb,
            Some("candor.enum") => Self::Enum(TypeId(of()?)),
            Some("candor.varchar") => Self::Varchar(of()?),
            _ => return Some(plain),
        };
        match plain {
            Self::Text => Some(scalar),
            Self::Array {
                element: ElementType::Text,
                depth,
            } => Some(Self::Array {
                element: scalar.try_into().ok()?,
                depth,
            }),
            other => Some(other),
        }
    }

    /// The narrowest column type that holds every value of `ty`; the caller casts to [`ColumnType::arrow`].
    /// `None` for types no column can hold: structs, maps, lists of them, lists that are too deep.
    pub fn from_arrow(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::Int16,
            DataType::UInt16 | DataType::Int32 => Self::Int32,
            DataType::UInt32 | DataType::Int64 => Self::Int64,
            DataType::UInt64 => Self::Decimal {
                precision: 20,
                scale: 0,
            },
            DataType::Float16 | DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => Self::Decimal {
                precision: *precision,
                scale: *scale,
            },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes
            }
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::TimestampTz,
            DataType::Interval(_) => Self::Interval,
            DataType::Dictionary(_, value) => Self::from_arrow(value)?,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item) => Self::from_arrow(item.data_type())?.array()?,
            _ => return None,
        })
    }

    /// An array of this type; `None` where it would be too deep.
    pub fn array(self) -> Option<Self> {
        match self {
            Self::Array { element, depth } if depth < ARRAY_DEPTH_MAX => Some(Self::Array {
                element,
                depth: depth + 1,
            }),
            other => Some(Self::Array {
                element: other.try_into().ok()?,
                depth: 1,
            }),
        }
    }

    /// The type of the elements of an array: lists, where it is deep.
    pub fn item(self) -> Option<Self> {
        match self {
            Self::Array { element, depth: 1 } => Some(element.into()),
            Self::Array { element, depth } => Some(Self::Array {
                element,
                depth: depth - 1,
            }),
            _ => None,
        }
    }

    /// The type as SQL names it. An enumerated type is called ENUM: its name stands in the catalog.
    pub fn sql_name(self) -> String {
        match self {
            Self::Bool => "BOOLEAN".into(),
            Self::Int16 => "SMALLINT".into(),
            Self::Int32 => "INTEGER".into(),
            Self::Int64 => "BIGINT".into(),
            Self::Float32 => "REAL".into(),
            Self::Float64 => "DOUBLE PRECISION".into(),
            Self::Decimal { precision, scale } => format!("NUMERIC({precision},{scale})"),
            Self::Text => "TEXT".into(),
            Self::Varchar(length) => format!("VARCHAR({length})"),
            Self::Bytes => "BYTEA".into(),
            Self::Date => "DATE".into(),
            Self::Time => "TIME".into(),
            Self::Timestamp => "TIMESTAMP".into(),
            Self::TimestampTz => "TIMESTAMPTZ".into(),
            Self::Interval => "INTERVAL".into(),
            Self::Uuid => "UUID".into(),
            Self::Json => "JSON".into(),
            Self::Jsonb => "JSONB".into(),
            Self::Enum(_) => "ENUM".into(),
            Self::Array { element, depth } => {
                format!("{}{}", ColumnType::from(element), "[]".repeat(usize::from(depth)))
            }
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sql_name())
    }
}

/// One column of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Its id, unique in the collection for ever: a dropped column's id is never given again, a renamed column keeps its
    /// own, and a column of one id has one type. Stored rows keep their columns by it.
    pub id: u32,
    /// Its name, unique in the collection.
    pub name: String,
    /// What it holds.
    pub ty: ColumnType,
    /// Whether NULL is allowed. Columns of the primary key never hold NULL, whatever stands here.
    pub nullable: bool,
    /// SQL text of the default, evaluated by whoever writes.
    pub default: Option<String>,
    /// What rows that were stored before the column was added read as; NULL if nothing stands here.
    pub missing: Option<Constant>,
    /// Whether its values are made and not given.
    pub generated: Option<Generated>,
}

/// A CHECK constraint, evaluated by whoever writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDef {
    /// Its name.
    pub name: String,
    /// The expression as SQL text.
    pub sql: String,
}

/// A key beside the primary key, or an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDef {
    /// Its name; a constraint's is unique in the collection, an index's in the database.
    pub name: String,
    /// Ordinals of its columns. A row with a NULL in one of them is exempt, and not found by it.
    pub columns: Vec<u32>,
    /// What it promises.
    pub kind: KeyKind,
}

/// What a [`KeyDef`] promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// A UNIQUE constraint.
    Unique,
    /// A unique index: the same promise, but no constraint.
    UniqueIndex,
    /// An index: rows are found by it, and several may have the same values.
    Index,
}

impl KeyDef {
    /// Whether at most one row has the same values.
    pub fn is_unique(&self) -> bool {
        self.kind != KeyKind::Index
    }
}

/// A foreign key: each row without a NULL in `columns` has its parent, checked when a transaction is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKeyDef {
    /// Its name, unique among the constraints of the collection.
    pub name: String,
    /// Ordinals of its columns.
    pub columns: Vec<u32>,
    /// The collection that it points to.
    pub parent: CollectionId,
    /// Ids of the parent's columns, each for the one of `columns` at its place: those of its primary key or of a unique
    /// key, in the order of that key.
    pub parent_columns: Vec<u32>,
    /// What a deleted parent does to its children.
    pub on_delete: ForeignAction,
    /// What a parent whose key changes does to its children.
    pub on_update: ForeignAction,
}

/// What happens to children whose parent goes. Whoever writes carries it out; a transaction that leaves a child without
/// its parent is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignAction {
    /// The write is refused if a child is left at the end of the statement.
    NoAction,
    /// The write is refused.
    Restrict,
    /// Children go too, or take the new key.
    Cascade,
    /// The key of the children becomes NULL.
    SetNull,
    /// The key of the children becomes its default.
    SetDefault,
}

impl ForeignAction {
    /// Whether the children are changed, so that a child that came meanwhile is a conflict and no violation.
    pub fn changes_children(self) -> bool {
        !matches!(self, Self::NoAction | Self::Restrict)
    }
}

/// One collection: a table of rows with typed columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionDef {
    /// Its id, never given again.
    pub id: CollectionId,
    /// The database it stands in.
    pub database: String,
    /// Its name, unique among the collections and views of the database.
    pub name: String,
    /// Columns may be added by writing values that have none yet.
    pub open: bool,
    /// Its columns; new ones are added at the end.
    pub columns: Vec<ColumnDef>,
    /// The id of the next column: larger than every id that a column of the collection has had. Never goes back.
    pub next_column_id: u32,
    /// Ordinals of the primary key's columns; empty = rows are told apart by a hidden row id.
    pub key: Vec<u32>,
    /// The name of the primary key's constraint; empty where there is none.
    pub key_name: String,
    /// Unique keys and indexes.
    pub keys: Vec<KeyDef>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// CHECK constraints.
    pub checks: Vec<CheckDef>,
    /// Grows with every change of the definition.
    pub schema_version: u32,
}

impl ColumnDef {
    /// A column that allows NULL and has no default. Its collection gives it an id.
    pub fn new(name: impl Into<String>, ty: ColumnType) -> Self {
        Self {
            id: 0,
            name: name.into(),
            ty,
            nullable: true,
            default: None,
            missing: None,
            generated: None,
        }
    }
}

impl CollectionDef {
    /// A closed collection without keys and checks. Its columns get ids in their order.
    pub fn new(
        id: CollectionId,
        database: impl Into<String>,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = ColumnDef>,
    ) -> Self {
        let mut def = Self {
            id,
            database: database.into(),
            name: name.into(),
            open: false,
            columns: Vec::new(),
            next_column_id: 0,
            key: Vec::new(),
            key_name: String::new(),
            keys: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            schema_version: 0,
        };
        columns.into_iter().for_each(|column| def.push_column(column));
        def
    }

    /// The Arrow schema of its rows, in column order. Columns of the primary key are not nullable.
    pub fn schema(&self) -> SchemaRef {
        let field =
            |(ordinal, column): (usize, &ColumnDef)| column.ty.field(&column.name, !self.requires_value(ordinal));
        Arc::new(Schema::new(
            self.columns.iter().enumerate().map(field).collect::<Vec<_>>(),
        ))
    }

    /// Whether the column refuses NULL, by its own definition or as part of the primary key.
    pub fn requires_value(&self, ordinal: usize) -> bool {
        !self.columns[ordinal].nullable || self.key.iter().any(|key| *key as usize == ordinal)
    }

    /// The ordinal of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Adds a column at the end, under the next id.
    pub fn push_column(&mut self, column: ColumnDef) {
        self.columns.push(ColumnDef {
            id: self.next_column_id,
            ..column
        });
        self.next_column_id += 1;
    }

    /// The ordinal of the column with this id.
    pub fn ordinal_of(&self, id: u32) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The lists of columns, by ordinal, that rows are found by: the primary key first, then keys and indexes, then the
    /// columns of foreign keys; each list once.
    pub fn indexed(&self) -> Vec<&[u32]> {
        let keys = self.keys.iter().map(|key| &key.columns[..]);
        let foreign = self.foreign_keys.iter().map(|key| &key.columns[..]);
        let mut lists = Vec::new();
        for list in std::iter::once(&self.key[..]).chain(keys).chain(foreign) {
            if !list.is_empty() && !lists.contains(&list) {
                lists.push(list);
            }
        }
        lists
    }

    /// The name of the key that lets at most one row have the same values in the columns at `ordinals`.
    pub fn unique_on(&self, ordinals: &[u32]) -> Option<&str> {
        if !self.key.is_empty() && self.key == ordinals {
            return Some(&self.key_name);
        }
        let key = self.keys.iter().find(|key| key.is_unique() && key.columns == ordinals);
        key.map(|key| key.name.as_str())
    }

    /// Whether a constraint or an index of the collection has this name.
    pub fn has_constraint(&self, name: &str) -> bool {
        (!self.key.is_empty() && self.key_name == name)
            || self.keys.iter().any(|key| key.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
            || self.checks.iter().any(|check| check.name == name)
    }

    /// Takes a column away, and moves the ordinals behind it.
    ///
    /// # Panics
    /// If a key or a foreign key has the column.
    pub fn remove_column(&mut self, ordinal: usize) {
        self.columns.remove(ordinal);
        let keys = self.keys.iter_mut().map(|key| &mut key.columns);
        let foreign = self.foreign_keys.iter_mut().map(|key| &mut key.columns);
        for list in std::iter::once(&mut self.key).chain(keys).chain(foreign) {
            for column in list {
                assert_ne!(*column as usize, ordinal, "keys go before their columns");
                *column -= u32::from(*column as usize > ordinal);
            }
        }
    }

    /// Names of the columns at `ordinals`, for messages.
    pub fn column_names(&self, ordinals: &[u32]) -> Vec<&str> {
        let names = ordinals
            .iter()
            .map(|ordinal| self.columns[*ordinal as usize].name.as_str());
        names.collect()
    }

    /// Ids of the columns at `ordinals`.
    pub fn column_ids(&self, ordinals: &[u32]) -> Vec<u32> {
        ordinals
            .iter()
            .map(|ordinal| self.columns[*ordinal as usize].id)
            .collect()
    }
}

/// A view: a name for a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDef {
    /// The database it stands in.
    pub database: String,
    /// Its name, unique among the collections and views of the database.
    pub name: String,
    /// The query as SQL text.
    pub sql: String,
}

/// A declared peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaDef {
    /// Its node name.
    pub name: NodeName,
    /// Address of its peer links.
    pub at: String,
    /// Where clients reach it over the PostgreSQL wire or WebSocket.
    pub clients_at: Option<String>,
    /// Where clients reach it over HTTP.
    pub http_at: Option<String>,
    /// What it may do.
    pub roles: Vec<PeerRole>,
    /// Where it stands.
    pub region: Option<String>,
}

/// Another definition for a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alteration {
    /// The new definition. Its `schema_version` is one more than that of the definition it was made from.
    pub def: CollectionDef,
    /// It was made from the rows at the transaction's snapshot, so it does not fit if rows have begun since.
    pub rows_unchanged: bool,
}

/// One change of the catalog. The changes of a transaction take effect in order, before its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaChange {
    /// Adds a database; refused if it exists.
    DefineDatabase {
        /// Its name.
        name: String,
    },
    /// Removes a database with everything in it; refused if there is none.
    RemoveDatabase {
        /// Its name.
        name: String,
    },
    /// Adds a collection; refused if its id was ever used, its name is taken, or its definition does not hold together.
    DefineCollection(CollectionDef),
    /// Gives a collection another definition; refused if it is not there, if another transaction has changed its
    /// definition meanwhile, or if its rows do not fit.
    AlterCollection(Alteration),
    /// Removes a collection; refused if there is none, or if a foreign key of another one points to it.
    RemoveCollection {
        /// Which.
        id: CollectionId,
    },
    /// Adds columns at the end; rows written before read NULL there. A column that exists with the same type is left
    /// as it is, so that two writers may grow an open collection alike; another type is refused.
    GrowColumns {
        /// Which collection.
        id: CollectionId,
        /// The columns, all nullable. Their ids are given when the change is applied, whatever stands here.
        columns: Vec<ColumnDef>,
    },
    /// Adds a view; refused if its name is taken.
    DefineView(ViewDef),
    /// Removes a view; refused if there is none.
    RemoveView {
        /// The database it stands in.
        database: String,
        /// Its name.
        name: String,
    },
    /// Declares a peer, or declares it anew.
    DefineReplica(ReplicaDef),
    /// Takes the declaration of a peer back; refused if there is none.
    RemoveReplica {
        /// Its node name.
        name: NodeName,
    },
    /// Adds an enumerated type; refused if its id was ever used, its name is taken, or a label stands twice.
    DefineType(TypeDef),
    /// Gives a type a new name or more labels; refused if there is none, or if a label would go.
    ChangeType(TypeDef),
    /// Removes a type; refused if there is none, or if a column has it.
    RemoveType {
        /// Which.
        id: TypeId,
    },
    /// Adds a sequence; refused if its id was ever used or its name is taken.
    DefineSequence(SequenceDef),
    /// Gives a sequence another definition; refused if there is none. It stays where it is, unless the generation is
    /// another one.
    ChangeSequence(SequenceDef),
    /// Removes a sequence; refused if there is none. Those of a column go with the column.
    RemoveSequence {
        /// Which.
        id: SequenceId,
    },
    /// Reserves values, or sets the sequence to one; refused if it is not at `from` any more.
    MoveSequence {
        /// Which.
        id: SequenceId,
        /// Where it was.
        from: SequencePlace,
        /// Where it is from now on.
        to: SequencePlace,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_type_comes_back_from_its_arrow_type() {
        let all = [
            ColumnType::Bool,
            ColumnType::Int16,
            ColumnType::Int32,
            ColumnType::Int64,
            ColumnType::Float32,
            ColumnType::Float64,
            ColumnType::Decimal {
                precision: 38,
                scale: 10,
            },
            ColumnType::Text,
            ColumnType::Bytes,
            ColumnType::Date,
            ColumnType::Time,
            ColumnType::Timestamp,
            ColumnType::TimestampTz,
            ColumnType::Interval,
        ];
        for ty in all {
            assert_eq!(ColumnType::from_arrow(&ty.arrow()), Some(ty));
            let array = ty.array().and_then(ColumnType::array).expect("two deep");
            assert_eq!(ColumnType::from_arrow(&array.arrow()), Some(array));
            assert_eq!(array.item().and_then(ColumnType::item), Some(ty));
        }
        assert_eq!(ColumnType::Varchar(9).arrow(), DataType::Utf8View);
        assert_eq!(ColumnType::from_arrow(&DataType::Null), None);
    }

    #[test]
    fn types_that_are_stored_as_text_stand_in_the_field() {
        for ty in [
            ColumnType::Uuid,
            ColumnType::Json,
            ColumnType::Jsonb,
            ColumnType::Varchar(7),
            ColumnType::Enum(TypeId(3)),
            ColumnType::Text,
        ] {
            assert_eq!(ColumnType::from_field(&ty.field("c", true)), Some(ty));
            let array = ty.array().expect("one deep");
            assert_eq!(ColumnType::from_field(&array.field("c", true)), Some(array));
        }
    }

    #[test]
    fn arrays_end_at_six_lists() {
        let deepest = (0..6).try_fold(ColumnType::Bool, |ty, _| ty.array()).expect("six");
        assert_eq!(deepest.sql_name(), "BOOLEAN[][][][][][]");
        assert_eq!(deepest.array(), None);
    }
}
