//! Peer links: QUIC with mutual TLS, one connection per direction of a pair.
//!
//! The node that wants something dials: to greet the peers it declared, and to collect from one of them. The listener
//! only answers, on streams that the dialer opens, so no connection from a leader to its followers is ever needed.
//! What is for one purpose has a stream of its own: a bulk of entries never delays a greeting.
//!
//! Who the other side is comes from its certificate alone: the listener takes name and cluster from it, and the
//! dialer accepts only the certificate of the node it meant to reach. The life of a link and every byte on it are
//! described in `docs/links.md`.

mod collecting;
mod dialing;
mod listening;
mod sourcing;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use candor_proto::NodeName;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, IdleTimeout, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::CertificateDer;

pub(crate) use collecting::collect_range;
pub(crate) use dialing::{PeerLink, dial};
pub(crate) use listening::listen;

use crate::certs::{CertError, ClusterId, Credentials, Identity};
use crate::config::ClusterConfig;
use crate::error::ClusterError;
use crate::frame::{ALPN, RANGES_MAX};

/// Connections that peers may hold to this node; one more is refused. Ten times the largest cluster that is planned for.
const CONNECTIONS_MAX: usize = 1024;

/// Streams a peer may hold open at once: one greets, each range may be collected, and some are just ending.
const STREAMS_MAX: u32 = RANGES_MAX as u32 + 16;

/// Bytes in flight on one stream before the reader has to catch up: the largest ordinary answer, four times over.
const STREAM_WINDOW_BYTES: u32 = super::collect::WINDOW_BYTES;

/// A handshake that takes longer has failed.
pub(crate) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// A connection on which nothing is heard for this long is dead. Several awareness intervals, within reason.
const IDLE_INTERVALS: u32 = 5;
const IDLE_TIME_LEAST: Duration = Duration::from_secs(2);
const IDLE_TIME_MOST: Duration = Duration::from_secs(30);

/// Codes with which a connection is closed.
pub(crate) const CLOSED_STOPPING: VarInt = VarInt::from_u32(0);
pub(crate) const CLOSED_REFUSED: VarInt = VarInt::from_u32(1);
pub(crate) const CLOSED_PROTOCOL: VarInt = VarInt::from_u32(2);
pub(crate) const CLOSED_UNDECLARED: VarInt = VarInt::from_u32(3);

/// This node's end of all its links.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) endpoint: Endpoint,
    client: quinn::ClientConfig,
    pub(crate) cluster: ClusterId,
    /// How long a peer may be silent.
    pub(crate) idle: Duration,
}

impl Links {
    /// Listens and prepares to dial. Needs a running tokio runtime.
    pub(crate) fn bind(cfg: &ClusterConfig, credentials: Credentials) -> Result<Self, ClusterError> {
        let idle = (cfg.awareness * IDLE_INTERVALS).clamp(IDLE_TIME_LEAST, IDLE_TIME_MOST);
        let transport = Arc::new(transport(idle));
        let cluster = credentials.identity.cluster;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(credentials.authority.clone())?;
        let roots = Arc::new(roots);

        let mut server = quinn::ServerConfig::with_crypto(Arc::new(server_tls(&provider, &roots, &credentials)?));
        server.transport_config(Arc::clone(&transport));
        let mut client = quinn::ClientConfig::new(Arc::new(client_tls(&provider, roots, credentials)?));
        client.transport_config(transport);

        let bind = |source| ClusterError::Bind {
            addr: cfg.link_addr,
            source,
        };
        let endpoint = Endpoint::server(server, cfg.link_addr).map_err(bind)?;
        Ok(Self {
            endpoint,
            client,
            cluster,
            idle,
        })
    }
}

fn server_tls(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    credentials: &Credentials,
) -> Result<QuicServerConfig, ClusterError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![credentials.certificate.clone()], credentials.key.clone_key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    QuicServerConfig::try_from(tls).map_err(|error| rustls::Error::General(error.to_string()).into())
}

fn client_tls(
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    credentials: Credentials,
) -> Result<QuicClientConfig, ClusterError> {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![credentials.certificate], credentials.key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    QuicClientConfig::try_from(tls).map_err(|error| rustls::Error::General(error.to_string()).into())
}

fn transport(idle: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle_timeout = IdleTimeout::try_from(idle).expect("half a minute is a legal timeout");
    transport
        .max_idle_timeout(Some(idle_timeout))
        .keep_alive_interval(Some(idle / 4))
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(4 * STREAM_WINDOW_BYTES))
        .send_window(u64::from(4 * STREAM_WINDOW_BYTES))
        .datagram_receive_buffer_size(None);
    transport
}

/// Who is at the other end, from the certificate that the handshake verified.
fn identity(connection: &Connection) -> Result<Identity, CertError> {
    let chain = connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
        .ok_or(CertError::NotOurs("there is none"))?;
    let certificate = chain.first().ok_or(CertError::NotOurs("there is none"))?;
    Identity::of(certificate)
}

/// Whether the certificate at the other end is the one of `node` in `cluster`.
fn is_node(connection: &Connection, node: &NodeName, cluster: ClusterId) -> Result<(), CertError> {
    let found = identity(connection)?;
    if found.node != *node {
        return Err(CertError::NotOurs("it names another node than the one dialled"));
    }
    if found.cluster != cluster {
        return Err(CertError::NotOurs("it names another cluster"));
    }
    Ok(())
}
