//! The listener's side of links: who may come in, and what each stream is for.

use std::sync::Arc;

use candor_proto::NodeName;
use quinn::{Connection, Incoming as IncomingConnection, RecvStream, SendStream, VarInt};
use tokio::sync::watch;
use tokio::time::timeout;

use super::sourcing::serve_collection;
use super::stream::Incoming;
use super::{CLOSED_REFUSED, CONNECTIONS_MAX, HANDSHAKE_TIME_MAX, Links, identity};
use crate::clock::Token;
use crate::frame::{self, FrameError, Greeting, Refusal, Reply, Request};
use crate::node::Inner;

/// Accepts peers until the node stops.
pub(crate) async fn listen(node: Arc<Inner>) {
    let Some(links) = &node.links else { return };
    loop {
        let incoming = tokio::select! {
            () = node.stop.cancelled() => break,
            incoming = links.endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        if links.endpoint.open_connections() >= CONNECTIONS_MAX {
            tracing::warn!(from = %incoming.remote_address(), "too many peer links; refused");
            incoming.refuse();
            continue;
        }
        let peer = Arc::clone(&node);
        node.spawn("peer", async move { serve_connection(peer, incoming).await });
    }
}

async fn serve_connection(node: Arc<Inner>, incoming: IncomingConnection) {
    let from = incoming.remote_address();
    let Some(links) = &node.links else { return };
    let connection = match timeout(HANDSHAKE_TIME_MAX, incoming).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            tracing::warn!(%from, "peer refused: {error}");
            return;
        }
        Err(_) => {
            tracing::warn!(%from, "peer refused: its handshake took too long");
            return;
        }
    };
    match admit(links, &connection) {
        Ok(peer) => {
            tokio::select! {
                () = node.stop.cancelled() => {}
                () = serve_streams(&node, &connection, peer) => {}
            }
        }
        Err(words) => {
            tracing::warn!(%from, "peer refused: {words}");
            connection.close(CLOSED_REFUSED, words.as_bytes());
        }
    }
}

/// The node at the other end, if its certificate is one of this cluster. The handshake has checked the signature.
fn admit(links: &Links, connection: &Connection) -> Result<NodeName, String> {
    let found = identity(connection).map_err(|error| error.to_string())?;
    if found.cluster == links.cluster {
        Ok(found.node)
    } else {
        Err(Refusal::OtherCluster(found.cluster).to_string())
    }
}

async fn serve_streams(node: &Arc<Inner>, connection: &Connection, peer: NodeName) {
    // Nothing is served before the greeting showed which cluster the peer thinks it is in.
    let greeted = watch::Sender::new(false);
    while let Ok((send, recv)) = connection.accept_bi().await {
        let stream = Stream {
            node: Arc::clone(node),
            connection: connection.clone(),
            peer: peer.clone(),
            greeted: greeted.clone(),
            send,
        };
        // They end with the connection, or with the node.
        node.spawn("stream", stream.serve(recv));
    }
}

struct Stream {
    node: Arc<Inner>,
    connection: Connection,
    peer: NodeName,
    greeted: watch::Sender<bool>,
    send: SendStream,
}

impl Stream {
    async fn serve(mut self, recv: RecvStream) {
        let peer = self.peer.clone();
        let stop = self.node.stop.clone();
        let served = tokio::select! {
            () = stop.cancelled() => return,
            served = self.dispatch(Incoming::of(recv)) => served,
        };
        if let Err(error) = served {
            // A link that broke is nothing to tell: its dialer does.
            let broken = matches!(
                error,
                FrameError::Read(_) | FrameError::Write(_) | FrameError::Truncated
            );
            if !broken {
                tracing::warn!(%peer, "stream ended: {error}");
            }
        }
    }

    async fn dispatch(&mut self, mut requests: Incoming<Request>) -> Result<(), FrameError> {
        match requests.next().await.transpose()? {
            Some(Request::Greet(first)) => self.greetings(*first, requests).await,
            Some(Request::Collect(collect)) => {
                if *self.greeted.borrow() {
                    serve_collection(&self.node, &self.peer, collect, &mut self.send, requests).await
                } else {
                    self.refuse(Refusal::NotGreeted).await
                }
            }
            Some(Request::Ask(_)) => Err(FrameError::Unexpected),
            None => Ok(()),
        }
    }

    /// Answers each greeting with one.
    async fn greetings(&mut self, first: Greeting, mut requests: Incoming<Request>) -> Result<(), FrameError> {
        let Some(links) = &self.node.links else { return Ok(()) };
        let cluster = links.cluster;
        let mut next = Some(first);
        while let Some(greeting) = next {
            if greeting.cluster != cluster {
                return self.turn_away(Refusal::OtherCluster(greeting.cluster)).await;
            }
            if greeting.state.node != self.peer {
                return self.turn_away(Refusal::OtherNode).await;
            }
            self.hear(&greeting)?;
            self.greeted.send_replace(true);
            let answer = self.node.greeting(cluster, Some(greeting.token));
            frame::write(&mut self.send, &Reply::Greet(Box::new(answer))).await?;
            next = match requests.next().await.transpose()? {
                Some(Request::Greet(greeting)) => Some(*greeting),
                Some(_) => return Err(FrameError::Unexpected),
                None => None,
            };
        }
        Ok(())
    }

    /// Both learn from one greeting: what the dialer says counts here too, once it can be dated.
    fn hear(&self, greeting: &Greeting) -> Result<(), FrameError> {
        let Some(echo) = greeting.echo else { return Ok(()) };
        if echo > Token::of(self.node.clock.now()) {
            return Err(FrameError::Unexpected);
        }
        self.node.handle_heard(echo.instant(), greeting.state.clone());
        Ok(())
    }

    async fn refuse(&mut self, refusal: Refusal) -> Result<(), FrameError> {
        frame::write(&mut self.send, &Reply::Refused(refusal)).await?;
        // An error means that the peer is gone.
        let _ = self.send.finish();
        Ok(())
    }

    /// Says why, and closes the link once the peer has read it.
    async fn turn_away(&mut self, refusal: Refusal) -> Result<(), FrameError> {
        tracing::warn!(peer = %self.peer, "peer turned away: {refusal}");
        self.refuse(refusal).await?;
        let read = self.send.stopped();
        let _: Result<Result<Option<VarInt>, _>, _> = timeout(HANDSHAKE_TIME_MAX, read).await;
        self.connection.close(CLOSED_REFUSED, b"refused");
        Ok(())
    }
}
