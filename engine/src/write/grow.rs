//! Open collections: columns appear with the first value that needs them.

use std::sync::Arc;

use candor_storage::{CollectionDef, ColumnDef, ColumnType, SchemaChange};

use crate::env::Env;
use crate::error::EngineError;

/// The key of an open collection.
const OPEN_KEY: &str = "id";

/// A column that a write brings: its name, and the type of its values; `None` when all of them are NULL.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) name: String,
    pub(crate) ty: Option<ColumnType>,
}

/// A definition that has a place for every value, and the changes that lead to it.
pub(crate) struct Grown {
    pub(crate) def: Arc<CollectionDef>,
    pub(crate) schema: Vec<SchemaChange>,
}

impl Grown {
    /// The definition of `def` with columns for all of `incoming`.
    ///
    /// # Errors
    /// An unknown column of a closed collection.
    pub(crate) fn of(env: &Env, def: &Arc<CollectionDef>, incoming: &[Incoming]) -> Result<Self, EngineError> {
        let mut grown = Self {
            def: Arc::clone(def),
            schema: Vec::new(),
        };
        if def.open {
            grown.settle_key(env, incoming);
        }
        grown.add_columns(incoming)?;
        Ok(grown)
    }

    /// The first row decides what the key holds: until then an open collection says TEXT, which compares with
    /// anything. An empty collection has nothing to keep, so it is defined anew.
    fn settle_key(&mut self, env: &Env, incoming: &[Incoming]) {
        let is_new = self.def.columns.len() == 1 && self.def.columns[0].name == OPEN_KEY;
        let first = incoming
            .iter()
            .find(|column| column.name == OPEN_KEY)
            .and_then(|column| column.ty);
        let Some(ty) = first.filter(|ty| is_new && *ty != self.def.columns[0].ty) else {
            return;
        };
        if env.names.table(&self.def).row_count_max() > 0 {
            return;
        }
        let mut def = CollectionDef::clone(&self.def);
        def.columns[0].ty = ty;
        def.id = env.names.definitions().next_collection_id();
        self.schema.push(SchemaChange::RemoveCollection { id: self.def.id });
        self.schema.push(SchemaChange::DefineCollection(def.clone()));
        self.def = Arc::new(def);
    }

    fn add_columns(&mut self, incoming: &[Incoming]) -> Result<(), EngineError> {
        let unknown: Vec<&Incoming> = incoming
            .iter()
            .filter(|column| self.def.column(&column.name).is_none())
            .collect();
        if let Some(column) = unknown.first()
            && !self.def.open
        {
            return Err(unknown_column(&self.def, &column.name));
        }
        let columns: Vec<ColumnDef> = unknown
            .into_iter()
            .filter_map(|column| {
                // A column of bare NULLs stays unknown: unknown columns read as NULL anyway.
                Some(ColumnDef::new(&column.name, column.ty?))
            })
            .collect();
        if columns.is_empty() {
            return Ok(());
        }
        let mut def = CollectionDef::clone(&self.def);
        columns.iter().cloned().for_each(|column| def.push_column(column));
        def.schema_version += 1;
        self.schema.push(SchemaChange::GrowColumns { id: def.id, columns });
        self.def = Arc::new(def);
        Ok(())
    }
}

pub(crate) fn unknown_column(def: &CollectionDef, name: &str) -> EngineError {
    let here = def.columns.iter().map(|column| column.name.as_str());
    EngineError::UnknownName {
        what: "column",
        name: format!("{}.{name}", def.name),
        help: crate::spans::closest(name, here).map(|name| format!("did you mean `{name}`?")),
        span: None,
    }
}
