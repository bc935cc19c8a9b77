//! A UDP relay between two link ports, so that the demo can delay or drop what nodes say to each other.
//!
//! Each node is told that its peers are at addresses of relays: one relay for each ordered pair (who dials, who is
//! dialled). Answers come back the way the question went, so every packet between two nodes passes exactly one relay,
//! and what is done to a node is done to every relay that it is an end of. Packets keep their order; a queue that is
//! full drops, as a network does.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Packets that wait in one relay: at the default delay of a second more than the links of a demo ever send.
const PACKETS_MAX: usize = 16_384;

/// Dialling ports that one relay remembers. A node dials from one, and from another after each restart.
const FLOWS_MAX: usize = 64;

/// The largest UDP datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// What the network does to one node.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    delay_ms: AtomicU64,
    dropped: AtomicBool,
}

impl Weather {
    /// Holds back every packet for this long, each way.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Drops every packet, or no longer.
    pub(crate) fn drop_all(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// Fair weather again.
    pub(crate) fn clear(&self) {
        self.delay(Duration::ZERO);
        self.drop_all(false);
    }

    /// The delay and whether everything is dropped.
    pub(crate) fn now(&self) -> (Duration, bool) {
        (
            Duration::from_millis(self.delay_ms.load(Ordering::Relaxed)),
            self.dropped.load(Ordering::Relaxed),
        )
    }
}

/// The weather at both ends of a link.
#[derive(Clone, Debug)]
struct Ends([Arc<Weather>; 2]);

impl Ends {
    fn delay(&self) -> Duration {
        self.0.iter().map(|end| end.now().0).sum()
    }

    fn dropped(&self) -> bool {
        self.0.iter().any(|end| end.now().1)
    }
}

/// One relay; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Relay {
    addr: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Listens on a free port of loopback for packets to `target`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub(crate) async fn start(target: SocketAddr, ends: [Arc<Weather>; 2]) -> io::Result<Self> {
        let front = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let addr = front.local_addr()?;
        let (queue, packets) = mpsc::channel(PACKETS_MAX);
        let ends = Ends(ends);
        let mut tasks = JoinSet::new();
        tasks.spawn(deliver(front.clone(), ends.clone(), packets));
        tasks.spawn(accept(front, target, Intake { ends, queue }));
        Ok(Self { addr, _tasks: tasks })
    }

    /// Where nodes dial.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

#[derive(Debug)]
struct Packet {
    due: Instant,
    bytes: Vec<u8>,
    to: Way,
}

#[derive(Debug)]
enum Way {
    /// To the node that is dialled, from the flow's own port.
    Out(Arc<UdpSocket>),
    /// Back to the port that dialled.
    Back(SocketAddr),
}

#[derive(Clone, Debug)]
struct Intake {
    ends: Ends,
    queue: mpsc::Sender<Packet>,
}

impl Intake {
    fn take(&self, bytes: &[u8], to: Way) {
        if self.ends.dropped() {
            return;
        }
        let due = Instant::now() + self.ends.delay();
        // Full: dropped, as a network would.
        let _ = self.queue.try_send(Packet {
            due,
            bytes: bytes.to_vec(),
            to,
        });
    }
}

/// Sends packets when they are due. A partition that began meanwhile takes the waiting ones too.
async fn deliver(front: Arc<UdpSocket>, ends: Ends, mut packets: mpsc::Receiver<Packet>) {
    while let Some(packet) = packets.recv().await {
        tokio::time::sleep_until(packet.due).await;
        if ends.dropped() {
            continue;
        }
        // A target that is not there refuses; the links see silence, as they should.
        let _ = match packet.to {
            Way::Out(flow) => flow.send(&packet.bytes).await,
            Way::Back(dialler) => front.send_to(&packet.bytes, dialler).await,
        };
    }
}

/// Gives each dialling port a flow, a port of the relay's own that faces the target.
async fn accept(front: Arc<UdpSocket>, target: SocketAddr, intake: Intake) {
    let mut flows: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut readers = JoinSet::new();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let Ok((length, dialler)) = front.recv_from(&mut buffer).await else {
            continue;
        };
        if !flows.contains_key(&dialler) {
            if flows.len() >= FLOWS_MAX {
                // Old ports are of processes long gone; the living dial again within their idle timeout.
                flows.clear();
                readers.abort_all();
            }
            let Ok(flow) = open_flow(target).await else {
                continue;
            };
            readers.spawn(read_back(flow.clone(), dialler, intake.clone()));
            flows.insert(dialler, flow);
        }
        intake.take(&buffer[..length], Way::Out(flows[&dialler].clone()));
    }
}

async fn open_flow(target: SocketAddr) -> io::Result<Arc<UdpSocket>> {
    let flow = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    flow.connect(target).await?;
    Ok(Arc::new(flow))
}

async fn read_back(flow: Arc<UdpSocket>, dialler: SocketAddr, intake: Intake) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // A refusal is told once for each packet that was refused, so this does not spin.
        if let Ok(length) = flow.recv(&mut buffer).await {
            intake.take(&buffer[..length], Way::Back(dialler));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that sends back what it gets, and a socket that talks to it through a relay.
    async fn pair() -> (Relay, UdpSocket, [Arc<Weather>; 2]) {
        let echo = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let target = echo.local_addr().expect("bound");
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok((length, from)) = echo.recv_from(&mut buffer).await {
                echo.send_to(&buffer[..length], from).await.expect("sent");
            }
        });
        let ends = [Arc::<Weather>::default(), Arc::<Weather>::default()];
        let relay = Relay::start(target, ends.clone()).await.expect("started");
        let dialler = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        dialler.connect(relay.addr()).await.expect("connected");
        (relay, dialler, ends)
    }

    async fn answer(dialler: &UdpSocket, wait: Duration) -> Option<Vec<u8>> {
        let mut buffer = [0; 64];
        let length = tokio::time::timeout(wait, dialler.recv(&mut buffer))
            .await
            .ok()?
            .expect("received");
        Some(buffer[..length].to_vec())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn packets_pass_both_ways_in_order() {
        let (_relay, dialler, _ends) = pair().await;
        for n in 0..50_u8 {
            dialler.send(&[n]).await.expect("sent");
        }
        for n in 0..50_u8 {
            assert_eq!(answer(&dialler, LONG).await, Some(vec![n]));
        }
    }

    #[tokio::test]
    async fn delay_counts_each_way_at_either_end() {
        let (_relay, dialler, ends) = pair().await;
        ends[0].delay(Duration::from_millis(60));
        ends[1].delay(Duration::from_millis(40));
        let before = Instant::now();
        dialler.send(b"x").await.expect("sent");
        assert_eq!(answer(&dialler, LONG).await, Some(b"x".to_vec()));
        assert!(before.elapsed() >= Duration::from_millis(200), "{:?}", before.elapsed());
    }

    #[tokio::test]
    async fn a_partition_drops_and_ends() {
        let (_relay, dialler, ends) = pair().await;
        ends[1].drop_all(true);
        dialler.send(b"lost").await.expect("sent");
        assert_eq!(answer(&dialler, Duration::from_millis(100)).await, None);
        ends[1].clear();
        dialler.send(b"heard").await.expect("sent");
        assert_eq!(answer(&dialler, LONG).await, Some(b"heard".to_vec()));
    }

    #[tokio::test]
    async fn a_target_that_is_away_is_silence_until_it_is_back() {
        let ends = [Arc::<Weather>::default(), Arc::<Weather>::default()];
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let target = socket.local_addr().expect("bound");
        drop(socket);
        let relay = Relay::start(target, ends).await.expect("started");
        let dialler = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        dialler.connect(relay.addr()).await.expect("connected");
        dialler.send(b"lost").await.expect("sent");
        assert_eq!(answer(&dialler, Duration::from_millis(50)).await, None);
        let back = UdpSocket::bind(target).await.expect("the port is free again");
        dialler.send(b"heard").await.expect("sent");
        let mut buffer = [0; 64];
        let (length, _) = tokio::time::timeout(LONG, back.recv_from(&mut buffer))
            .await
            .expect("in time")
            .expect("received");
        assert_eq!(&buffer[..length], b"heard");
    }
}
