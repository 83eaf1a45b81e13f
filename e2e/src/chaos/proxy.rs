//! A link between two processes that can be degraded: delayed, stalled, blocked in one direction, or broken.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Maximum bytes per read, and maximum reads that are buffered.
const CHUNK: usize = 16_384;
const MAX_BUFFERED_READS: usize = 64;
/// One read in `STALL_EVERY` is stalled, for this long.
const STALL_EVERY: u32 = 10;
const STALL: Duration = Duration::from_millis(700);

/// From the client's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// Everything is delayed by this.
    Latency(Duration),
    /// Some reads are held for a while, with all that follows.
    Stalls,
    /// Nothing passes. Connections open at that time are cut at the end of the fault.
    BlackHole,
    /// Nothing passes in this direction until the end of the fault; then it is delivered.
    Blocked(Direction),
    /// Connections are reset, and new ones rejected.
    Reset,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    link_fault: Option<LinkFault>,
    /// Connections opened under a lower number are cut.
    cut: u64,
}

impl State {
    fn blocks(self, direction: Direction) -> bool {
        match self.link_fault {
            Some(LinkFault::BlackHole) => true,
            Some(LinkFault::Blocked(blocked)) => blocked == direction,
            _ => false,
        }
    }

    /// Returns the delay of the n-th read.
    fn delay(self, nth: u32) -> Duration {
        match self.link_fault {
            Some(LinkFault::Latency(late)) => late,
            Some(LinkFault::Stalls) if nth.is_multiple_of(STALL_EVERY) => STALL,
            _ => Duration::ZERO,
        }
    }
}

/// A link to one address. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on loopback and forwards each connection to `to`.
    pub async fn start(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(State::default());
        let accepting = tokio::spawn(accept(listener, to, seen));
        Ok(Self { address, state, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault of the link, replacing any other.
    pub fn inject(&self, link_fault: LinkFault) {
        self.state.send_modify(|state| {
            state.link_fault = Some(link_fault);
            state.cut += u64::from(link_fault == LinkFault::Reset);
        });
    }

    /// Removes the fault.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.cut += u64::from(state.link_fault == Some(LinkFault::BlackHole));
            state.link_fault = None;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        // Dropping the sender ends all connections.
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, state: watch::Receiver<State>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if state.borrow().link_fault == Some(LinkFault::Reset) {
            reset_on_close(&client);
        } else {
            tokio::spawn(forward_connection(client, to, state.clone()));
        }
    }
}

/// Makes the connection end with a reset.
fn reset_on_close(stream: &TcpStream) {
    // If the option cannot be set, the connection ends in an orderly way.
    let _ = stream.set_zero_linger();
}

/// Forwards one connection until it ends.
async fn forward_connection(mut client: TcpStream, to: SocketAddr, state: watch::Receiver<State>) {
    let opened_at = state.borrow().cut;
    let Ok(mut server) = TcpStream::connect(to).await else { return reset_on_close(&client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let succeeded = {
        let ((client_says, client_hears), (server_says, server_hears)) = (client.split(), server.split());
        let there = forward(client_says, server_hears, Direction::ToServer, state.clone());
        let back = forward(server_says, client_hears, Direction::ToClient, state.clone());
        let mut watched = state;
        tokio::select! {
            ended = async { tokio::try_join!(there, back) } => ended.is_ok(),
            // An error means that the proxy was dropped.
            _ = watched.wait_for(|state| state.cut > opened_at) => false,
        }
    };
    if !succeeded {
        reset_on_close(&client);
        reset_on_close(&server);
    }
}

/// Forwards one direction until its source ends.
async fn forward(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(MAX_BUFFERED_READS);
    let seen = state.clone();
    let read = async move {
        let mut nth = 0_u32;
        loop {
            let mut chunk = vec![0; CHUNK];
            let length = from.read(&mut chunk).await?;
            if length == 0 {
                return io::Result::Ok(());
            }
            chunk.truncate(length);
            nth = nth.wrapping_add(1);
            let due = Instant::now() + seen.borrow().delay(nth);
            if sender.send((due, chunk)).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if state.wait_for(|state| !state.blocks(direction)).await.is_err() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            to.write_all(&chunk).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    /// Returns a link to an echo server.
    async fn start_echo_proxy() -> Proxy {
        let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = echo.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        Proxy::start(address).await.unwrap()
    }

    async fn connect(proxy: &Proxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_echo(&mut stream).await.unwrap();
        stream
    }

    async fn assert_echo(stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(b"well?").await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"well?");
        Ok(())
    }

    #[tokio::test]
    async fn healthy_link_forwards_everything() {
        let proxy = start_echo_proxy().await;
        let mut stream = connect(&proxy).await;
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let (mut read, mut write) = stream.split();
        let send = async {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let receive = async { read.read_to_end(&mut received).await.unwrap() };
        tokio::join!(send, receive);
        assert!(received == sent);
    }

    #[tokio::test]
    async fn latency_applies_to_each_direction() {
        let proxy = start_echo_proxy().await;
        let mut stream = connect(&proxy).await;
        proxy.inject(LinkFault::Latency(Duration::from_millis(100)));
        let began = Instant::now();
        assert_echo(&mut stream).await.unwrap();
        assert!(began.elapsed() >= SOON, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn stalls_occur_at_intervals() {
        let proxy = start_echo_proxy().await;
        let mut stream = connect(&proxy).await;
        proxy.inject(LinkFault::Stalls);
        let began = Instant::now();
        for _ in 0..STALL_EVERY {
            assert_echo(&mut stream).await.unwrap();
        }
        assert!(began.elapsed() >= STALL, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn black_hole_drops_data_and_cuts_connections() {
        let proxy = start_echo_proxy().await;
        let mut stream = connect(&proxy).await;
        proxy.inject(LinkFault::BlackHole);
        let answer = tokio::time::timeout(SOON, assert_echo(&mut stream)).await;
        assert!(answer.is_err(), "nothing comes through: {answer:?}");
        proxy.heal();
        assert!(stream.read(&mut [0; 8]).await.is_err(), "it was cut");
        connect(&proxy).await;
    }

    #[tokio::test]
    async fn blocked_direction_is_delivered_after_healing() {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let proxy = start_echo_proxy().await;
            let mut stream = connect(&proxy).await;
            proxy.inject(LinkFault::Blocked(direction));
            let mut answer = [0; 5];
            stream.write_all(b"well?").await.unwrap();
            assert!(tokio::time::timeout(SOON, stream.read_exact(&mut answer)).await.is_err(), "{direction:?}");
            proxy.heal();
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"well?", "{direction:?}");
        }
    }

    #[tokio::test]
    async fn reset_breaks_connections_and_rejects_new_ones() {
        let proxy = start_echo_proxy().await;
        let mut stream = connect(&proxy).await;
        proxy.inject(LinkFault::Reset);
        assert!(stream.read(&mut [0; 8]).await.is_err(), "it broke");
        let rejected = async {
            let mut next = TcpStream::connect(proxy.address()).await?;
            assert_echo(&mut next).await
        };
        assert!(rejected.await.is_err());
        proxy.heal();
        connect(&proxy).await;
    }
}
