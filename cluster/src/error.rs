//! What can fail, one enum per family of operations.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use candor_proto::{ErrorCode, NodeName, RangeName, Retry};
use candor_storage::{ApplyRefusal, RecordError, StorageError};

use crate::certs::CertError;

/// Why a node could not start, or lost something it cannot go on without.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A file or folder could not be used.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process runs on this data directory.
    #[error("another process uses the data directory {}", .0.display())]
    InUse(PathBuf),
    /// The data directory belongs to another node.
    #[error("the data directory {} belongs to node {owner}, not to {node}", path.display())]
    OtherNode {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: String,
        /// Who asked.
        node: NodeName,
    },
    /// The awareness interval is outside its range.
    #[error("the awareness interval is {given:?}; it may be {least:?} to {most:?}")]
    Awareness {
        /// What was configured.
        given: Duration,
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// A name that cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertError),
    /// The credentials do not make a TLS configuration.
    #[error("the certificates cannot be used for links")]
    Tls(#[from] rustls::Error),
    /// The link socket could not be bound.
    #[error("cannot listen for peers on {addr}")]
    Bind {
        /// The address.
        addr: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The file with the vote of a range does not hold what was written.
    #[error("the vote file {} is damaged: {why}", path.display())]
    VoteDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The range's log or tables.
    #[error("range {range}")]
    Storage {
        /// Which range.
        range: RangeName,
        /// What storage said.
        source: StorageError,
    },
    /// The Raft library refused; a defect, not a state of the cluster.
    #[error("range {range}: raft")]
    Raft {
        /// Which range.
        range: RangeName,
        /// What it said.
        source: raft::Error,
    },
}

/// A name that cannot be used for a node or a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}`: {why}")]
pub struct NameError {
    /// `node name` or `namespace`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The rule it breaks.
    pub why: &'static str,
}

/// Why a range could not be made, removed or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// This node does not lead the range, or holds no such range.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The transaction is larger than a log entry may be even after splitting.
    #[error("a row of the transaction takes {bytes} bytes in the log; at most {limit} fit")]
    TooLarge {
        /// How large.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The range exists here, or a peer publishes one of this name.
    #[error("namespace {0} exists already")]
    Exists(RangeName),
    /// A name that no range can have.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The node is stopping: whether the write took effect is known after its restart.
    #[error("the node is stopping")]
    Stopping,
    /// Rows in memory take all the room they may: they are on their way to disk.
    #[error("rows arrive faster than they are written to disk; try again in a moment")]
    Overloaded,
    /// The node holds as many ranges as it can publish.
    #[error("a node holds at most {limit} namespaces")]
    TooMany {
        /// How many.
        limit: usize,
    },
    /// The range could not be made or removed on disk.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Its own rows do not fit each other or their collection: nothing was proposed.
    #[error(transparent)]
    Refused(ApplyRefusal),
    /// A record could not be encoded.
    #[error("the transaction cannot be written to the log")]
    Encode(#[source] RecordError),
}

impl ProposeError {
    /// The code of the answer.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotLeader(_) => ErrorCode::NotLeader,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Exists(_) => ErrorCode::AlreadyExists,
            Self::Name(_) => ErrorCode::BadValue,
            Self::Stopping => ErrorCode::OutcomeUnknown,
            Self::Refused(refusal) => refusal.code(),
            Self::Overloaded => ErrorCode::Overloaded,
            Self::TooMany { .. } => ErrorCode::Unsupported,
            Self::Cluster(_) | Self::Encode(_) => ErrorCode::Internal,
        }
    }

    /// What the caller may do.
    pub fn retry(&self) -> Retry {
        self.code().retry()
    }
}

/// This node cannot prove that it leads the range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node} does not lead namespace {range}")]
pub struct NotLeader {
    /// Which node was asked.
    pub node: NodeName,
    /// Which range.
    pub range: RangeName,
}
