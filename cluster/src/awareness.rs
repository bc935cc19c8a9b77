//! What this node has heard of its declared peers, and what follows from it: where to collect from, which ranges
//! exist, which epoch is the newest.
//!
//! A pure table. Each word is kept with the instant *after which it was surely made*: when a peer answers a greeting,
//! that is the instant at which the greeting was sent; when a peer greets by itself, the instant of the token it
//! echoes. So "published copy age + time since" bounds the age of a peer's copy whatever the network did in between,
//! and a word that cannot be dated is not kept.
//!
//! A word of an older process or an earlier one of the same process never replaces a newer one; within a newer word,
//! a report with an older epoch never replaces a newer report about the same range.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use candor_proto::{Epoch, NodeName, NodeState, RangeId, RangeName, RangeReport};

/// The latest word of every declared peer that said one.
#[derive(Debug, Default)]
pub(crate) struct Awareness {
    declared: BTreeSet<NodeName>,
    heard: BTreeMap<NodeName, Word>,
}

/// One peer's latest word.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// What it said, the ranges apart.
    pub(crate) state: NodeState,
    /// It was made after this instant.
    pub(crate) made_after: Duration,
    ranges: BTreeMap<RangeName, (RangeReport, Duration)>,
}

impl Word {
    /// Its report about a range, and the instant after which that was made.
    pub(crate) fn report(&self, range: &RangeName) -> Option<(&RangeReport, Duration)> {
        self.ranges.get(range).map(|(report, made_after)| (report, *made_after))
    }

    /// Everything it said, with the reports that count.
    pub(crate) fn whole(&self) -> NodeState {
        let mut state = self.state.clone();
        state.ranges = self.ranges.values().map(|(report, _)| report.clone()).collect();
        state
    }
}

/// A range that a peer says it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) node: NodeName,
    pub(crate) range_id: RangeId,
    pub(crate) epoch: Epoch,
}

impl Awareness {
    /// These are the declared peers from now on; what others said is forgotten.
    pub(crate) fn handle_declared(&mut self, peers: impl IntoIterator<Item = NodeName>) {
        self.declared = peers.into_iter().collect();
        let declared = &self.declared;
        self.heard.retain(|node, _| declared.contains(node));
    }

    /// A peer said this, some time after `made_after`. Returns whether it is news.
    pub(crate) fn handle_state(&mut self, made_after: Duration, mut state: NodeState) -> bool {
        if !self.declared.contains(&state.node) {
            return false;
        }
        let earlier = self.heard.remove(&state.node);
        if let Some(earlier) = earlier {
            // A later word that is dated worse says less about now than the one held.
            if !state.supersedes(&earlier.state) || made_after < earlier.made_after {
                self.heard.insert(earlier.state.node.clone(), earlier);
                return false;
            }
            let ranges = newer_reports(made_after, std::mem::take(&mut state.ranges), &earlier.ranges);
            self.keep(made_after, state, ranges);
        } else {
            let reports = std::mem::take(&mut state.ranges);
            self.keep(made_after, state, newer_reports(made_after, reports, &BTreeMap::new()));
        }
        true
    }

    fn keep(&mut self, made_after: Duration, state: NodeState, ranges: BTreeMap<RangeName, (RangeReport, Duration)>) {
        let word = Word {
            state,
            made_after,
            ranges,
        };
        self.heard.insert(word.state.node.clone(), word);
    }

    /// The latest word of a peer.
    pub(crate) fn word(&self, node: &NodeName) -> Option<&Word> {
        self.heard.get(node)
    }

    /// The newest epoch that any peer published for this very range.
    pub(crate) fn newest_epoch(&self, range: &RangeName, id: RangeId) -> Epoch {
        self.reports(range)
            .filter(|(_, report)| report.range_id == id)
            .map(|(_, report)| report.epoch)
            .max()
            .unwrap_or(Epoch::ZERO)
    }

    /// Where to collect a range from: the declared peer whose latest word says that it may write now, at the newest
    /// leadership, and never at one older than `known`. The declared role does not count.
    pub(crate) fn upstream(&self, range: &RangeName, id: RangeId, known: Epoch) -> Option<NodeName> {
        let known = known.max(self.newest_epoch(range, id));
        self.reports(range)
            .filter(|(_, report)| report.leads && report.range_id == id && report.epoch >= known)
            // Two leaders of one epoch cannot be; the name makes the choice the same each time all the same.
            .max_by(|(a, one), (b, two)| one.epoch.cmp(&two.epoch).then(b.cmp(a)))
            .map(|(node, _)| node.clone())
    }

    /// Every range that a declared peer says it leads, each with the offer of the newest epoch.
    pub(crate) fn offers(&self) -> BTreeMap<RangeName, Offer> {
        let mut offers: BTreeMap<RangeName, Offer> = BTreeMap::new();
        for (node, word) in &self.heard {
            for (report, _) in word.ranges.values().filter(|(report, _)| report.leads) {
                let better = offers.get(&report.range).is_none_or(|held| report.epoch > held.epoch);
                if better {
                    let offer = Offer {
                        node: node.clone(),
                        range_id: report.range_id,
                        epoch: report.epoch,
                    };
                    offers.insert(report.range.clone(), offer);
                }
            }
        }
        offers
    }

    /// Peers that hold another range of this name.
    pub(crate) fn foreign(&self, range: &RangeName, id: RangeId) -> Vec<(NodeName, RangeId)> {
        self.reports(range)
            .filter(|(_, report)| report.range_id != id)
            .map(|(node, report)| (node.clone(), report.range_id))
            .collect()
    }

    /// Which range of this name a node without a copy means: the one led at the newest epoch, or else anybody's.
    pub(crate) fn id_of(&self, range: &RangeName) -> Option<RangeId> {
        self.reports(range)
            .max_by_key(|(_, report)| (report.leads, report.epoch))
            .map(|(_, report)| report.range_id)
    }

    /// Whether any peer holds a range of this name.
    pub(crate) fn knows(&self, range: &RangeName) -> bool {
        self.reports(range).next().is_some()
    }

    fn reports<'a>(&'a self, range: &'a RangeName) -> impl Iterator<Item = (&'a NodeName, &'a RangeReport)> {
        self.heard
            .iter()
            .filter_map(move |(node, word)| word.ranges.get(range).map(|(report, _)| (node, report)))
    }
}

/// The reports of a newer word, except where an earlier one about the same range has a newer epoch.
fn newer_reports(
    made_after: Duration,
    reports: Vec<RangeReport>,
    earlier: &BTreeMap<RangeName, (RangeReport, Duration)>,
) -> BTreeMap<RangeName, (RangeReport, Duration)> {
    reports
        .into_iter()
        .map(|report| {
            let kept = earlier
                .get(&report.range)
                .filter(|(held, _)| held.range_id == report.range_id && held.epoch > report.epoch)
                .cloned();
            (report.range.clone(), kept.unwrap_or((report, made_after)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use candor_proto::{BootId, Chain, LogIndex, Mode, Position};

    use super::*;

    const ID: RangeId = RangeId(7);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn main() -> RangeName {
        RangeName::new("main")
    }

    fn report(leads: bool, epoch: u64, id: RangeId) -> RangeReport {
        RangeReport {
            range: main(),
            range_id: id,
            leads,
            epoch: Epoch(epoch),
            position: Position::new(Epoch(epoch), LogIndex(1)),
            chain: Chain(1),
            copy_age: leads.then_some(Duration::ZERO),
        }
    }

    fn state(node: &str, booted: u64, sequence: u64, ranges: Vec<RangeReport>) -> NodeState {
        NodeState {
            node: NodeName::new(node),
            boot_id: BootId(u128::from(booted)),
            booted_at_ms: booted,
            sequence,
            region: None,
            ranges,
            mode: Mode::Normal,
            draining: false,
        }
    }

    fn table() -> Awareness {
        let mut table = Awareness::default();
        table.handle_declared(["n1", "n2", "n3"].map(NodeName::new));
        table
    }

    #[test]
    fn s73_the_upstream_says_that_it_may_write_and_the_newer_leadership_wins() {
        let mut table = table();
        table.handle_state(s(1), state("n1", 1, 1, vec![report(true, 2, ID)]));
        table.handle_state(s(1), state("n2", 1, 1, vec![report(true, 3, ID)]));
        table.handle_state(s(1), state("n3", 1, 1, vec![report(false, 3, ID)]));
        assert_eq!(table.upstream(&main(), ID, Epoch(1)), Some(NodeName::new("n2")));
        // The newer one steps down: nobody leads at the newest epoch, and an older one is not gone back to.
        table.handle_state(s(2), state("n2", 1, 2, vec![report(false, 3, ID)]));
        assert_eq!(table.upstream(&main(), ID, Epoch(1)), None);
    }

    #[test]
    fn s73_a_leadership_older_than_the_own_log_is_not_followed() {
        let mut table = table();
        table.handle_state(s(1), state("n1", 1, 1, vec![report(true, 2, ID)]));
        assert_eq!(table.upstream(&main(), ID, Epoch(3)), None);
        assert_eq!(table.upstream(&main(), ID, Epoch(2)), Some(NodeName::new("n1")));
    }

    #[test]
    fn s74_nobody_is_followed_before_the_first_greeting() {
        assert_eq!(table().upstream(&main(), ID, Epoch(0)), None);
        assert!(table().offers().is_empty());
    }

    #[test]
    fn another_range_of_the_name_is_reported_and_not_followed() {
        let mut table = table();
        table.handle_state(s(1), state("n1", 1, 1, vec![report(true, 9, RangeId(8))]));
        assert_eq!(table.upstream(&main(), ID, Epoch(0)), None);
        assert_eq!(table.newest_epoch(&main(), ID), Epoch::ZERO);
        assert_eq!(table.foreign(&main(), ID), vec![(NodeName::new("n1"), RangeId(8))]);
    }

    #[test]
    fn an_older_word_never_replaces_a_newer_one() {
        let mut table = table();
        assert!(table.handle_state(s(1), state("n1", 5, 3, vec![report(true, 2, ID)])));
        assert!(
            !table.handle_state(s(2), state("n1", 5, 3, vec![])),
            "the same sequence"
        );
        assert!(
            !table.handle_state(s(2), state("n1", 5, 2, vec![])),
            "an earlier sequence"
        );
        assert!(!table.handle_state(s(2), state("n1", 4, 9, vec![])), "an older process");
        assert!(
            !table.handle_state(s(0), state("n1", 5, 9, vec![])),
            "a word dated worse"
        );
        assert!(
            table
                .word(&NodeName::new("n1"))
                .expect("heard")
                .report(&main())
                .is_some()
        );
        assert!(table.handle_state(s(2), state("n1", 6, 1, vec![])), "a newer process");
        assert!(
            table
                .word(&NodeName::new("n1"))
                .expect("heard")
                .report(&main())
                .is_none()
        );
    }

    #[test]
    fn an_older_epoch_in_a_newer_word_keeps_the_newer_report_and_its_date() {
        let mut table = table();
        table.handle_state(s(1), state("n1", 1, 1, vec![report(true, 5, ID)]));
        table.handle_state(s(9), state("n1", 1, 2, vec![report(true, 4, ID)]));
        let word = table.word(&NodeName::new("n1")).expect("heard");
        let (held, made_after) = word.report(&main()).expect("reported");
        assert_eq!((held.epoch, made_after), (Epoch(5), s(1)));
        assert_eq!(word.made_after, s(9));
    }

    #[test]
    fn strangers_and_removed_peers_are_not_heard() {
        let mut table = table();
        assert!(!table.handle_state(s(1), state("n9", 1, 1, vec![report(true, 9, ID)])));
        table.handle_state(s(1), state("n1", 1, 1, vec![report(true, 1, ID)]));
        table.handle_declared([NodeName::new("n2")]);
        assert!(table.word(&NodeName::new("n1")).is_none());
        assert!(!table.knows(&main()));
    }
}
