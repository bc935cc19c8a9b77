//! Declared peers, as the `system` range lists them, and the links to them.

use std::sync::Arc;
use std::time::Duration;

use candor_proto::{NodeName, NodeState};
use candor_storage::ReplicaDef;

use super::Inner;
use crate::link::{PeerLink, dial};

/// One declared peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) def: Arc<ReplicaDef>,
    pub(super) link: Arc<PeerLink>,
}

impl Inner {
    /// Follows the declarations: dials new peers, lets removed ones go. Called at the start and after each change.
    pub(super) fn refresh_peers(self: &Arc<Self>) {
        let Ok(snapshot) = self.system.store.snapshot(None) else {
            unreachable!("the newest version of a range is always there");
        };
        let mut peers = self.peers.write();
        let next: Vec<Peer> = snapshot
            .catalog()
            .replicas()
            // A node that declares itself too, so that every node may run the same script, is no peer of its own.
            .filter(|def| def.name != self.cfg.node)
            .map(|def| self.keep_or_dial(&peers, def))
            .collect();
        for gone in peers
            .iter()
            .filter(|held| !next.iter().any(|kept| Arc::ptr_eq(&kept.link, &held.link)))
        {
            gone.link.stop.cancel();
        }
        self.awareness
            .write()
            .handle_declared(next.iter().map(|peer| peer.def.name.clone()));
        *peers = next.into();
        drop(peers);
        self.news.notify_one();
    }

    fn keep_or_dial(self: &Arc<Self>, held: &[Peer], def: &Arc<ReplicaDef>) -> Peer {
        let same = held
            .iter()
            .find(|peer| peer.def.name == def.name && peer.def.at == def.at);
        let link = if let Some(peer) = same {
            Arc::clone(&peer.link)
        } else {
            let link = Arc::new(PeerLink::new(self.stop.child_token()));
            if self.links.is_some() {
                self.spawn("dial", dial(Arc::clone(self), Arc::clone(def), Arc::clone(&link)));
            }
            link
        };
        Peer {
            def: Arc::clone(def),
            link,
        }
    }

    /// The declared peers now.
    pub(super) fn declared(&self) -> Arc<[Peer]> {
        Arc::clone(&self.peers.read())
    }

    /// The link to a declared peer.
    pub(crate) fn link_to(&self, node: &NodeName) -> Option<Arc<PeerLink>> {
        let peers = self.peers.read();
        peers
            .iter()
            .find(|peer| peer.def.name == *node)
            .map(|peer| Arc::clone(&peer.link))
    }

    /// A peer said this, some time after `made_after`.
    pub(crate) fn handle_heard(&self, made_after: Duration, state: NodeState) {
        if self.awareness.write().handle_state(made_after, state) {
            self.news.notify_one();
        }
    }
}
