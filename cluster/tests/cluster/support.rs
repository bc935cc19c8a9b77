//! Nodes, tables and waiting for what must come.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use candor_cluster::{ClusterConfig, ClusterError, Committed, Node, certs};
use candor_proto::{LogIndex, NodeName, PeerRole, RangeName};
use candor_storage::{
    CollectionDef, CollectionId, ColumnDef, ColumnType, Outcome, ReplicaDef, SchemaChange, TableChange, Transaction,
};
use tempfile::TempDir;

pub(crate) const AWARENESS: Duration = Duration::from_millis(100);

/// Nothing here takes this long; a test that waits longer has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const ITEMS: CollectionId = CollectionId(1);

pub(crate) fn name(name: &str) -> NodeName {
    NodeName::new(name)
}

pub(crate) fn range(name: &str) -> RangeName {
    RangeName::new(name)
}

/// A folder with credentials of one cluster and the data of its nodes.
pub(crate) struct Fleet {
    dir: TempDir,
}

impl Fleet {
    pub(crate) fn new(nodes: &[&str]) -> Self {
        let fleet = Self {
            dir: tempfile::tempdir().expect("tempdir"),
        };
        let (first, others) = nodes.split_first().expect("a node");
        certs::init(&fleet.certs(), &name(first), &[]).expect("authority");
        for node in others {
            certs::issue(&fleet.certs(), &name(node), &[], &fleet.certs()).expect("certificate");
        }
        fleet
    }

    pub(crate) fn certs(&self) -> PathBuf {
        self.dir.path().join("certs")
    }

    pub(crate) fn data(&self, node: &str) -> PathBuf {
        self.dir.path().join(node)
    }

    pub(crate) fn config(&self, node: &str, at: SocketAddr) -> ClusterConfig {
        ClusterConfig::new(name(node), self.data(node))
            .with_links(at, self.certs())
            .with_awareness(AWARENESS)
    }

    pub(crate) async fn start(&self, node: &str) -> Node {
        self.start_at(node, any_port()).await
    }

    /// A stopped node's socket closes a moment after its last handle is gone, so the address may be taken at first.
    pub(crate) async fn start_at(&self, node: &str, at: SocketAddr) -> Node {
        let until = Instant::now() + DEADLINE;
        loop {
            match Node::start(self.config(node, at)).await {
                Ok(node) => return node,
                Err(ClusterError::Bind { .. }) if Instant::now() < until => tokio::task::yield_now().await,
                Err(error) => panic!("{node} does not start: {error}"),
            }
        }
    }
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A node without links.
pub(crate) async fn alone(dir: &Path) -> Node {
    let cfg = ClusterConfig::new(name("n1"), dir).with_awareness(AWARENESS);
    Node::start(cfg).await.expect("starts")
}

/// `DEFINE REPLICA peer AT at` on `node`.
pub(crate) async fn declare(node: &Node, peer: &str, at: SocketAddr) {
    let def = ReplicaDef {
        name: name(peer),
        at: at.to_string(),
        clients_at: None,
        http_at: Some(format!("{peer}.example:80")),
        roles: vec![PeerRole::Writable],
        region: None,
    };
    system(node, SchemaChange::DefineReplica(def)).await;
}

/// `REMOVE REPLICA peer` on `node`.
pub(crate) async fn undeclare(node: &Node, peer: &str) {
    system(node, SchemaChange::RemoveReplica { name: name(peer) }).await;
}

async fn system(node: &Node, change: SchemaChange) {
    let transaction = Transaction {
        schema: vec![change],
        ..Transaction::default()
    };
    let committed = node.propose(&RangeName::system(), transaction).await.expect("proposes");
    assert!(matches!(committed.outcome, Outcome::Applied { .. }), "{committed:?}");
}

/// A namespace led by `node` with one table, `items (id BIGINT PRIMARY KEY, text TEXT)`.
pub(crate) async fn define(node: &Node, namespace: &str) {
    node.define_range(range(namespace)).await.expect("defines");
    let column = |name: &str, ty, nullable| ColumnDef {
        nullable,
        ..ColumnDef::new(name, ty)
    };
    let columns = [
        column("id", ColumnType::Int64, false),
        column("text", ColumnType::Text, true),
    ];
    let items = CollectionDef {
        key: vec![0],
        schema_version: 1,
        ..CollectionDef::new(ITEMS, "main", "items", columns)
    };
    let transaction = Transaction {
        schema: vec![
            SchemaChange::DefineDatabase {
                name: "main".to_owned(),
            },
            SchemaChange::DefineCollection(items),
        ],
        ..Transaction::default()
    };
    let committed = node.propose(&range(namespace), transaction).await.expect("proposes");
    assert!(matches!(committed.outcome, Outcome::Applied { .. }), "{committed:?}");
}

pub(crate) fn rows(ids: std::ops::Range<i64>, width: usize) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, true),
    ]);
    let text = StringViewArray::from_iter_values(ids.clone().map(|id| text(id, width)));
    RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(text)],
    )
    .expect("batch")
}

/// Text that no compression makes small.
fn text(seed: i64, width: usize) -> String {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    (0..width)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + ((state >> 33) % 90) as u8)
        })
        .collect()
}

pub(crate) fn insert_rows(snapshot: LogIndex, batch: RecordBatch) -> Transaction {
    Transaction {
        snapshot,
        changes: vec![TableChange {
            collection: ITEMS,
            ended: None,
            begun: Some(batch),
        }],
        ..Transaction::default()
    }
}

/// Inserts rows and returns where they stand.
pub(crate) async fn insert(node: &Node, namespace: &str, ids: std::ops::Range<i64>, width: usize) -> Committed {
    let namespace = range(namespace);
    let snapshot = node.store(&namespace).expect("held").applied().0.index;
    let count = (ids.end - ids.start) as u64;
    let transaction = insert_rows(snapshot, rows(ids, width));
    let committed = node.propose(&namespace, transaction).await.expect("proposes");
    assert_eq!(committed.outcome, Outcome::Applied { ended: 0, begun: count });
    committed
}

/// Rows visible in a node's copy.
pub(crate) fn count(node: &Node, namespace: &str) -> usize {
    let Some(store) = node.store(&range(namespace)) else {
        return 0;
    };
    let snapshot = store.snapshot(None).expect("newest");
    snapshot.table(ITEMS).map_or(0, |table| table.row_count())
}

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until a copy is discovered and holds a version.
pub(crate) async fn reaches(node: &Node, namespace: &str, committed: &Committed) {
    eventually("the range is discovered", || node.store(&range(namespace)).is_some()).await;
    let there = node
        .wait_applied(&range(namespace), committed.position.index, DEADLINE)
        .await;
    assert!(there, "{} never reached {}", node.name(), committed.position);
}

/// Both hold the same history.
pub(crate) fn assert_same(one: &Node, other: &Node, namespace: &str) {
    let of = |node: &Node| node.store(&range(namespace)).expect("held").applied();
    assert_eq!(of(one), of(other));
}

pub(crate) async fn shutdown(nodes: &[&Node]) {
    for node in nodes {
        node.shutdown().await;
    }
}
