//! A UDP relay in front of a link port: the network between two nodes, which a test can break, also one way only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// The largest UDP payload.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// What a relay drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Nothing,
    /// What the dialled node sends back.
    Answers,
    Everything,
}

#[derive(Debug, Default)]
struct Weather {
    out: AtomicBool,
    back: AtomicBool,
    dropped: AtomicU64,
}

impl Weather {
    fn passes(&self, way: &AtomicBool) -> bool {
        let passes = !way.load(Ordering::Relaxed);
        if !passes {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        passes
    }
}

/// Passes packets on to one target; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Relay {
    addr: SocketAddr,
    weather: Arc<Weather>,
    _tasks: JoinSet<()>,
}

impl Relay {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let front = Arc::new(bind().await);
        let addr = front.local_addr().expect("bound");
        let weather = Arc::<Weather>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(pass(front, target, weather.clone()));
        Self {
            addr,
            weather,
            _tasks: tasks,
        }
    }

    /// Where the dialling node is told to dial.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn lose(&self, lost: Lost) {
        self.weather.out.store(lost == Lost::Everything, Ordering::Relaxed);
        self.weather.back.store(lost != Lost::Nothing, Ordering::Relaxed);
    }

    /// How many packets were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.weather.dropped.load(Ordering::Relaxed)
    }
}

async fn bind() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port")
}

/// Gives each dialling port a port of its own that faces the target. Errors of sending and receiving are what a network
/// does when the other end is away: silence.
async fn pass(front: Arc<UdpSocket>, target: SocketAddr, weather: Arc<Weather>) {
    let mut flows: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut readers = JoinSet::new();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let Ok((length, dialler)) = front.recv_from(&mut buffer).await else {
            continue;
        };
        let flow = match flows.entry(dialler) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let flow = Arc::new(bind().await);
                flow.connect(target).await.expect("loopback");
                readers.spawn(pass_back(flow.clone(), front.clone(), dialler, weather.clone()));
                new.insert(flow)
            }
        };
        if weather.passes(&weather.out) {
            let _ = flow.send(&buffer[..length]).await;
        }
    }
}

async fn pass_back(flow: Arc<UdpSocket>, front: Arc<UdpSocket>, dialler: SocketAddr, weather: Arc<Weather>) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        if let Ok(length) = flow.recv(&mut buffer).await
            && weather.passes(&weather.back)
        {
            let _ = front.send_to(&buffer[..length], dialler).await;
        }
    }
}
