//! The dialer's side of a link: connect, greet each interval, connect again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use candor_storage::ReplicaDef;
use parking_lot::Mutex;
use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use super::{CLOSED_PROTOCOL, CLOSED_UNDECLARED, HANDSHAKE_TIME_MAX, Links, is_node};
use crate::certs::CertError;
use crate::clock::Token;
use crate::frame::{self, FrameError, Refusal, Reply, Request};
use crate::node::Inner;

/// The shortest wait before a link is dialled again; it doubles with each failure up to [`RETRY_MOST`].
const RETRY_LEAST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// The link to one declared peer.
#[derive(Debug)]
pub(crate) struct PeerLink {
    connection: watch::Sender<Option<Connection>>,
    problem: Mutex<Option<String>>,
    /// Ends the dialer when the peer is declared anew or removed.
    pub(crate) stop: CancellationToken,
}

impl PeerLink {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            connection: watch::Sender::new(None),
            problem: Mutex::new(None),
            stop,
        }
    }

    /// Whether the peer answers on this link.
    pub(crate) fn is_up(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// The connection while the peer answers on it.
    pub(crate) fn connection(&self) -> watch::Receiver<Option<Connection>> {
        self.connection.subscribe()
    }

    /// Why the link is down, in words.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }
}

/// Why a link went down, or did not come up.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("cannot resolve {at}: {source}")]
    Resolve { at: String, source: std::io::Error },
    #[error("{0} names no address")]
    NoAddress(String),
    #[error("cannot dial: {0}")]
    Dial(#[from] quinn::ConnectError),
    #[error("{0}")]
    Connection(#[from] quinn::ConnectionError),
    #[error("the handshake took longer than {HANDSHAKE_TIME_MAX:?}")]
    HandshakeTime,
    #[error(transparent)]
    Certificate(#[from] CertError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("refused by the peer: {0}")]
    Refused(Refusal),
    #[error("the peer left a greeting without an answer")]
    Silent,
    #[error("the peer ended the greetings")]
    Ended,
}

/// Keeps the link to a peer up until the peer is no longer declared or the node stops.
pub(crate) async fn dial(node: Arc<Inner>, def: Arc<ReplicaDef>, link: Arc<PeerLink>) {
    let Some(links) = &node.links else { return };
    let mut wait = RETRY_LEAST;
    loop {
        let error = tokio::select! {
            () = link.stop.cancelled() => break,
            error = live(&node, links, &def, &link, &mut wait) => error,
        };
        link.connection.send_replace(None);
        let words = error.to_string();
        let known = link
            .problem
            .lock()
            .replace(words.clone())
            .is_some_and(|earlier| earlier == words);
        if !known {
            tracing::warn!(peer = %def.name, at = %def.at, "link down: {words}");
        }
        tokio::select! {
            () = link.stop.cancelled() => break,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY_MOST),
        }
    }
    if let Some(connection) = link.connection.send_replace(None) {
        connection.close(CLOSED_UNDECLARED, b"no longer declared");
    }
}

/// One connection from its handshake to its end.
async fn live(node: &Inner, links: &Links, def: &ReplicaDef, link: &PeerLink, wait: &mut Duration) -> LinkError {
    let connection = match connect(links, def).await {
        Ok(connection) => connection,
        Err(error) => return error,
    };
    let Err(error) = greet(node, links, def, link, &connection, wait).await;
    connection.close(CLOSED_PROTOCOL, b"greetings ended");
    error
}

async fn connect(links: &Links, def: &ReplicaDef) -> Result<Connection, LinkError> {
    let resolve = |source| LinkError::Resolve {
        at: def.at.clone(),
        source,
    };
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(&def.at).await.map_err(resolve)?.collect();
    let mut last = LinkError::NoAddress(def.at.clone());
    for addr in addrs {
        match connect_to(links, def, addr).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(links: &Links, def: &ReplicaDef, addr: SocketAddr) -> Result<Connection, LinkError> {
    // The name is checked against the certificate by the handshake, too.
    let connecting = links
        .endpoint
        .connect_with(links.client.clone(), addr, def.name.as_str())?;
    let connection = timeout(HANDSHAKE_TIME_MAX, connecting)
        .await
        .map_err(|_| LinkError::HandshakeTime)??;
    is_node(&connection, &def.name, links.cluster)?;
    Ok(connection)
}

/// Greets at once and then each interval, until something fails.
async fn greet(
    node: &Inner,
    links: &Links,
    def: &ReplicaDef,
    link: &PeerLink,
    connection: &Connection,
    wait: &mut Duration,
) -> Result<std::convert::Infallible, LinkError> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let mut beat = tokio::time::interval(node.cfg.awareness);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut echo = None;
    loop {
        beat.tick().await;
        let answered = timeout(links.idle, exchange(node, links, def, (&mut send, &mut recv), echo)).await;
        echo = Some(answered.map_err(|_| LinkError::Silent)??);
        if !link.is_up() {
            tracing::info!(peer = %def.name, at = %def.at, "link up");
            *link.problem.lock() = None;
            *wait = RETRY_LEAST;
            link.connection.send_replace(Some(connection.clone()));
        }
    }
}

/// One greeting and its answer. Returns the peer's token, to be echoed in the next.
async fn exchange(
    node: &Inner,
    links: &Links,
    def: &ReplicaDef,
    (send, recv): (&mut SendStream, &mut RecvStream),
    echo: Option<Token>,
) -> Result<Token, LinkError> {
    let greeting = node.greeting(links.cluster, echo);
    let asked = greeting.token;
    frame::write(send, &Request::Greet(Box::new(greeting))).await?;
    match frame::read::<Reply>(recv).await? {
        Some(Reply::Greet(answer)) => {
            if answer.cluster != links.cluster {
                return Err(LinkError::Refused(Refusal::OtherCluster(answer.cluster)));
            }
            if answer.state.node != def.name {
                return Err(LinkError::Refused(Refusal::OtherNode));
            }
            // Made after our greeting arrived, so after it was sent.
            node.handle_heard(asked.instant(), answer.state);
            Ok(answer.token)
        }
        Some(Reply::Refused(refusal)) => Err(LinkError::Refused(refusal)),
        Some(_) => Err(FrameError::Unexpected.into()),
        None => Err(LinkError::Ended),
    }
}
