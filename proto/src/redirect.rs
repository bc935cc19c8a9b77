//! Redirects: a typed answer that says where to go, never an error.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Epoch, NodeName, RangeName};

/// Whether following moves the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedirectKind {
    /// For writes and leader reads: the connection moves to the named node.
    Settled,
    /// For freshness: this request is answered there, the connection stays.
    Transient,
}

/// Why the request cannot be answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedirectReason {
    /// A write is decided by the leader.
    Write,
    /// The read said `ANSWERED BY LEADER`.
    AnsweredByLeader,
    /// This copy is older than the bound.
    Staleness,
    /// This copy has not reached the version asked for.
    Version,
    /// This node holds no copy of the range.
    NoCopy,
}

impl RedirectReason {
    /// The reason as it stands in answers and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::AnsweredByLeader => "answered_by_leader",
            Self::Staleness => "staleness",
            Self::Version => "version",
            Self::NoCopy => "no_copy",
        }
    }
}

/// Where to go: the node to expect there, how to reach it, and the epoch the answer was decided under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// Moves the session or not.
    pub kind: RedirectKind,
    /// The range that was asked.
    pub range: RangeName,
    /// The node to expect on arrival.
    pub node: NodeName,
    /// `host:port` for native clients.
    pub address: String,
    /// `host:port` for HTTP, `None` if that node has none.
    pub http: Option<String>,
    /// The leadership the target published; older than the receiver's means refused there.
    pub epoch: Epoch,
    /// Why not here.
    pub reason: RedirectReason,
}

/// What a request that follows a redirect says about itself: the `Candor-Redirected` header.
///
/// ```
/// use candor_proto::Redirected;
/// let r: Redirected = "node=n1; range=main; epoch=3; hops=1".parse().unwrap();
/// assert_eq!(r.hops, 1);
/// assert_eq!(r.to_string(), "node=n1; range=main; epoch=3; hops=1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// The node the redirect named.
    pub node: NodeName,
    /// The range the redirect named.
    pub range: RangeName,
    /// The epoch the redirect named.
    pub epoch: Epoch,
    /// How many redirects were followed, this one included.
    pub hops: u8,
}

impl Redirected {
    /// The name of the header that carries it.
    pub const HEADER: &'static str = "candor-redirected";
}

impl fmt::Display for Redirected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node={}; range={}; epoch={}; hops={}",
            self.node, self.range, self.epoch, self.hops
        )
    }
}

/// The header is not of the form `node=…; range=…; epoch=…; hops=…`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Candor-Redirected header must read `node=NAME; range=NAME; epoch=N; hops=N`, and {0}")]
pub struct RedirectedError(String);

impl FromStr for Redirected {
    type Err = RedirectedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut node, mut range, mut epoch, mut hops) = (None, None, None, None);
        for part in text.split(';') {
            let (key, value) = part
                .trim()
                .split_once('=')
                .ok_or_else(|| RedirectedError(format!("`{}` has no `=`", part.trim())))?;
            let number = || RedirectedError(format!("`{key}` is not a number"));
            match key {
                "node" => node = Some(NodeName::new(value)),
                "range" => range = Some(RangeName::new(value)),
                "epoch" => epoch = Some(Epoch(value.parse().map_err(|_| number())?)),
                "hops" => hops = Some(value.parse().map_err(|_| number())?),
                // Newer senders may say more.
                _ => {}
            }
        }
        let missing = |what: &str| RedirectedError(format!("`{what}` is missing"));
        Ok(Self {
            node: node.ok_or_else(|| missing("node"))?,
            range: range.ok_or_else(|| missing("range"))?,
            epoch: epoch.ok_or_else(|| missing("epoch"))?,
            hops: hops.ok_or_else(|| missing("hops"))?,
        })
    }
}
