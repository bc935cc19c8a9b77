//! What travels over a link, and its bounded encoding. The format is described in `docs/links.md`.
//!
//! A frame is a length (`u32`, big endian) and that many bytes of one [`Request`] (dialer to listener) or [`Reply`]
//! (listener to dialer) in postcard. A length above the bound of its direction, a message that does not decode,
//! bytes left over and names or counts beyond their limits are errors: they end the stream and never panic, and no
//! memory is set aside for bytes that have not arrived.

use candor_proto::{Chain, NodeState, Position, RangeId, RangeName, limits};
use candor_storage::Entry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::certs::ClusterId;
use crate::clock::Token;

/// Names and version of this protocol in the TLS handshake. A node that speaks another version is refused there.
pub(crate) const ALPN: &[u8] = b"candor-link/1";

/// Ranges a node holds at most: what one greeting can publish.
pub(crate) const RANGES_MAX: usize = 1024;

/// The largest request, bytes. A greeting with [`RANGES_MAX`] reports of the longest names takes less.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 << 10;

/// The largest reply, bytes: one answer of collection, or one entry that exceeds it alone, and what stands around it.
pub(crate) const REPLY_BYTES_MAX: usize = limits::ENTRY_BYTES_MAX + (64 << 10);

/// The memory taken for a frame grows with what has arrived of it, in steps of this many bytes.
const READ_STEP_BYTES: usize = 256 << 10;

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;

/// Dialer to listener. The first request of a stream says what the stream is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Each of a greeting stream.
    Greet(Box<Greeting>),
    /// The first of a collection stream.
    Collect(Collect),
    /// Every later one of a collection stream.
    Ask(Ask),
}

/// Listener to dialer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Answers a greeting.
    Greet(Box<Greeting>),
    /// Entries of a collection stream, also none.
    Answer(Answer),
    /// The log asked from is not a prefix of this one; it is up to here.
    Behind {
        /// The newest position at which both agree.
        agreed: Position,
    },
    /// Nothing will be collected on this stream; the stream ends.
    Refused(Refusal),
}

/// A node's word about itself, and what the other side needs to date it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The cluster the sender belongs to.
    pub(crate) cluster: ClusterId,
    /// The sender's monotonic instant of sending.
    pub(crate) token: Token,
    /// The newest token the sender received on this connection before it made `state`: the receiver's own, so it
    /// knows that the state was made after that instant.
    pub(crate) echo: Option<Token>,
    /// The word itself.
    pub(crate) state: NodeState,
}

/// Opens a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Collect {
    /// Which range.
    pub(crate) range: RangeName,
    /// Which range of that name.
    pub(crate) range_id: RangeId,
    /// The last entry held, and the first ask.
    pub(crate) ask: Ask,
    /// An answer holds at most this many bytes of entries, unless one entry exceeds it alone.
    pub(crate) max_bytes: u32,
}

/// Where the follower stands now, and what it grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// The last entry applied.
    pub(crate) position: Position,
    /// The running hash there.
    pub(crate) chain: Chain,
    /// The follower's instant of asking; to be echoed with a tail confirmed after the ask arrived. `None`: only the
    /// position and the grant are news.
    pub(crate) sent_at: Option<Token>,
    /// Bytes of entries that may be sent in addition to what earlier asks granted.
    pub(crate) grant: u32,
}

/// Entries after the last ones sent on this stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Committed entries in order, without gaps.
    pub(crate) entries: Vec<Entry>,
    /// The leader's committed tail when it made the answer.
    pub(crate) tail: Position,
    /// The answer stops before the tail.
    pub(crate) more: bool,
    /// The proof of freshness, once per asked token.
    pub(crate) echo: Option<Echo>,
}

/// Whoever has applied `tail` holds everything that was committed before the follower sent `token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Echo {
    /// The follower's own.
    pub(crate) token: Token,
    /// The committed tail, proved after the ask arrived.
    pub(crate) tail: Position,
}

/// Why a listener does not serve a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the peer belongs to cluster {0}")]
    OtherCluster(ClusterId),
    #[error("the certificate and the greeting name different nodes")]
    OtherNode,
    #[error("the peer does not lead the range")]
    NotLeader,
    #[error("the peer's range of this name is another one, {0}")]
    Foreign(RangeId),
    #[error("the first stream of a link must greet")]
    NotGreeted,
    #[error("the peer's log does not reach back to this copy: snapshot-required")]
    SnapshotRequired,
}

/// Bytes that are no frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {size} bytes where at most {limit} are allowed")]
    TooLarge { size: usize, limit: usize },
    #[error("a frame that does not decode")]
    Malformed(#[from] postcard::Error),
    #[error("{0} bytes left over in a frame")]
    LeftOver(usize),
    #[error("{0} in a frame is beyond its limit")]
    Limit(&'static str),
    #[error("the stream ended inside a frame")]
    Truncated,
    #[error("the stream broke")]
    Read(#[from] quinn::ReadError),
    #[error("the stream broke")]
    Write(#[from] quinn::WriteError),
    #[error("a message that does not belong here")]
    Unexpected,
}

/// A message with limits beyond its length.
pub(crate) trait Message: Serialize + DeserializeOwned {
    /// The largest encoded form, bytes.
    const BYTES_MAX: usize;

    /// Refuses counts and names that the encoding allows and the protocol does not.
    fn check(&self) -> Result<(), FrameError>;
}

impl Message for Request {
    const BYTES_MAX: usize = REQUEST_BYTES_MAX;

    fn check(&self) -> Result<(), FrameError> {
        match self {
            Self::Greet(greeting) => check_state(&greeting.state),
            Self::Collect(collect) => check_name(collect.range.as_str()),
            Self::Ask(_) => Ok(()),
        }
    }
}

impl Message for Reply {
    const BYTES_MAX: usize = REPLY_BYTES_MAX;

    fn check(&self) -> Result<(), FrameError> {
        match self {
            Self::Greet(greeting) => check_state(&greeting.state),
            Self::Answer(_) | Self::Behind { .. } | Self::Refused(_) => Ok(()),
        }
    }
}

fn check_state(state: &NodeState) -> Result<(), FrameError> {
    check_name(state.node.as_str())?;
    state.region.as_deref().map_or(Ok(()), check_name)?;
    if state.ranges.len() > RANGES_MAX {
        return Err(FrameError::Limit("the number of ranges"));
    }
    state
        .ranges
        .iter()
        .try_for_each(|report| check_name(report.range.as_str()))
}

fn check_name(name: &str) -> Result<(), FrameError> {
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(FrameError::Limit("a name"));
    }
    Ok(())
}

/// The frame of a message: length and bytes.
pub(crate) fn encode<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = postcard::to_extend(message, vec![0; LENGTH_BYTES])?;
    let size = frame.len() - LENGTH_BYTES;
    if size > M::BYTES_MAX {
        return Err(FrameError::TooLarge {
            size,
            limit: M::BYTES_MAX,
        });
    }
    let length = u32::try_from(size).expect("the bound of a frame fits its length");
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// The message in the bytes after a length.
pub(crate) fn decode<M: Message>(bytes: &[u8]) -> Result<M, FrameError> {
    let (message, rest) = postcard::take_from_bytes::<M>(bytes)?;
    if !rest.is_empty() {
        return Err(FrameError::LeftOver(rest.len()));
    }
    message.check()?;
    Ok(message)
}

/// The length in front of a frame, if it is within the bound.
fn length<M: Message>(bytes: [u8; LENGTH_BYTES]) -> Result<usize, FrameError> {
    let size = u32::from_be_bytes(bytes) as usize;
    if size > M::BYTES_MAX {
        return Err(FrameError::TooLarge {
            size,
            limit: M::BYTES_MAX,
        });
    }
    Ok(size)
}

/// The next message of a stream, `None` at its end.
pub(crate) async fn read<M: Message>(stream: &mut quinn::RecvStream) -> Result<Option<M>, FrameError> {
    let mut header = [0; LENGTH_BYTES];
    match fill(stream, &mut header).await? {
        0 => return Ok(None),
        LENGTH_BYTES => {}
        _ => return Err(FrameError::Truncated),
    }
    let size = length::<M>(header)?;
    let mut bytes = Vec::new();
    while bytes.len() < size {
        let from = bytes.len();
        bytes.resize(size.min(from + READ_STEP_BYTES), 0);
        let wanted = bytes.len() - from;
        if fill(stream, &mut bytes[from..]).await? < wanted {
            return Err(FrameError::Truncated);
        }
    }
    decode(&bytes).map(Some)
}

/// Fills the buffer, or less at the end of the stream.
async fn fill(stream: &mut quinn::RecvStream, buffer: &mut [u8]) -> Result<usize, FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]).await? {
            Some(count) => filled += count,
            None => break,
        }
    }
    Ok(filled)
}

/// Writes one message.
pub(crate) async fn write<M: Message>(stream: &mut quinn::SendStream, message: &M) -> Result<(), FrameError> {
    let frame = encode(message)?;
    stream.write_all(&frame).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use candor_proto::{BootId, Epoch, LogIndex, Mode, NodeName, RangeReport};
    use proptest::prelude::*;

    use super::*;

    fn greeting(ranges: usize, name: &str) -> Greeting {
        let report = |n: usize| RangeReport {
            range: RangeName::new(format!("{n:0>63}")),
            range_id: RangeId(u128::MAX),
            leads: true,
            epoch: Epoch(u64::MAX),
            position: Position::new(Epoch(u64::MAX), LogIndex(u64::MAX)),
            chain: Chain(u128::MAX),
            copy_age: Some(Duration::MAX),
        };
        Greeting {
            cluster: "00112233445566778899aabbccddeeff".parse().expect("an id"),
            token: Token(u64::MAX),
            echo: Some(Token(u64::MAX)),
            state: NodeState {
                node: NodeName::new(name),
                boot_id: BootId(u128::MAX),
                booted_at_ms: u64::MAX,
                sequence: u64::MAX,
                region: Some("r".repeat(limits::NAME_BYTES_MAX)),
                ranges: (0..ranges).map(report).collect(),
                mode: Mode::Normal,
                draining: false,
            },
        }
    }

    fn samples() -> Vec<Request> {
        let ask = Ask {
            position: Position::new(Epoch(3), LogIndex(300)),
            chain: Chain(7),
            sent_at: Some(Token(12345)),
            grant: 1 << 20,
        };
        vec![
            Request::Greet(Box::new(greeting(2, "n1"))),
            Request::Ask(ask),
            Request::Collect(Collect {
                range: RangeName::new("main"),
                range_id: RangeId(9),
                ask,
                max_bytes: 1 << 20,
            }),
        ]
    }

    fn replies() -> Vec<Reply> {
        let entry = |index| {
            Entry::chained(
                Chain(0),
                Position::new(Epoch(1), LogIndex(index)),
                3,
                Bytes::from(vec![7; 40]),
            )
        };
        let position = Position::new(Epoch(1), LogIndex(2));
        vec![
            Reply::Greet(Box::new(greeting(1, "n2"))),
            Reply::Answer(Answer {
                entries: vec![entry(1), entry(2)],
                tail: position,
                more: false,
                echo: Some(Echo {
                    token: Token(5),
                    tail: position,
                }),
            }),
            Reply::Behind { agreed: position },
            Reply::Refused(Refusal::Foreign(RangeId(4))),
        ]
    }

    fn body<M: Message>(message: &M) -> Vec<u8> {
        encode(message).expect("encodes")[LENGTH_BYTES..].to_vec()
    }

    fn survives_damage<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
        let bytes = body(message);
        assert_eq!(decode::<M>(&bytes).expect("decodes"), *message);
        for length in 0..bytes.len() {
            assert!(
                decode::<M>(&bytes[..length]).is_err(),
                "{length} of {} bytes",
                bytes.len()
            );
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(matches!(decode::<M>(&longer), Err(FrameError::LeftOver(1))));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // TLS guards integrity; here a flipped bit may give another message, but no panic.
            let _ = decode::<M>(&flipped);
        }
    }

    #[test]
    fn messages_survive_a_round_trip_and_their_damage_is_an_error() {
        samples().iter().for_each(survives_damage);
        replies().iter().for_each(survives_damage);
    }

    #[test]
    fn the_largest_greeting_fits_and_a_larger_one_is_refused() {
        let largest = Request::Greet(Box::new(greeting(RANGES_MAX, &"n".repeat(limits::NAME_BYTES_MAX))));
        let bytes = body(&largest);
        assert!(bytes.len() <= REQUEST_BYTES_MAX);
        assert_eq!(decode::<Request>(&bytes).expect("decodes"), largest);
        let larger = Request::Greet(Box::new(greeting(RANGES_MAX + 1, "n1")));
        let bytes = postcard::to_allocvec(&larger).expect("encodes");
        assert!(matches!(
            decode::<Request>(&bytes),
            Err(FrameError::Limit("the number of ranges"))
        ));
        let long = Request::Greet(Box::new(greeting(0, &"n".repeat(limits::NAME_BYTES_MAX + 1))));
        let bytes = postcard::to_allocvec(&long).expect("encodes");
        assert!(matches!(decode::<Request>(&bytes), Err(FrameError::Limit("a name"))));
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_anything_is_read() {
        assert!(matches!(length::<Request>([0xff; 4]), Err(FrameError::TooLarge { .. })));
        let most = u32::try_from(REQUEST_BYTES_MAX).expect("fits");
        assert_eq!(
            length::<Request>(most.to_be_bytes()).expect("allowed"),
            REQUEST_BYTES_MAX
        );
        assert!(length::<Request>((most + 1).to_be_bytes()).is_err());
    }

    #[test]
    fn a_count_far_beyond_the_bytes_takes_no_memory_for_it() {
        // Reply::Answer with 2^63 entries announced and none there.
        let bytes = [1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(decode::<Reply>(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_are_errors_or_messages_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Reply>(&bytes);
        }
    }
}
