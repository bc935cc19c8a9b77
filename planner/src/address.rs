//! Which addresses of a peer may be told to a client.

use std::net::IpAddr;

use crate::PeerView;

/// Where clients reach a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertised<'a> {
    /// For native clients.
    pub(crate) address: &'a str,
    /// For HTTP, if the peer has such an address.
    pub(crate) http: Option<&'a str>,
}

/// `CLIENTS AT` and `HTTP AT`; a row that names neither falls back to `AT` for both. `None` if nothing that is left can
/// be dialled: a bind address such as `0.0.0.0:7401` leads a client to itself.
pub(crate) fn advertised(peer: &PeerView) -> Option<Advertised<'_>> {
    let at = Some(peer.at.as_str()).filter(|at| dialable(at));
    let clients = peer.clients_at.as_deref().filter(|at| dialable(at));
    let http = match (&peer.clients_at, &peer.http_at) {
        (None, None) => at,
        _ => peer.http_at.as_deref().filter(|at| dialable(at)),
    };
    let address = clients.or(at).or(http)?;
    Some(Advertised { address, http })
}

fn dialable(address: &str) -> bool {
    match address.as_bytes().first() {
        None => false,
        // Only these begin an unspecified address; everything else is not worth parsing, once per peer and verdict.
        Some(b'0' | b'[' | b':') => !unspecified(address),
        Some(_) => true,
    }
}

/// `0.0.0.0:1`, `[::]:1`, `:1`, in all spellings.
fn unspecified(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.is_empty() || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(at: &str, clients: Option<&str>, http: Option<&str>) -> PeerView {
        PeerView {
            node: "n1".into(),
            at: at.to_owned(),
            clients_at: clients.map(str::to_owned),
            http_at: http.map(str::to_owned),
            roles: Vec::new(),
            region: None,
            linked: true,
            heard: None,
        }
    }

    fn told(at: &str, clients: Option<&str>, http: Option<&str>) -> Option<(String, Option<String>)> {
        let peer = peer(at, clients, http);
        advertised(&peer).map(|told| (told.address.to_owned(), told.http.map(str::to_owned)))
    }

    /// S45, S44: a redirect names CLIENTS AT and HTTP AT; a row that names neither keeps naming AT; a row that names a
    /// client address but no HTTP one has none to give.
    #[test]
    fn s45_redirects_name_the_client_addresses_of_the_row() {
        let pair = |a: &str, h: &str| Some((a.to_owned(), Some(h.to_owned())));
        assert_eq!(told("n1:1", Some("c:2"), Some("h:3")), pair("c:2", "h:3"));
        assert_eq!(told("n1:1", None, Some("h:3")), pair("n1:1", "h:3"));
        assert_eq!(told("n1:1", None, None), pair("n1:1", "n1:1"));
        assert_eq!(told("n1:1", Some("c:2"), None), Some(("c:2".to_owned(), None)));
    }

    #[test]
    fn s45_a_bind_address_is_never_told() {
        assert_eq!(told("0.0.0.0:1", None, None), None);
        assert_eq!(told("[::]:1", None, None), None);
        assert_eq!(told(":1", None, None), None);
        assert_eq!(
            told("n1:1", Some("0.0.0.0:2"), Some("[::]:3")),
            Some(("n1:1".to_owned(), None))
        );
        let only_http = told("0.0.0.0:1", None, Some("10.0.0.1:3"));
        assert_eq!(
            only_http,
            Some(("10.0.0.1:3".to_owned(), Some("10.0.0.1:3".to_owned())))
        );
        assert!(!dialable("[0:0:0:0:0:0:0:0]:1") && !dialable("") && !dialable("0.0.0.0"));
        assert!(dialable("0.0.0.1:1") && dialable("[::1]:1") && dialable("localhost:1"));
    }
}
