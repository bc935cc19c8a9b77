//! The catalog of a range: an immutable value, one per schema change.
//!
//! A reader at a version holds the catalog of that version; a schema change makes a new one and leaves the old ones
//! alone. Definitions are shared between them, so a change costs a copy of the maps, not of their contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use candor_proto::{LogIndex, NodeName};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::schema::{
    ARRAY_DEPTH_MAX, CollectionDef, CollectionId, ColumnDef, ColumnType, ForeignKeyDef, ROW_ID_COLUMN, ReplicaDef,
    SchemaChange, SequenceDef, SequenceId, SequencePlace, TypeDef, TypeId, ViewDef,
};

/// What a range holds at one version.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    changed_at: LogIndex,
    next_collection_id: u32,
    databases: BTreeMap<String, Database>,
    collections: BTreeMap<CollectionId, Collection>,
    replicas: BTreeMap<NodeName, Arc<ReplicaDef>>,
    next_type_id: u32,
    types: BTreeMap<TypeId, Arc<TypeDef>>,
    next_sequence_id: u32,
    sequences: BTreeMap<SequenceId, Arc<SequenceDef>>,
    /// The last change that did more than move sequences.
    defined_at: LogIndex,
}

/// A catalog as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CatalogImage {
    changed_at: LogIndex,
    next_collection_id: u32,
    databases: Vec<String>,
    collections: Vec<Arc<CollectionDef>>,
    /// When each collection was defined or altered last.
    altered_at: Vec<LogIndex>,
    views: Vec<Arc<ViewDef>>,
    replicas: Vec<Arc<ReplicaDef>>,
    next_type_id: u32,
    types: Vec<Arc<TypeDef>>,
    next_sequence_id: u32,
    sequences: Vec<Arc<SequenceDef>>,
    defined_at: LogIndex,
}

#[derive(Clone, Debug, Default)]
struct Database {
    collections: BTreeMap<String, CollectionId>,
    views: BTreeMap<String, Arc<ViewDef>>,
}

#[derive(Clone, Debug)]
struct Collection {
    def: Arc<CollectionDef>,
    layout: Arc<Layout>,
    /// The index of the entry that defined it, or altered it last. Growing is no alteration.
    altered_at: LogIndex,
}

impl Collection {
    /// Of a definition that holds together.
    fn new(def: CollectionDef, altered_at: LogIndex) -> Result<Self, String> {
        check_definition(&def)?;
        Ok(Self {
            altered_at,
            layout: Arc::new(Layout::new(&def).map_err(|error| error.to_string())?),
            def: Arc::new(def),
        })
    }
}

impl Catalog {
    /// The index of the entry that made this catalog; zero for the empty one.
    pub fn changed_at(&self) -> LogIndex {
        self.changed_at
    }

    /// The index of the last entry that changed a definition; that a sequence moves on is no change of one.
    pub(crate) fn defined_at(&self) -> LogIndex {
        self.defined_at
    }

    /// An id that no collection of this range has ever had.
    pub fn next_collection_id(&self) -> CollectionId {
        CollectionId(self.next_collection_id)
    }

    /// Names of the databases, in order.
    pub fn databases(&self) -> impl Iterator<Item = &str> {
        self.databases.keys().map(String::as_str)
    }

    /// Whether there is a database of this name.
    pub fn has_database(&self, name: &str) -> bool {
        self.databases.contains_key(name)
    }

    /// The collection of this name.
    pub fn collection(&self, database: &str, name: &str) -> Option<&Arc<CollectionDef>> {
        let id = self.databases.get(database)?.collections.get(name)?;
        self.collection_by_id(*id)
    }

    /// The collection of this id.
    pub fn collection_by_id(&self, id: CollectionId) -> Option<&Arc<CollectionDef>> {
        self.collections.get(&id).map(|collection| &collection.def)
    }

    /// The Arrow schema of the rows of the collection of this id, made once.
    pub fn schema_of(&self, id: CollectionId) -> Option<&SchemaRef> {
        self.layout_of(id).map(|layout| &layout.schema)
    }

    /// How the columns of the collection of this id are found in stored rows.
    pub(crate) fn layout_of(&self, id: CollectionId) -> Option<&Arc<Layout>> {
        self.collections.get(&id).map(|collection| &collection.layout)
    }

    /// The index of the entry that defined the collection of this id, or altered it last.
    pub(crate) fn altered_at(&self, id: CollectionId) -> Option<LogIndex> {
        self.collections.get(&id).map(|collection| collection.altered_at)
    }

    /// The foreign keys that point to the collection of this id, each with the collection that has it.
    pub fn references_to(&self, id: CollectionId) -> impl Iterator<Item = (&Arc<CollectionDef>, &ForeignKeyDef)> {
        self.all_collections().flat_map(move |def| {
            let keys = def.foreign_keys.iter().filter(move |key| key.parent == id);
            keys.map(move |key| (def, key))
        })
    }

    /// The collections of a database, by name.
    pub fn collections(&self, database: &str) -> impl Iterator<Item = &Arc<CollectionDef>> {
        self.databases
            .get(database)
            .into_iter()
            .flat_map(|database| database.collections.values())
            .filter_map(|id| self.collection_by_id(*id))
    }

    /// All collections of the range, by id.
    pub fn all_collections(&self) -> impl Iterator<Item = &Arc<CollectionDef>> {
        self.collections.values().map(|collection| &collection.def)
    }

    /// The view of this name.
    pub fn view(&self, database: &str, name: &str) -> Option<&Arc<ViewDef>> {
        self.databases.get(database)?.views.get(name)
    }

    /// The views of a database, by name.
    pub fn views(&self, database: &str) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.databases
            .get(database)
            .into_iter()
            .flat_map(|database| database.views.values())
    }

    /// The enumerated type of this name.
    pub fn type_named(&self, database: &str, name: &str) -> Option<&Arc<TypeDef>> {
        self.types
            .values()
            .find(|def| def.database == database && def.name == name)
    }

    /// The enumerated type of this id.
    pub fn type_by_id(&self, id: TypeId) -> Option<&Arc<TypeDef>> {
        self.types.get(&id)
    }

    /// All enumerated types of the range, by id.
    pub fn types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// An id that no enumerated type of this range has ever had.
    pub fn next_type_id(&self) -> TypeId {
        TypeId(self.next_type_id)
    }

    /// The sequence of this name.
    pub fn sequence_named(&self, database: &str, name: &str) -> Option<&Arc<SequenceDef>> {
        let mut sequences = self.sequences.values();
        sequences.find(|def| def.database == database && def.name == name)
    }

    /// The sequence of this id.
    pub fn sequence_by_id(&self, id: SequenceId) -> Option<&Arc<SequenceDef>> {
        self.sequences.get(&id)
    }

    /// All sequences of the range, by id.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceDef>> {
        self.sequences.values()
    }

    /// An id that no sequence of this range has ever had.
    pub fn next_sequence_id(&self) -> SequenceId {
        SequenceId(self.next_sequence_id)
    }

    /// The type as SQL names it, enumerated types by their names.
    pub fn sql_name(&self, ty: ColumnType) -> String {
        match (enum_of(ty).and_then(|id| self.type_by_id(id)), ty) {
            (Some(def), ColumnType::Array { depth, .. }) => format!("{}{}", def.name, "[]".repeat(usize::from(depth))),
            (Some(def), _) => def.name.clone(),
            (None, _) => ty.sql_name(),
        }
    }

    /// The declared peers, by name.
    pub fn replicas(&self) -> impl Iterator<Item = &Arc<ReplicaDef>> {
        self.replicas.values()
    }

    /// The declared peer of this name.
    pub fn replica(&self, name: &NodeName) -> Option<&Arc<ReplicaDef>> {
        self.replicas.get(name)
    }

    /// The catalog after `changes`, made by the entry at `index`.
    ///
    /// # Errors
    /// The reason, in plain words, why one of the changes does not fit. The same on every replica.
    pub fn changed(&self, index: LogIndex, changes: &[SchemaChange]) -> Result<Self, String> {
        let mut next = self.clone();
        next.changed_at = index;
        if changes
            .iter()
            .any(|change| !matches!(change, SchemaChange::MoveSequence { .. }))
        {
            next.defined_at = index;
        }
        for change in changes {
            next.change(change)?;
        }
        next.check_references()?;
        Ok(next)
    }

    /// Everything in it as plain data in a fixed order, for hashing and for storing.
    pub(crate) fn image(&self) -> CatalogImage {
        let views = self.databases.values().flat_map(|db| db.views.values());
        CatalogImage {
            changed_at: self.changed_at,
            next_collection_id: self.next_collection_id,
            databases: self.databases.keys().cloned().collect(),
            collections: self.all_collections().cloned().collect(),
            altered_at: self
                .collections
                .values()
                .map(|collection| collection.altered_at)
                .collect(),
            views: views.cloned().collect(),
            replicas: self.replicas.values().cloned().collect(),
            next_type_id: self.next_type_id,
            types: self.types.values().cloned().collect(),
            next_sequence_id: self.next_sequence_id,
            sequences: self.sequences.values().cloned().collect(),
            defined_at: self.defined_at,
        }
    }

    /// The catalog that `image` was made of.
    ///
    /// # Errors
    /// What does not hold together, in plain words.
    pub(crate) fn of(image: CatalogImage) -> Result<Self, String> {
        let databases = image.databases.into_iter().map(|name| (name, Database::default()));
        let replicas = image.replicas.into_iter().map(|def| (def.name.clone(), def));
        let mut catalog = Self {
            changed_at: image.changed_at,
            next_collection_id: image.next_collection_id,
            databases: databases.collect(),
            collections: BTreeMap::new(),
            replicas: replicas.collect(),
            next_type_id: image.next_type_id,
            types: image.types.into_iter().map(|def| (def.id, def)).collect(),
            next_sequence_id: image.next_sequence_id,
            sequences: image.sequences.into_iter().map(|def| (def.id, def)).collect(),
            defined_at: image.defined_at,
        };
        if image.collections.len() != image.altered_at.len() {
            return Err("collections and the entries that altered them do not match".into());
        }
        for (def, altered_at) in image.collections.into_iter().zip(image.altered_at) {
            let database = catalog.database_without(&def.database, &def.name)?;
            database.collections.insert(def.name.clone(), def.id);
            let id = def.id;
            catalog
                .collections
                .insert(id, Collection::new(CollectionDef::clone(&def), altered_at)?);
        }
        for def in image.views {
            catalog.define_view(&def)?;
        }
        Ok(catalog)
    }

    fn change(&mut self, change: &SchemaChange) -> Result<(), String> {
        match change {
            SchemaChange::DefineDatabase { name } => self.define_database(name),
            SchemaChange::RemoveDatabase { name } => self.remove_database(name),
            SchemaChange::DefineCollection(def) => self.define_collection(def),
            SchemaChange::AlterCollection(alteration) => self.alter_collection(&alteration.def),
            SchemaChange::RemoveCollection { id } => self.remove_collection(*id),
            SchemaChange::GrowColumns { id, columns } => self.grow_columns(*id, columns),
            SchemaChange::DefineView(def) => self.define_view(def),
            SchemaChange::RemoveView { database, name } => self.remove_view(database, name),
            SchemaChange::DefineReplica(def) => {
                self.replicas.insert(def.name.clone(), Arc::new(def.clone()));
                Ok(())
            }
            SchemaChange::RemoveReplica { name } => match self.replicas.remove(name) {
                Some(_) => Ok(()),
                None => Err(format!("there is no replica `{name}`")),
            },
            SchemaChange::DefineType(def) => self.define_type(def),
            SchemaChange::ChangeType(def) => self.change_type(def),
            SchemaChange::RemoveType { id } => self.remove_type(*id),
            SchemaChange::DefineSequence(def) => self.define_sequence(def),
            SchemaChange::ChangeSequence(def) => self.change_sequence(def),
            SchemaChange::RemoveSequence { id } => match self.sequences.remove(id) {
                Some(_) => Ok(()),
                None => Err(no_sequence(*id)),
            },
            SchemaChange::MoveSequence { id, from, to } => self.move_sequence(*id, *from, *to),
        }
    }

    fn define_sequence(&mut self, def: &SequenceDef) -> Result<(), String> {
        if def.id.0 < self.next_sequence_id || def.id.0 == u32::MAX {
            return Err(format!("sequence id {} is taken", def.id));
        }
        self.check_sequence(def)?;
        self.next_sequence_id = def.id.0 + 1;
        self.sequences.insert(def.id, Arc::new(def.clone()));
        Ok(())
    }

    fn change_sequence(&mut self, def: &SequenceDef) -> Result<(), String> {
        let present = self.sequences.get(&def.id).ok_or_else(|| no_sequence(def.id))?;
        let mut changed = def.clone();
        if def.place.generation == present.place.generation {
            changed.place = present.place;
        }
        self.check_sequence(&changed)?;
        self.sequences.insert(def.id, Arc::new(changed));
        Ok(())
    }

    fn check_sequence(&self, def: &SequenceDef) -> Result<(), String> {
        if !self.has_database(&def.database) {
            return Err(no_database(&def.database));
        }
        let named = self.sequence_named(&def.database, &def.name);
        if named.is_some_and(|other| other.id != def.id) {
            return Err(format!("the sequence `{}.{}` exists", def.database, def.name));
        }
        if def.increment == 0 || def.min > def.max {
            return Err(format!("the sequence `{}` has no values", def.name));
        }
        Ok(())
    }

    fn move_sequence(&mut self, id: SequenceId, from: SequencePlace, to: SequencePlace) -> Result<(), String> {
        let present = self.sequences.get_mut(&id).ok_or_else(|| no_sequence(id))?;
        if present.place != from {
            return Err(format!("the sequence `{}` has moved meanwhile", present.name));
        }
        Arc::make_mut(present).place = to;
        Ok(())
    }

    /// Takes the sequences away whose column is gone.
    fn drop_owned_sequences(&mut self) {
        let collections = &self.collections;
        let has_owner = |def: &SequenceDef| {
            def.owner.is_none_or(|(collection, column)| {
                let owner = collections.get(&collection);
                owner.is_some_and(|owner| owner.def.ordinal_of(column).is_some())
            })
        };
        self.sequences.retain(|_, def| has_owner(def));
    }

    fn define_type(&mut self, def: &TypeDef) -> Result<(), String> {
        if def.id.0 < self.next_type_id || def.id.0 == u32::MAX {
            return Err(format!("type id {} is taken", def.id));
        }
        self.check_type(def)?;
        self.next_type_id = def.id.0 + 1;
        self.types.insert(def.id, Arc::new(def.clone()));
        Ok(())
    }

    fn change_type(&mut self, def: &TypeDef) -> Result<(), String> {
        let present = self.types.get(&def.id).ok_or_else(|| no_type(def.id))?;
        if present.database != def.database {
            return Err(format!("the type `{}` stays in its database", present.name));
        }
        // Rows hold labels, so each label there is must stay.
        if let Some(lost) = present.labels.iter().find(|label| !def.labels.contains(label)) {
            return Err(format!("rows of type `{}` may hold the label `{lost}`", present.name));
        }
        self.check_type(def)?;
        self.types.insert(def.id, Arc::new(def.clone()));
        Ok(())
    }

    fn check_type(&self, def: &TypeDef) -> Result<(), String> {
        if !self.has_database(&def.database) {
            return Err(no_database(&def.database));
        }
        if self
            .type_named(&def.database, &def.name)
            .is_some_and(|other| other.id != def.id)
        {
            return Err(format!("the type `{}.{}` exists", def.database, def.name));
        }
        let twice = |(at, label): &(usize, &String)| def.labels[..*at].contains(label);
        match def.labels.iter().enumerate().find(twice) {
            Some((_, label)) => Err(format!("the label `{label}` stands twice")),
            None => Ok(()),
        }
    }

    fn remove_type(&mut self, id: TypeId) -> Result<(), String> {
        let def = self.types.get(&id).ok_or_else(|| no_type(id))?;
        for collection in self.all_collections() {
            if let Some(column) = collection.columns.iter().find(|column| enum_of(column.ty) == Some(id)) {
                return Err(format!(
                    "the column `{}` of `{}` has the type `{}`",
                    column.name, collection.name, def.name
                ));
            }
        }
        self.types.remove(&id);
        Ok(())
    }

    fn define_database(&mut self, name: &str) -> Result<(), String> {
        if self.has_database(name) {
            return Err(format!("database `{name}` exists"));
        }
        self.databases.insert(name.to_owned(), Database::default());
        Ok(())
    }

    fn remove_database(&mut self, name: &str) -> Result<(), String> {
        let removed = self.databases.remove(name).ok_or_else(|| no_database(name))?;
        for id in removed.collections.values() {
            self.collections.remove(id);
        }
        self.types.retain(|_, def| def.database != name);
        self.sequences.retain(|_, def| def.database != name);
        Ok(())
    }

    /// The database, if nothing in it has this name yet.
    fn database_without(&mut self, database: &str, name: &str) -> Result<&mut Database, String> {
        let found = self.databases.get_mut(database).ok_or_else(|| no_database(database))?;
        if found.collections.contains_key(name) || found.views.contains_key(name) {
            return Err(format!("`{database}.{name}` exists"));
        }
        Ok(found)
    }

    fn define_collection(&mut self, def: &CollectionDef) -> Result<(), String> {
        if def.id.0 < self.next_collection_id || def.id.0 == u32::MAX {
            return Err(format!("collection id {} is taken", def.id));
        }
        self.check_types(&def.columns)?;
        let collection = Collection::new(def.clone(), self.changed_at)?;
        self.database_without(&def.database, &def.name)?
            .collections
            .insert(def.name.clone(), def.id);
        self.next_collection_id = def.id.0 + 1;
        self.collections.insert(def.id, collection);
        Ok(())
    }

    fn remove_collection(&mut self, id: CollectionId) -> Result<(), String> {
        let removed = self.collections.remove(&id).ok_or_else(|| no_collection(id))?;
        if let Some(database) = self.databases.get_mut(&removed.def.database) {
            database.collections.remove(&removed.def.name);
        }
        self.drop_owned_sequences();
        Ok(())
    }

    /// Refuses a column of an enumerated type that is not there.
    fn check_types(&self, columns: &[ColumnDef]) -> Result<(), String> {
        for id in columns.iter().filter_map(|column| enum_of(column.ty)) {
            self.type_by_id(id).ok_or_else(|| no_type(id))?;
        }
        Ok(())
    }

    fn grow_columns(&mut self, id: CollectionId, columns: &[ColumnDef]) -> Result<(), String> {
        self.check_types(columns)?;
        let collection = self.collections.get_mut(&id).ok_or_else(|| no_collection(id))?;
        let mut def = CollectionDef::clone(&collection.def);
        for column in columns {
            match def.column(&column.name).map(|ordinal| &def.columns[ordinal]) {
                Some(present) if present.ty == column.ty => {}
                Some(present) => {
                    return Err(format!(
                        "column `{}` of `{}` is {}, not {}",
                        column.name, def.name, present.ty, column.ty
                    ));
                }
                None if !column.nullable => {
                    return Err(format!(
                        "column `{}` is added later, so it must allow NULL",
                        column.name
                    ));
                }
                None => def.push_column(column.clone()),
            }
        }
        if def.columns.len() > collection.def.columns.len() {
            def.schema_version += 1;
            *collection = Collection::new(def, collection.altered_at)?;
        }
        Ok(())
    }

    fn alter_collection(&mut self, def: &CollectionDef) -> Result<(), String> {
        let present = self.collections.get(&def.id).ok_or_else(|| no_collection(def.id))?;
        let old = Arc::clone(&present.def);
        if def.schema_version != old.schema_version + 1 {
            return Err(format!("the definition of `{}` was changed meanwhile", old.name));
        }
        check_column_history(&old, def)?;
        let altered = Collection::new(def.clone(), self.changed_at)?;
        if (&old.database, &old.name) != (&def.database, &def.name) {
            self.database_without(&def.database, &def.name)?
                .collections
                .insert(def.name.clone(), def.id);
            if let Some(database) = self.databases.get_mut(&old.database) {
                database.collections.remove(&old.name);
            }
        }
        self.collections.insert(def.id, altered);
        self.drop_owned_sequences();
        Ok(())
    }

    /// Refuses a foreign key whose parent, or the key of it that it points to, is not there.
    fn check_references(&self) -> Result<(), String> {
        for def in self.all_collections() {
            for key in &def.foreign_keys {
                let parent = self.collection_by_id(key.parent).ok_or_else(|| {
                    format!(
                        "the foreign key `{}` of `{}` points to a collection that is gone",
                        key.name, def.name
                    )
                })?;
                let ordinals = key
                    .parent_columns
                    .iter()
                    .map(|id| parent.ordinal_of(*id).map(|at| at as u32));
                let ordinals: Option<Vec<u32>> = ordinals.collect();
                if ordinals.is_none_or(|ordinals| parent.unique_on(&ordinals).is_none()) {
                    return Err(format!(
                        "the foreign key `{}` of `{}` points to columns of `{}` that are no key",
                        key.name, def.name, parent.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn define_view(&mut self, def: &ViewDef) -> Result<(), String> {
        self.database_without(&def.database, &def.name)?
            .views
            .insert(def.name.clone(), Arc::new(def.clone()));
        Ok(())
    }

    fn remove_view(&mut self, database: &str, name: &str) -> Result<(), String> {
        let found = self.databases.get_mut(database).ok_or_else(|| no_database(database))?;
        match found.views.remove(name) {
            Some(_) => Ok(()),
            None => Err(format!("there is no view `{database}.{name}`")),
        }
    }
}

/// The enumerated type of a column, or of its elements.
pub fn enum_of(ty: ColumnType) -> Option<TypeId> {
    match ty {
        ColumnType::Enum(id) => Some(id),
        ColumnType::Array { element, .. } => enum_of(element.into()),
        _ => None,
    }
}

fn no_sequence(id: SequenceId) -> String {
    format!("there is no sequence with id {id}")
}

fn no_type(id: TypeId) -> String {
    format!("there is no type with id {id}")
}

fn no_database(name: &str) -> String {
    format!("there is no database `{name}`")
}

pub(crate) fn no_collection(id: CollectionId) -> String {
    format!("there is no collection with id {id}")
}

/// Refuses a definition that does not hold together, so that tables may index columns by ordinal without looking.
fn check_definition(def: &CollectionDef) -> Result<(), String> {
    for (ordinal, column) in def.columns.iter().enumerate() {
        if column.name == ROW_ID_COLUMN {
            return Err(format!("the name `{ROW_ID_COLUMN}` stands for the hidden row id"));
        }
        if def.column(&column.name) != Some(ordinal) {
            return Err(format!("column `{}` stands twice", column.name));
        }
        check_column_id(def, ordinal)?;
    }
    for column in &def.columns {
        if matches!(column.ty, ColumnType::Array { depth, .. } if !(1..=ARRAY_DEPTH_MAX).contains(&depth)) {
            return Err(format!("column `{}` is an array without a possible depth", column.name));
        }
    }
    let keys = def.keys.iter().map(|key| &key.columns);
    let foreign = def.foreign_keys.iter().map(|key| &key.columns);
    if keys.clone().chain(foreign.clone()).any(Vec::is_empty) {
        return Err("a key has no columns".into());
    }
    for key in std::iter::once(&def.key).chain(keys).chain(foreign) {
        for (at, ordinal) in key.iter().enumerate() {
            if *ordinal as usize >= def.columns.len() {
                return Err(format!("a key names column {ordinal} of {}", def.columns.len()));
            }
            if key[..at].contains(ordinal) {
                return Err(format!("a key names column {ordinal} twice"));
            }
        }
    }
    Ok(())
}

/// Refuses a definition whose columns are not those of the old one, fewer of them, or new ones.
fn check_column_history(old: &CollectionDef, new: &CollectionDef) -> Result<(), String> {
    if new.next_column_id < old.next_column_id {
        return Err(format!("`{}` would give ids of columns again", old.name));
    }
    for column in &new.columns {
        let fits = match old.ordinal_of(column.id).map(|ordinal| &old.columns[ordinal]) {
            Some(before) => before.ty.arrow() == column.ty.arrow() && before.missing == column.missing,
            None => column.id >= old.next_column_id,
        };
        if !fits {
            return Err(format!("column `{}` takes the id of another one", column.name));
        }
    }
    Ok(())
}

fn check_column_id(def: &CollectionDef, ordinal: usize) -> Result<(), String> {
    let column = &def.columns[ordinal];
    if column.id >= def.next_column_id || def.columns[..ordinal].iter().any(|other| other.id == column.id) {
        return Err(format!("id {} of column `{}` is not its own", column.id, column.name));
    }
    let Some(missing) = &column.missing else { return Ok(()) };
    match missing.array() {
        Ok(value) if *value.data_type() == column.ty.arrow() => Ok(()),
        _ => Err(format!(
            "what column `{}` reads as in old rows is no {}",
            column.name, column.ty
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::Constant;
    use crate::schema::{ColumnType, KeyDef, KeyKind};
    use arrow::array::{ArrayRef, StringViewArray};

    fn collection(id: u32, name: &str) -> CollectionDef {
        let columns = [
            ColumnDef::new("a", ColumnType::Int64),
            ColumnDef::new("b", ColumnType::Text),
        ];
        CollectionDef {
            open: true,
            key: vec![0],
            key_name: "t_pkey".into(),
            keys: vec![unique(vec![1])],
            ..CollectionDef::new(CollectionId(id), "d", name, columns)
        }
    }

    fn unique(columns: Vec<u32>) -> KeyDef {
        KeyDef {
            name: "t_key".into(),
            columns,
            kind: KeyKind::Unique,
        }
    }

    fn constant() -> Constant {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["no number"]));
        Constant::new(&text).expect("one value")
    }

    fn define(name: &str) -> SchemaChange {
        SchemaChange::DefineDatabase { name: name.into() }
    }

    fn with(changes: &[SchemaChange]) -> Result<Catalog, String> {
        Catalog::default()
            .changed(LogIndex(1), &[define("d")])?
            .changed(LogIndex(2), changes)
    }

    #[test]
    fn names_are_found_and_taken_once() {
        let catalog = with(&[SchemaChange::DefineCollection(collection(0, "t"))]).expect("fits");
        assert_eq!(catalog.collection("d", "t").expect("there").id, CollectionId(0));
        assert_eq!(catalog.next_collection_id(), CollectionId(1));
        let view = SchemaChange::DefineView(ViewDef {
            database: "d".into(),
            name: "t".into(),
            sql: "SELECT 1".into(),
        });
        assert!(
            catalog.changed(LogIndex(3), &[view]).is_err(),
            "a view may not take a collection's name"
        );
        assert!(catalog.changed(LogIndex(3), &[define("d")]).is_err());
    }

    #[test]
    fn an_id_is_never_given_again() {
        let removed = with(&[
            SchemaChange::DefineCollection(collection(0, "t")),
            SchemaChange::RemoveCollection { id: CollectionId(0) },
        ])
        .expect("fits");
        assert!(removed.collection("d", "t").is_none());
        assert!(
            removed
                .changed(LogIndex(3), &[SchemaChange::DefineCollection(collection(0, "u"))])
                .is_err()
        );
        assert!(
            removed
                .changed(LogIndex(3), &[SchemaChange::DefineCollection(collection(1, "t"))])
                .is_ok()
        );
    }

    #[test]
    fn growing_alike_is_fine_and_growing_apart_is_refused() {
        let catalog = with(&[SchemaChange::DefineCollection(collection(0, "t"))]).expect("fits");
        let grow = |column: ColumnDef| SchemaChange::GrowColumns {
            id: CollectionId(0),
            columns: vec![column],
        };
        let grown = catalog
            .changed(LogIndex(3), &[grow(ColumnDef::new("c", ColumnType::Int64))])
            .expect("new column");
        let def = grown.collection("d", "t").expect("there");
        assert_eq!((def.schema_version, def.columns[2].id, def.next_column_id), (1, 2, 3));
        assert_eq!(
            catalog.collection("d", "t").expect("there").columns.len(),
            2,
            "the old catalog is as it was"
        );
        let again = grown
            .changed(LogIndex(4), &[grow(ColumnDef::new("c", ColumnType::Int64))])
            .expect("same column");
        assert_eq!(again.collection("d", "t").expect("there").schema_version, 1);
        assert!(
            grown
                .changed(LogIndex(4), &[grow(ColumnDef::new("c", ColumnType::Text))])
                .is_err()
        );
        let strict = ColumnDef {
            nullable: false,
            ..ColumnDef::new("e", ColumnType::Text)
        };
        assert!(grown.changed(LogIndex(4), &[grow(strict)]).is_err());
    }

    #[test]
    fn definitions_that_do_not_hold_together_are_refused() {
        let broken: [fn(&mut CollectionDef); 9] = [
            |def| def.key = vec![2],
            |def| def.key = vec![0, 0],
            |def| def.keys = vec![unique(vec![])],
            |def| def.columns[1].name = "a".into(),
            |def| def.columns[1].name = ROW_ID_COLUMN.into(),
            |def| def.database = "nowhere".into(),
            |def| def.columns[1].id = 0,
            |def| def.next_column_id = 1,
            |def| def.columns[0].missing = Some(constant()),
        ];
        for (case, break_it) in broken.into_iter().enumerate() {
            let mut def = collection(0, "t");
            break_it(&mut def);
            assert!(with(&[SchemaChange::DefineCollection(def)]).is_err(), "case {case}");
        }
    }

    #[test]
    fn removing_a_database_takes_its_collections_along() {
        let catalog = with(&[SchemaChange::DefineCollection(collection(0, "t"))]).expect("fits");
        let removed = catalog
            .changed(LogIndex(3), &[SchemaChange::RemoveDatabase { name: "d".into() }])
            .expect("there");
        assert_eq!(removed.all_collections().count(), 0);
        assert!(removed.collection_by_id(CollectionId(0)).is_none());
    }
}
