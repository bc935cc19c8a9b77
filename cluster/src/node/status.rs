//! What a node says: to its planner, to its peers, to whoever asks for its state.

use std::time::Duration;

use candor_planner::{Heard, OwnCopy, OwnView, PeerView, View};
use candor_proto::{Epoch, Mode, NodeName, NodeState, Position, RangeId, RangeName, RangeReport, limits};
use candor_storage::ReplicaDef;

use super::Inner;
use super::peers::Peer;
use super::slot::{Slot, SlotKind};
use crate::awareness::{Awareness, Word};
use crate::certs::ClusterId;
use crate::clock::Token;
use crate::followers::FollowerRow;
use crate::frame::Greeting;

/// One declared peer, as `system.peers` shows it.
#[derive(Clone, Debug)]
pub struct PeerRow {
    /// The declaration.
    pub def: ReplicaDef,
    /// The link to it is up.
    pub linked: bool,
    /// Why the link is down.
    pub problem: Option<String>,
    /// Time since it was heard, at most.
    pub heard_ago: Option<Duration>,
    /// Its last word about itself.
    pub state: Option<NodeState>,
}

/// One namespace held here.
#[derive(Clone, Debug)]
pub struct CopyRow {
    /// Which.
    pub range: RangeName,
    /// Which range of that name.
    pub range_id: RangeId,
    /// This node leads it.
    pub leads: bool,
    /// The newest epoch known for it.
    pub epoch: Epoch,
    /// The last entry applied.
    pub position: Position,
    /// Upper bound on the age of the copy; `None` is beyond every bound.
    pub copy_age: Option<Duration>,
    /// Where it is collected from.
    pub upstream: Option<NodeName>,
    /// The upstream's committed tail, as it last said.
    pub tail: Option<Position>,
    /// Why collection does not get on.
    pub problem: Option<String>,
    /// Peers that hold another range of this name, which is never mixed with this one.
    pub foreign: Vec<(NodeName, RangeId)>,
}

impl Inner {
    /// Everything the planner decides from, from memory.
    pub(super) fn view(&self, range: &RangeName) -> View {
        let now = self.clock.now();
        let slot = self.slot(range);
        let peers = self.declared();
        let awareness = self.awareness.read();
        let id = slot
            .as_ref()
            .map(|slot| slot.store.id())
            .or_else(|| awareness.id_of(range));
        View {
            floor: limits::staleness_floor(self.cfg.awareness),
            awareness: self.cfg.awareness,
            own: self.own_view(now, slot.as_deref(), range, id, &awareness),
            peers: peers
                .iter()
                .map(|peer| peer_view(now, peer, range, id, &awareness))
                .collect(),
        }
    }

    fn own_view(
        &self,
        now: Duration,
        slot: Option<&Slot>,
        range: &RangeName,
        id: Option<RangeId>,
        awareness: &Awareness,
    ) -> OwnView {
        let heard = id.map_or(Epoch::ZERO, |id| awareness.newest_epoch(range, id));
        OwnView {
            node: self.cfg.node.clone(),
            region: self.cfg.region.clone(),
            known_epoch: slot.map_or(heard, |slot| slot.known_epoch(heard)),
            copy: slot.map(|slot| {
                // The age first: what it promises about is visible in every later look at the store.
                let copy_age = slot.copy_age(now);
                OwnCopy {
                    leads: slot.leads(heard),
                    position: slot.store.applied().0,
                    horizon: slot.store.horizon(),
                    copy_age,
                }
            }),
        }
    }

    /// This node's word about itself, for one greeting.
    pub(crate) fn greeting(&self, cluster: ClusterId, echo: Option<Token>) -> Greeting {
        Greeting {
            cluster,
            token: self.token(),
            echo,
            state: self.state(),
        }
    }

    fn state(&self) -> NodeState {
        let sequence = self.next_sequence();
        let now = self.clock.now();
        let slots = self.all_slots();
        let awareness = self.awareness.read();
        let ranges = slots.iter().map(|slot| report(now, slot, &awareness)).collect();
        NodeState {
            node: self.cfg.node.clone(),
            boot_id: self.boot_id,
            booted_at_ms: self.booted_at_ms,
            sequence,
            region: self.cfg.region.clone(),
            ranges,
            mode: Mode::Normal,
            draining: self.stop.is_cancelled(),
        }
    }

    pub(super) fn followers(&self, range: &RangeName) -> Vec<FollowerRow> {
        let Some((slot, led)) = self.led(range) else {
            return Vec::new();
        };
        let tail = slot.store.applied().0.index;
        led.followers.lock().rows(self.clock.now(), range, tail, |after, upto| {
            slot.store.bytes_between(after, upto)
        })
    }

    pub(super) fn peer_rows(&self) -> Vec<PeerRow> {
        let now = self.clock.now();
        // Before the other lock: whoever changes declarations takes them in this order.
        let peers = self.declared();
        let awareness = self.awareness.read();
        peers
            .iter()
            .map(|peer| {
                let word = awareness.word(&peer.def.name);
                PeerRow {
                    def: ReplicaDef::clone(&peer.def),
                    linked: peer.link.is_up(),
                    problem: peer.link.problem(),
                    heard_ago: word.map(|word| now.saturating_sub(word.made_after)),
                    state: word.map(Word::whole),
                }
            })
            .collect()
    }

    pub(super) fn copy_rows(&self) -> Vec<CopyRow> {
        let now = self.clock.now();
        let slots = self.all_slots();
        let awareness = self.awareness.read();
        slots.iter().map(|slot| copy_row(now, slot, &awareness)).collect()
    }
}

impl Slot {
    /// The newest epoch known for the range, when peers published `heard`.
    fn known_epoch(&self, heard: Epoch) -> Epoch {
        let own = match &self.kind {
            SlotKind::Led(led) => led.handle.epoch(),
            SlotKind::Collected(_) => self.store.applied().0.epoch,
        };
        own.max(heard)
    }

    /// Whether this node may write now. With one voter nobody can have taken the leadership meanwhile, so having won
    /// the epoch is the proof; a peer that publishes a newer epoch of the very range refutes it all the same.
    fn leads(&self, heard: Epoch) -> bool {
        self.led().is_some_and(|led| heard <= led.handle.epoch())
    }
}

fn report(now: Duration, slot: &Slot, awareness: &Awareness) -> RangeReport {
    let heard = awareness.newest_epoch(&slot.name, slot.store.id());
    let copy_age = slot.copy_age(now);
    let (position, chain) = slot.store.applied();
    RangeReport {
        range: slot.name.clone(),
        range_id: slot.store.id(),
        leads: slot.leads(heard),
        // Its own knowledge only: hearsay must not come back as confirmation.
        epoch: slot.known_epoch(Epoch::ZERO),
        position,
        chain,
        copy_age,
    }
}

fn copy_row(now: Duration, slot: &Slot, awareness: &Awareness) -> CopyRow {
    let id = slot.store.id();
    let heard = awareness.newest_epoch(&slot.name, id);
    let copy = slot.collected();
    CopyRow {
        range: slot.name.clone(),
        range_id: id,
        leads: slot.leads(heard),
        epoch: slot.known_epoch(heard),
        position: slot.store.applied().0,
        copy_age: slot.copy_age(now),
        upstream: copy.and_then(|copy| copy.upstream.borrow().clone()),
        tail: copy.and_then(|copy| copy.tail()),
        problem: copy.and_then(|copy| copy.problem()),
        foreign: awareness.foreign(&slot.name, id),
    }
}

fn peer_view(now: Duration, peer: &Peer, range: &RangeName, id: Option<RangeId>, awareness: &Awareness) -> PeerView {
    let def = &peer.def;
    let word = awareness.word(&def.name);
    PeerView {
        node: def.name.clone(),
        at: def.at.clone(),
        clients_at: def.clients_at.clone(),
        http_at: def.http_at.clone(),
        roles: def.roles.clone(),
        region: word
            .and_then(|word| word.state.region.clone())
            .or_else(|| def.region.clone()),
        linked: peer.link.is_up(),
        heard: word.map(|word| {
            let report = word.report(range).filter(|(report, _)| Some(report.range_id) == id);
            let made_after = report.map_or(word.made_after, |(_, made_after)| made_after);
            Heard {
                ago: now.saturating_sub(made_after),
                report: report.map(|(report, _)| report.clone()),
                draining: word.state.draining,
                mode: word.state.mode,
            }
        }),
    }
}
