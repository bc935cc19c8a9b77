//! Which ports the demo's nodes listen on: the first free ones from a given number on.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// What a port is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// HTTP, TCP.
    Http,
    /// Peer links, UDP.
    Link,
}

impl Kind {
    fn is_free(self, port: u16) -> bool {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match self {
            Self::Http => TcpListener::bind(addr).is_ok(),
            Self::Link => UdpSocket::bind(addr).is_ok(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Link => "link",
        }
    }
}

/// The ports of `count` nodes, and the one line to say if some that come first are taken.
///
/// From 0 on they are all 0: the system chooses, and each node says what it got.
pub(crate) fn choose(kind: Kind, first: u16, count: usize) -> Option<(Vec<u16>, Option<String>)> {
    choose_with(first, count, |port| kind.is_free(port), kind.word())
}

fn choose_with(
    first: u16,
    count: usize,
    is_free: impl Fn(u16) -> bool,
    word: &str,
) -> Option<(Vec<u16>, Option<String>)> {
    if first == 0 {
        return Some((vec![0; count], None));
    }
    let (mut free, mut taken) = (Vec::with_capacity(count), Vec::new());
    for port in first..=u16::MAX {
        if free.len() == count {
            break;
        }
        if is_free(port) {
            free.push(port);
        } else {
            taken.push(port);
        }
    }
    if free.len() < count {
        return None;
    }
    let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let said = (!taken.is_empty()).then(|| format!("{word} ports taken: {}; using {}", list(&taken), list(&free)));
    Some((free, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_ports_are_skipped_and_said() {
        assert_eq!(
            choose_with(7401, 3, |_| true, "HTTP"),
            Some((vec![7401, 7402, 7403], None))
        );
        assert_eq!(
            choose_with(7401, 3, |port| port != 7402, "HTTP"),
            Some((
                vec![7401, 7403, 7404],
                Some("HTTP ports taken: 7402; using 7401, 7403, 7404".to_owned())
            ))
        );
        assert_eq!(choose_with(65_535, 2, |_| true, "HTTP"), None);
        assert_eq!(choose_with(0, 2, |_| false, "link"), Some((vec![0, 0], None)));
    }

    #[test]
    fn a_port_in_use_is_seen_as_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        assert!(!Kind::Http.is_free(listener.local_addr().expect("bound").port()));
    }
}
