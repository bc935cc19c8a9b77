//! Changes of definitions as they are gathered, and what stands on what.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use candor_storage::{Alteration, Catalog, CollectionDef, CollectionId, SchemaChange, ViewDef};
use sqlparser::ast::{self, Visit as _, Visitor};

use crate::env::Env;
use crate::error::EngineError;
use crate::parse::parse_query;
use crate::prepare::folded_parts;

/// Changes, and the definitions as they are after them.
pub(super) struct Changes {
    pub(super) catalog: Catalog,
    pub(super) schema: Vec<SchemaChange>,
}

impl Changes {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            catalog: Catalog::clone(env.names.definitions()),
            schema: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, change: SchemaChange) -> Result<(), EngineError> {
        let at = self.catalog.changed_at();
        self.catalog = self
            .catalog
            .changed(at, std::slice::from_ref(&change))
            .map_err(EngineError::plan)?;
        self.schema.push(change);
        Ok(())
    }

    /// Another definition for a collection that is there.
    pub(super) fn alter(&mut self, mut def: CollectionDef, rows_unchanged: bool) -> Result<(), EngineError> {
        def.schema_version += 1;
        self.push(SchemaChange::AlterCollection(Alteration { def, rows_unchanged }))
    }

    /// Takes the foreign keys away that point to a collection and that `lost` says yes to; refused without CASCADE.
    pub(super) fn drop_references(
        &mut self,
        parent: CollectionId,
        what: &str,
        cascade: bool,
        lost: impl Fn(&CollectionDef, &[u32]) -> bool,
    ) -> Result<(), EngineError> {
        let points = |child: &CollectionDef| {
            let keys = child.foreign_keys.iter();
            let mut keys = keys.filter(|key| key.parent == parent && lost(child, &key.parent_columns));
            keys.next().map(|key| key.name.clone())
        };
        let children: Vec<Arc<CollectionDef>> = self.catalog.all_collections().map(Arc::clone).collect();
        for child in children {
            let Some(name) = points(&child) else { continue };
            if !cascade {
                return Err(depends(what, &format!("the foreign key `{name}` of `{}`", child.name)));
            }
            let mut def = CollectionDef::clone(&child);
            def.foreign_keys
                .retain(|key| key.parent != parent || !lost(&child, &key.parent_columns));
            self.alter(def, false)?;
        }
        Ok(())
    }

    /// Takes a view away that cannot be read any more; refused without CASCADE.
    pub(super) fn push_view(&mut self, view: &ViewDef, what: &str, cascade: bool) -> Result<(), EngineError> {
        if !cascade {
            return Err(depends(what, &format!("the view `{}`", view.name)));
        }
        self.push(SchemaChange::RemoveView {
            database: view.database.clone(),
            name: view.name.clone(),
        })
    }

    /// Takes the views away that stand on one of `gone`, and those that stand on them; refused without CASCADE.
    pub(super) fn drop_views(&mut self, gone: (&str, &str), what: &str, cascade: bool) -> Result<(), EngineError> {
        let mut gone: BTreeSet<(String, String)> = BTreeSet::from([(gone.0.to_owned(), gone.1.to_owned())]);
        while let Some(view) = self.view_on(&gone) {
            gone.insert((view.database.clone(), view.name.clone()));
            self.push_view(&view, what, cascade)?;
        }
        Ok(())
    }

    fn view_on(&self, gone: &BTreeSet<(String, String)>) -> Option<Arc<ViewDef>> {
        let mut views = self
            .catalog
            .databases()
            .flat_map(|database| self.catalog.views(database));
        views
            .find(|view| reads(view).iter().any(|name| gone.contains(name)))
            .map(Arc::clone)
    }
}

/// Something stands on what is to go.
pub(super) fn depends(what: &str, dependent: &str) -> EngineError {
    EngineError::Definition {
        message: format!("{what} cannot go, because {dependent} needs it"),
        sqlstate: "2BP01",
        help: Some("CASCADE takes it along".to_owned()),
    }
}

/// What a view reads, by database and name.
fn reads(view: &ViewDef) -> Vec<(String, String)> {
    struct Finder(Vec<Vec<String>>);
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
            self.0.extend(folded_parts(name));
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder(Vec::new());
    if let Ok(query) = parse_query(&view.sql) {
        // Looking cannot stop early.
        let _ = query.visit(&mut finder);
    }
    let names = finder.0.into_iter().filter_map(|mut parts| {
        let name = parts.pop()?;
        Some((parts.pop().unwrap_or_else(|| view.database.clone()), name))
    });
    names.collect()
}

/// The views that could be read before and cannot be read after.
pub(super) async fn broken_views(before: &Env, after: &Env) -> Vec<Arc<ViewDef>> {
    let mut broken = Vec::new();
    let catalog = before.names.definitions();
    for view in catalog.databases().flat_map(|database| catalog.views(database)) {
        if !is_readable(after, view).await && is_readable(before, view).await {
            broken.push(Arc::clone(view));
        }
    }
    broken
}

async fn is_readable(env: &Env, view: &ViewDef) -> bool {
    let Ok(query) = parse_query(&view.sql) else {
        return false;
    };
    env.in_database(&view.database).plan(&query).await.is_ok()
}
