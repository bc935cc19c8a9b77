//! What the receiver of a redirected request checks before it decides again from its own view.

use candor_proto::limits::HOPS_MAX;
use candor_proto::{Epoch, NodeName, Redirected};

use crate::Refusal;

/// Whether a request that followed a redirect may be taken by `own`, which knows `known` as the range's newest epoch
/// (`Epoch::ZERO` if it knows none).
///
/// # Errors
/// `WrongNode` (421) for another node's request, `EpochStale` (409) for a redirect decided under a leadership that is
/// over, `RedirectLoop` (508) after more hops than a client follows.
///
/// ```
/// use candor_planner::{Refusal, arrive};
/// use candor_proto::Epoch;
/// let redirected = "node=n1; range=main; epoch=3; hops=1".parse().unwrap();
/// assert!(arrive(&redirected, &"n1".into(), Epoch(3)).is_ok());
/// assert!(matches!(arrive(&redirected, &"n1".into(), Epoch(4)), Err(Refusal::EpochStale { newest: Epoch(4), .. })));
/// ```
pub fn arrive(redirected: &Redirected, own: &NodeName, known: Epoch) -> Result<(), Refusal> {
    if redirected.node != *own {
        return Err(Refusal::WrongNode {
            expected: redirected.node.clone(),
            here: own.clone(),
        });
    }
    if redirected.epoch < known {
        let range = redirected.range.clone();
        return Err(Refusal::EpochStale {
            range,
            named: redirected.epoch,
            newest: known,
        });
    }
    if redirected.hops > HOPS_MAX {
        return Err(Refusal::RedirectLoop { hops: redirected.hops });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S19, S47, S50, S54: every combination of node, epoch and hops against the rule said in one line each.
    #[test]
    fn s54_a_redirect_is_taken_only_by_the_named_node_in_time_and_within_three_hops() {
        for node in ["n1", "n2"] {
            for named in 0..4 {
                for known in 0..4 {
                    for hops in 0..=5 {
                        let redirected = format!("node={node}; range=main; epoch={named}; hops={hops}");
                        let result = arrive(&redirected.parse().expect("header"), &"n1".into(), Epoch(known));
                        let code = result.err().map(|refusal| refusal.code().http_status());
                        let want = match () {
                            () if node != "n1" => Some(421),
                            () if named < known => Some(409),
                            () if hops > 3 => Some(508),
                            () => None,
                        };
                        assert_eq!(code, want, "{redirected}, known {known}");
                    }
                }
            }
        }
    }

    #[test]
    fn s54_the_refusal_names_the_newer_epoch() {
        let redirected = "node=n1; range=main; epoch=2; hops=1".parse().expect("header");
        let refusal = arrive(&redirected, &"n1".into(), Epoch(5)).expect_err("stale");
        let body = refusal.to_body();
        assert_eq!((body.code.as_str(), &body.facts["newest"]), ("epoch-stale", &5.into()));
        assert!(body.error.contains("epoch 5 has begun"), "{}", body.error);
        assert!(body.retryable);
    }
}
