//! What a node says about itself: INFO FOR documents, the tables of `system`, the cluster map. One set of facts each.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use candor_cluster::{FollowerRow, PeerRow};
use candor_parser::{InfoFor, QualifiedName};
use candor_proto::{ErrorBody, ErrorCode, RangeName};
use candor_storage::{CollectionDef, KeyKind, RangeStore, Snapshot};
use serde_json::{Value, json};

use crate::failure::Stop;
use crate::route::millis_up;
use crate::rows::{Output, Rows};
use crate::server::Shared;
use crate::statement::Run;

impl Run<'_> {
    /// INFO FOR …: one JSON document.
    pub(crate) fn info(&self, info: &InfoFor) -> Result<Output, Stop> {
        let doc = match info {
            InfoFor::Node => self.shared.node_info(),
            InfoFor::Root => json!({"namespaces": self.shared.range_docs()}),
            InfoFor::Namespace => {
                let (range, snapshot) = self.selected()?;
                json!({
                    "namespace": range,
                    "version": snapshot.version(),
                    "range": self.shared.range_doc(&range),
                    "databases": snapshot.catalog().databases().collect::<Vec<_>>(),
                })
            }
            InfoFor::Database => {
                let (_, snapshot) = self.selected()?;
                let database = self.session.database();
                let catalog = snapshot.catalog();
                json!({
                    "database": database,
                    "version": snapshot.version(),
                    "collections": catalog.collections(database).map(|def| collection_doc(def, &snapshot)).collect::<Vec<_>>(),
                    "views": catalog.views(database).map(|view| json!({"name": view.name, "sql": view.sql})).collect::<Vec<_>>(),
                })
            }
            InfoFor::Collection(name) => self.collection_info(name)?,
            _ => return Err(Stop::new(ErrorCode::Unsupported, "this node has no such INFO yet")),
        };
        let text = doc.to_string();
        Ok(self.local_rows(Rows::of_text(&["info"], &[vec![Some(text)]])?))
    }

    fn selected(&self) -> Result<(RangeName, Snapshot), Stop> {
        let range = self.session.range();
        let snapshot = self.shared.write_grounds(&range)?;
        Ok((range, snapshot))
    }

    fn collection_info(&self, name: &QualifiedName) -> Result<Value, Stop> {
        let (_, snapshot) = self.selected()?;
        let database = name.database.as_deref().unwrap_or(self.session.database());
        match snapshot.catalog().collection(database, &name.name) {
            Some(def) => {
                let mut doc = collection_doc(def, &snapshot);
                let store = self.shared.cluster.store(&self.session.range());
                doc["storage"] = store.map_or(Value::Null, |store| storage_doc(&store, Some(def)));
                Ok(doc)
            }
            None => Err(ErrorBody::new(
                ErrorCode::UnknownCollection,
                format!("there is no collection {database}.{}", name.name),
            )
            .with_span(name.span)
            .into()),
        }
    }
}

fn collection_doc(def: &CollectionDef, snapshot: &Snapshot) -> Value {
    let names = |ordinals: &[u32]| -> Vec<&str> {
        ordinals
            .iter()
            .filter_map(|ordinal| def.columns.get(*ordinal as usize))
            .map(|column| column.name.as_str())
            .collect()
    };
    json!({
        "name": def.name,
        "open": def.open,
        "rows": snapshot.table(def.id).map(|table| table.row_count()),
        "columns": def.columns.iter().map(|column| json!({
            "name": column.name,
            "type": snapshot.catalog().sql_name(column.ty),
            "nullable": column.nullable,
            "default": column.default,
        })).collect::<Vec<_>>(),
        "key": names(&def.key),
        "unique": def.keys.iter().filter(|key| key.kind == KeyKind::Unique).map(|key| names(&key.columns)).collect::<Vec<_>>(),
        "indexes": def.keys.iter().filter(|key| key.kind != KeyKind::Unique).map(|key| json!({
            "name": key.name,
            "columns": names(&key.columns),
            "unique": key.is_unique(),
        })).collect::<Vec<_>>(),
        "foreign_keys": def.foreign_keys.iter().map(|key| json!({
            "name": key.name,
            "columns": names(&key.columns),
            "references": snapshot.catalog().collection_by_id(key.parent).map(|parent| &parent.name),
        })).collect::<Vec<_>>(),
        "checks": def.checks.iter().map(|check| json!({"name": check.name, "check": check.sql})).collect::<Vec<_>>(),
    })
}

/// How a range, or one collection of it, is kept: rows in segments on disk and in memory, ended ones included.
fn storage_doc(store: &RangeStore, def: Option<&CollectionDef>) -> Value {
    let range = store.info();
    let mut doc = match def.map(|def| store.table_info(def.id).unwrap_or_default()) {
        Some(table) => json!({
            "segments": table.segments,
            "segment_rows": table.segment_rows,
            "segment_rows_ended": table.segment_ended,
            "segment_bytes": table.segment_bytes,
            "memory_rows": table.delta_rows,
            "memory_bytes": table.delta_bytes,
        }),
        None => json!({
            "segments": range.segments,
            "segment_rows": range.segment_rows,
            "segment_bytes": range.segment_bytes,
            "memory_rows": range.delta_rows,
            "memory_bytes": range.delta_bytes,
            "log_start": range.log_start,
            "log_bytes": range.log_bytes,
        }),
    };
    doc["horizon"] = json!(range.horizon);
    doc["checkpoint"] = json!(range.checkpoint);
    doc
}

fn millis(age: Option<Duration>) -> Option<u64> {
    age.map(millis_up)
}

impl Shared {
    fn node_info(&self) -> Value {
        let cluster = &self.cluster;
        let ranges = self.range_docs();
        let may_write = ranges.iter().any(|range| range["leads"] == true);
        json!({
            "node": cluster.name(),
            "boot_id": cluster.boot_id(),
            "version": env!("CARGO_PKG_VERSION"),
            "region": self.config.region,
            "http": self.http_addr().to_string(),
            "link": cluster.link_addr().map(|addr| addr.to_string()),
            "awareness_ms": millis_up(cluster.awareness()),
            "floor_ms": millis_up(candor_proto::limits::staleness_floor(cluster.awareness())),
            "may_write": may_write,
            "ranges": ranges,
            "cluster": {
                "peers": cluster.peers().iter().map(peer_doc).collect::<Vec<_>>(),
                "followers": self.followers().iter().map(follower_doc).collect::<Vec<_>>(),
            },
        })
    }

    fn followers(&self) -> Vec<FollowerRow> {
        self.cluster
            .ranges()
            .iter()
            .flat_map(|range| self.cluster.followers(range))
            .collect()
    }

    fn range_docs(&self) -> Vec<Value> {
        self.cluster
            .ranges()
            .iter()
            .map(|range| self.range_doc(range))
            .collect()
    }

    fn range_doc(&self, range: &RangeName) -> Value {
        let view = self.cluster.view(range);
        let store = self.cluster.store(range);
        let copy = view.own.copy.as_ref();
        let leads = copy.is_some_and(|copy| copy.leads);
        let status = self.cluster.copies().into_iter().find(|copy| copy.range == *range);
        json!({
            "range": range,
            "range_id": store.as_ref().map(|store| store.id()),
            "leads": leads,
            "leader": if leads { Some(self.cluster.name().clone()) } else { self.leader_of(range) },
            "epoch": view.own.known_epoch,
            "position": copy.map(|copy| copy.position.to_string()),
            "chain": store.as_ref().map(|store| store.applied().1),
            "horizon": copy.map(|copy| copy.horizon),
            "storage": store.as_ref().map(|store| storage_doc(store, None)),
            "copy_age_ms": millis(view.own_age()),
            "collects_from": self.cluster.upstream(range),
            "problem": status.as_ref().and_then(|copy| copy.problem.clone()),
            "foreign": status.map(|copy| copy.foreign).unwrap_or_default(),
        })
    }

    /// The peer that proved the newest leadership, as far as this node has heard.
    fn leader_of(&self, range: &RangeName) -> Option<candor_proto::NodeName> {
        let view = self.cluster.view(range);
        let newest = view.newest_epoch();
        let leads = |peer: &&candor_planner::PeerView| {
            peer.report()
                .is_some_and(|report| report.leads && report.epoch == newest)
        };
        view.peers.iter().find(leads).map(|peer| peer.node.clone())
    }

    /// Names, addresses and leaders: what a driver needs to go straight to the right node.
    pub(crate) fn cluster_map(&self) -> Value {
        json!({
            "node": self.cluster.name(),
            "http": self.http_addr().to_string(),
            "peers": self.cluster.peers().iter().map(|peer| json!({
                "name": peer.def.name,
                "at": peer.def.at,
                "clients_at": peer.def.clients_at,
                "http_at": peer.def.http_at,
                "region": peer.def.region,
                "linked": peer.linked,
            })).collect::<Vec<_>>(),
            "ranges": self.range_docs(),
        })
    }

    /// The tables of schema `system` as they are now.
    pub(crate) fn system_tables(&self) -> Result<Vec<(String, RecordBatch)>, Stop> {
        let peers: Vec<Value> = self.cluster.peers().iter().map(peer_doc).collect();
        let followers: Vec<Value> = self.followers().iter().map(follower_doc).collect();
        let ranges = self.range_docs();
        let settings = json!({
            "node": self.cluster.name(),
            "open": self.sessions.count(),
            "requests_in_flight": self.requests_in_flight(),
        });
        let tables = [
            ("peers", PEERS, peers),
            ("followers", FOLLOWERS, followers),
            ("ranges", RANGES, ranges),
            ("sessions", SESSIONS, vec![settings]),
        ];
        tables
            .into_iter()
            .map(|(name, columns, docs)| Ok((name.to_owned(), table(columns, &docs)?)))
            .collect()
    }
}

const PEERS: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("at", Kind::Text),
    ("clients_at", Kind::Text),
    ("http_at", Kind::Text),
    ("roles", Kind::Text),
    ("region", Kind::Text),
    ("linked", Kind::Bool),
    ("heard_ms_ago", Kind::Number),
];
const FOLLOWERS: &[(&str, Kind)] = &[
    ("node", Kind::Text),
    ("range", Kind::Text),
    ("position", Kind::Text),
    ("behind_entries", Kind::Number),
    ("behind_bytes", Kind::Number),
    ("quiet_for_ms", Kind::Number),
    ("copy_age_ms", Kind::Number),
];
const RANGES: &[(&str, Kind)] = &[
    ("range", Kind::Text),
    ("leads", Kind::Bool),
    ("leader", Kind::Text),
    ("epoch", Kind::Number),
    ("position", Kind::Text),
    ("chain", Kind::Text),
    ("horizon", Kind::Number),
    ("copy_age_ms", Kind::Number),
    ("collects_from", Kind::Text),
];
const SESSIONS: &[(&str, Kind)] = &[
    ("node", Kind::Text),
    ("open", Kind::Number),
    ("requests_in_flight", Kind::Number),
];

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Bool,
}

/// Documents of one shape as a table; a list becomes its elements joined by commas.
fn table(columns: &[(&str, Kind)], docs: &[Value]) -> Result<RecordBatch, Stop> {
    let arrays = columns.iter().map(|(name, kind)| {
        let values = docs.iter().map(|doc| &doc[*name]);
        let array: ArrayRef = match kind {
            Kind::Text => Arc::new(values.map(text).collect::<StringArray>()),
            Kind::Number => Arc::new(values.map(Value::as_i64).collect::<Int64Array>()),
            Kind::Bool => Arc::new(values.map(Value::as_bool).collect::<BooleanArray>()),
        };
        (*name, array, true)
    });
    RecordBatch::try_from_iter_with_nullable(arrays).map_err(|error| Stop::new(ErrorCode::Internal, error.to_string()))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(text).collect::<Vec<_>>().join(",")),
        other => Some(other.to_string()),
    }
}

fn peer_doc(peer: &PeerRow) -> Value {
    json!({
        "name": peer.def.name,
        "at": peer.def.at,
        "clients_at": peer.def.clients_at,
        "http_at": peer.def.http_at,
        "roles": peer.def.roles,
        "region": peer.def.region,
        "linked": peer.linked,
        "heard_ms_ago": millis(peer.heard_ago),
        "problem": peer.problem,
        "state": peer.state,
    })
}

fn follower_doc(follower: &FollowerRow) -> Value {
    json!({
        "node": follower.node,
        "range": follower.range,
        "position": follower.position.to_string(),
        "behind_entries": follower.behind_entries,
        "behind_bytes": follower.behind_bytes,
        "quiet_for_ms": millis_up(follower.quiet_for),
        "copy_age_ms": millis(follower.copy_age),
    })
}
