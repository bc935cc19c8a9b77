//! DEFINE, REMOVE and USE: namespaces and replicas are this node's own, the rest goes to the range's log.

use candor_parser::{Define, DefineReplica, DefineWhat, Remove, RemoveKind};
use candor_proto::{ErrorBody, ErrorCode, RangeName, limits};
use candor_storage::{Catalog, Outcome, ReplicaDef, SchemaChange, Transaction};

use crate::failure::Stop;
use crate::relations::Relations;
use crate::rows::Output;
use crate::server::Shared;
use crate::session::DEFAULT_NAME;
use crate::statement::{Effect, Evaluate, Run};
use crate::write::refused;

impl Run<'_> {
    pub(crate) async fn define(&mut self, define: &Define) -> Result<Output, Stop> {
        match &define.what {
            DefineWhat::Collection(collection) => {
                let range = self.range_of(&Relations::of(&collection.name))?;
                self.write(&range, &Relations::default(), Evaluate::Define(define))
                    .await
            }
            DefineWhat::Namespace(name) => {
                self.outside_transaction("DEFINE NAMESPACE")?;
                self.define_namespace(name, define.if_not_exists)
                    .await
                    .map_err(|stop| point(stop, define))
            }
            DefineWhat::Database { namespace, name } => {
                self.outside_transaction("DEFINE DATABASE")?;
                let namespace = namespace.as_deref().unwrap_or(self.session.namespace());
                let range = RangeName::new(namespace);
                check_name("database", name).map_err(|stop| point(stop, define))?;
                let change = SchemaChange::DefineDatabase { name: name.clone() };
                let exists = |catalog: &Catalog| catalog.has_database(name);
                self.change(
                    &range,
                    change,
                    exists,
                    Clash::of(define.if_not_exists, "database", name),
                )
                .await
            }
            DefineWhat::Replica(replica) => {
                self.outside_transaction("DEFINE REPLICA")?;
                self.define_replica(replica, define.if_not_exists)
                    .await
                    .map_err(|stop| point(stop, define))
            }
        }
    }

    async fn define_namespace(&mut self, name: &str, quiet: bool) -> Result<Output, Stop> {
        check_name("namespace", name)?;
        let range = RangeName::new(name);
        let view = self.shared.cluster.view(&range);
        let elsewhere = view.peers.iter().find(|peer| peer.report().is_some());
        if view.own.copy.is_some() || elsewhere.is_some() {
            return if quiet {
                Ok(self.done(Some(0)))
            } else {
                Err(exists("namespace", name))
            };
        }
        self.shared.cluster.define_range(range).await?;
        self.effect = Effect::Committed;
        Ok(self.done(Some(0)))
    }

    async fn define_replica(&mut self, replica: &DefineReplica, quiet: bool) -> Result<Output, Stop> {
        if replica.name == *self.shared.cluster.name() {
            return Err(Stop::new(
                ErrorCode::BadValue,
                format!("{} is this node: a replica is another one", replica.name),
            ));
        }
        for address in [Some(&replica.at), replica.clients_at.as_ref(), replica.http_at.as_ref()]
            .into_iter()
            .flatten()
        {
            check_address(address)?;
        }
        let change = SchemaChange::DefineReplica(ReplicaDef {
            name: replica.name.clone(),
            at: replica.at.clone(),
            clients_at: replica.clients_at.clone(),
            http_at: replica.http_at.clone(),
            roles: replica.roles.clone(),
            region: replica.region.clone(),
        });
        let exists = |catalog: &Catalog| catalog.replica(&replica.name).is_some();
        self.change(
            &RangeName::system(),
            change,
            exists,
            Clash::of(quiet, "replica", replica.name.as_str()),
        )
        .await
    }

    pub(crate) async fn remove(&mut self, remove: &Remove) -> Result<Output, Stop> {
        let names = || remove.names.iter();
        match remove.kind {
            RemoveKind::Collection | RemoveKind::View | RemoveKind::Index => {
                let first = names()
                    .next()
                    .ok_or_else(|| Stop::new(ErrorCode::Syntax, "nothing is named to remove"))?;
                let range = self.range_of(&Relations::of(first))?;
                self.write(&range, &Relations::default(), Evaluate::Remove(remove))
                    .await
            }
            RemoveKind::Namespace => {
                self.outside_transaction("REMOVE NAMESPACE")?;
                for name in names() {
                    let range = RangeName::new(&name.name);
                    if remove.if_exists && self.shared.cluster.store(&range).is_none() {
                        continue;
                    }
                    self.shared.admit_write(&range)?;
                    self.shared.cluster.remove_range(&range).await?;
                    self.effect = Effect::Committed;
                }
                Ok(self.done(Some(0)))
            }
            RemoveKind::Database => {
                self.outside_transaction("REMOVE DATABASE")?;
                let mut output = self.done(Some(0));
                for name in names() {
                    let namespace = name.database.as_deref().unwrap_or(self.session.namespace());
                    let range = RangeName::new(namespace);
                    let change = SchemaChange::RemoveDatabase {
                        name: name.name.clone(),
                    };
                    let missing = |catalog: &Catalog| !catalog.has_database(&name.name);
                    output = self
                        .change(
                            &range,
                            change,
                            missing,
                            Clash::missing(remove.if_exists, "database", &name.name),
                        )
                        .await?;
                }
                Ok(output)
            }
            RemoveKind::Replica => {
                self.outside_transaction("REMOVE REPLICA")?;
                let mut output = self.done(Some(0));
                for name in names() {
                    let node = candor_proto::NodeName::new(&name.name);
                    let missing = |catalog: &Catalog| catalog.replica(&node).is_none();
                    let change = SchemaChange::RemoveReplica { name: node.clone() };
                    let clash = Clash::missing(remove.if_exists, "replica", &name.name);
                    output = self.change(&RangeName::system(), change, missing, clash).await?;
                }
                Ok(output)
            }
        }
    }

    /// USE. A namespace that no node is known to hold is refused, but for the default one, which the first write makes.
    pub(crate) fn select(&mut self, namespace: Option<&str>, database: Option<&str>) -> Result<Output, Stop> {
        if let Some(name) = namespace {
            let range = RangeName::new(name);
            if let Some(transaction) = &self.session.transaction {
                transaction.check(Some(&range))?;
            }
            let view = self.shared.cluster.view(&range);
            let known = view.own.copy.is_some() || view.peers.iter().any(|peer| peer.report().is_some());
            if !known && !self.shared.may_make_default(&range) {
                return Err(candor_planner::Refusal::UnknownRange { range }.into());
            }
            if self.session.namespace.as_deref() != Some(name) {
                self.session.database = None;
            }
            self.session.namespace = Some(name.to_owned());
        }
        if let Some(name) = database {
            let range = self.session.range();
            if let Some(store) = self.shared.cluster.store(&range)
                && let Ok(snapshot) = store.snapshot(None)
                && !snapshot.catalog().has_database(name)
            {
                return Err(ErrorBody::new(
                    ErrorCode::UnknownNamespace,
                    format!(
                        "namespace {range} has no database {name} at version {} of this node's copy",
                        snapshot.version()
                    ),
                )
                .with_help(format!("DEFINE DATABASE {name};"))
                .into());
            }
            self.session.database = Some(name.to_owned());
        }
        Ok(self.done(None))
    }

    /// Commits one change of definitions, run again when another one came first.
    async fn change(
        &mut self,
        range: &RangeName,
        change: SchemaChange,
        clashes: impl Fn(&Catalog) -> bool,
        clash: Clash<'_>,
    ) -> Result<Output, Stop> {
        if range.as_str() != RangeName::SYSTEM {
            self.shared.ensure_default_range(range).await?;
            self.shared.admit_write(range)?;
        }
        for _ in 0..=limits::WRITE_REPLAYS_MAX {
            let snapshot = self.shared.write_grounds(range)?;
            if clashes(snapshot.catalog()) {
                return if clash.quiet {
                    Ok(self.done(Some(0)))
                } else {
                    Err(clash.stop())
                };
            }
            let transaction = Transaction {
                snapshot: snapshot.version(),
                schema: vec![change.clone()],
                changes: Vec::new(),
                parts: None,
                mutation: None,
            };
            let committed = self.propose(range, transaction).await?;
            match &committed.outcome {
                Outcome::Refused(refusal) if !matches!(refusal.code(), ErrorCode::Conflict) => {
                    return Err(refused(refusal));
                }
                Outcome::Refused(_) => self.shared.metrics.replay(),
                _ => {
                    let receipt = self.shared.write_receipt(range, committed.position);
                    return Ok(Output {
                        rows: None,
                        rows_affected: Some(0),
                        receipt,
                    });
                }
            }
        }
        Err(Stop::new(ErrorCode::Conflict, "other definitions kept coming first"))
    }

    fn outside_transaction(&self, what: &str) -> Result<(), Stop> {
        if self.session.transaction.is_some() {
            return Err(Stop::new(
                ErrorCode::TransactionState,
                format!("{what} cannot be part of a transaction"),
            ));
        }
        Ok(())
    }
}

impl Shared {
    /// The namespace `main` exists on a node of its own from its first write on. A node with declared peers never makes
    /// it by itself: it may be theirs.
    pub(crate) fn may_make_default(&self, range: &RangeName) -> bool {
        range.as_str() == DEFAULT_NAME && self.cluster.peers().is_empty()
    }

    /// Makes namespace and database `main` for a write that needs them, on a node without peers.
    pub(crate) async fn ensure_default_range(&self, range: &RangeName) -> Result<(), Stop> {
        if self.cluster.store(range).is_some() || !self.may_make_default(range) {
            return Ok(());
        }
        let _one_at_a_time = self.making_default.lock().await;
        if self.cluster.store(range).is_some() {
            return Ok(());
        }
        self.cluster.define_range(range.clone()).await?;
        let transaction = Transaction {
            snapshot: self.write_grounds(range)?.version(),
            schema: vec![SchemaChange::DefineDatabase {
                name: DEFAULT_NAME.to_owned(),
            }],
            changes: Vec::new(),
            parts: None,
            mutation: None,
        };
        self.cluster.propose(range, transaction).await?;
        Ok(())
    }
}

/// What happens when a definition is there already, or is not there to be removed.
struct Clash<'a> {
    quiet: bool,
    missing: bool,
    kind: &'static str,
    name: &'a str,
}

impl<'a> Clash<'a> {
    fn of(quiet: bool, kind: &'static str, name: &'a str) -> Self {
        Self {
            quiet,
            missing: false,
            kind,
            name,
        }
    }

    fn missing(quiet: bool, kind: &'static str, name: &'a str) -> Self {
        Self {
            quiet,
            missing: true,
            kind,
            name,
        }
    }

    fn stop(&self) -> Stop {
        if self.missing {
            let code = if self.kind == "database" {
                ErrorCode::UnknownNamespace
            } else {
                ErrorCode::UnknownName
            };
            return Stop::new(code, format!("there is no {} {}", self.kind, self.name));
        }
        exists(self.kind, self.name)
    }
}

fn exists(kind: &str, name: &str) -> Stop {
    ErrorBody::new(ErrorCode::AlreadyExists, format!("{kind} {name} exists already"))
        .with_help(format!(
            "DEFINE {} IF NOT EXISTS says nothing then",
            kind.to_uppercase()
        ))
        .into()
}

fn point(stop: Stop, define: &Define) -> Stop {
    match stop {
        Stop::Error(body) if body.span.is_none() => Stop::Error(Box::new(body.with_span(define.name_span))),
        stop => stop,
    }
}

/// A namespace is a folder on disk and both are header values: plain names only.
fn check_name(kind: &str, name: &str) -> Result<(), Stop> {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || !plain || name.starts_with('-') {
        return Err(Stop::new(
            ErrorCode::BadValue,
            format!(
                "`{name}` is no name for a {kind}: it takes 1 to {} letters, digits, `_` and `-`",
                limits::NAME_BYTES_MAX
            ),
        ));
    }
    if kind == "namespace" && name == RangeName::SYSTEM {
        return Err(Stop::new(ErrorCode::BadValue, "`system` is the node's own namespace"));
    }
    Ok(())
}

fn check_address(address: &str) -> Result<(), Stop> {
    let good = address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if good {
        return Ok(());
    }
    Err(
        ErrorBody::new(ErrorCode::BadValue, format!("`{address}` is no address"))
            .with_help("write 'host:port', for example '10.0.0.2:7501'")
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["main", "shop_2", "a-b", "Ü"] {
            assert_eq!(check_name("namespace", name).is_ok(), name.is_ascii(), "{name}");
        }
        for name in ["", "a;b", "../x", "a b", "-x", "system", &"x".repeat(64)] {
            assert!(check_name("namespace", name).is_err(), "{name}");
        }
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (address, good) in [
            ("127.0.0.1:7501", true),
            ("[::1]:7501", true),
            ("db-2.internal:9000", true),
            ("7501", false),
            (":1", false),
        ] {
            assert_eq!(check_address(address).is_ok(), good, "{address}");
        }
        for address in ["h:0", "h:70000", "u:p@h:1", "http://h:1", "h:"] {
            assert!(check_address(address).is_err(), "{address}");
        }
    }
}
