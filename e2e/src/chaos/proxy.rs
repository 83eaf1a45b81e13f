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
const AHEAD: usize = 64;
/// One read in `STALL_EVERY` is stalled, for this long.
const STALL_EVERY: u32 = 10;
const STALL: Duration = Duration::from_millis(700);

/// From the client's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
}

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Everything is delayed by this.
    Latency(Duration),
    /// Some reads are held for a while, with all that follows.
    Stalls,
    /// Nothing passes. Connections open at that time are cut at the end of the fault.
    BlackHole,
    /// Nothing passes in this direction until the end of the fault; then it is delivered.
    Deaf(Way),
    /// Connections are reset, and new ones refused.
    Reset,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    trouble: Option<Trouble>,
    /// Connections opened under a lower number are cut.
    cut: u64,
}

impl State {
    fn holds(self, way: Way) -> bool {
        match self.trouble {
            Some(Trouble::BlackHole) => true,
            Some(Trouble::Deaf(deaf)) => deaf == way,
            _ => false,
        }
    }

    /// Returns the delay of the n-th read.
    fn delay(self, nth: u32) -> Duration {
        match self.trouble {
            Some(Trouble::Latency(late)) => late,
            Some(Trouble::Stalls) if nth.is_multiple_of(STALL_EVERY) => STALL,
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
    pub fn suffer(&self, trouble: Trouble) {
        self.state.send_modify(|state| {
            state.trouble = Some(trouble);
            state.cut += u64::from(trouble == Trouble::Reset);
        });
    }

    /// Removes the fault.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.cut += u64::from(state.trouble == Some(Trouble::BlackHole));
            state.trouble = None;
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
        if state.borrow().trouble == Some(Trouble::Reset) {
            break_off(&client);
        } else {
            tokio::spawn(carry(client, to, state.clone()));
        }
    }
}

/// Makes the connection end with a reset.
fn break_off(stream: &TcpStream) {
    // If the option cannot be set, the connection ends in an orderly way.
    let _ = stream.set_zero_linger();
}

/// Forwards one connection until it ends.
async fn carry(mut client: TcpStream, to: SocketAddr, state: watch::Receiver<State>) {
    let made_under = state.borrow().cut;
    let Ok(mut server) = TcpStream::connect(to).await else { return break_off(&client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let went_well = {
        let ((client_says, client_hears), (server_says, server_hears)) = (client.split(), server.split());
        let there = pump(client_says, server_hears, Way::There, state.clone());
        let back = pump(server_says, client_hears, Way::Back, state.clone());
        let mut watched = state;
        tokio::select! {
            ended = async { tokio::try_join!(there, back) } => ended.is_ok(),
            // An error means that the proxy was dropped.
            _ = watched.wait_for(|state| state.cut > made_under) => false,
        }
    };
    if !went_well {
        break_off(&client);
        break_off(&server);
    }
}

/// Forwards one direction until its source ends.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Way,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(AHEAD);
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
            if state.wait_for(|state| !state.holds(way)).await.is_err() {
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
    async fn linked() -> Proxy {
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

    async fn connected(proxy: &Proxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        said_back(&mut stream).await.unwrap();
        stream
    }

    async fn said_back(stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(b"well?").await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"well?");
        Ok(())
    }

    #[tokio::test]
    async fn a_healthy_link_carries_everything_to_its_end() {
        let proxy = linked().await;
        let mut stream = connected(&proxy).await;
        let much: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let (mut read, mut write) = stream.split();
        let say = async {
            write.write_all(&much).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let hear = async { read.read_to_end(&mut heard).await.unwrap() };
        tokio::join!(say, hear);
        assert!(heard == much);
    }

    #[tokio::test]
    async fn latency_comes_to_each_direction() {
        let proxy = linked().await;
        let mut stream = connected(&proxy).await;
        proxy.suffer(Trouble::Latency(Duration::from_millis(100)));
        let began = Instant::now();
        said_back(&mut stream).await.unwrap();
        assert!(began.elapsed() >= SOON, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn stalls_come_now_and_then() {
        let proxy = linked().await;
        let mut stream = connected(&proxy).await;
        proxy.suffer(Trouble::Stalls);
        let began = Instant::now();
        for _ in 0..STALL_EVERY {
            said_back(&mut stream).await.unwrap();
        }
        assert!(began.elapsed() >= STALL, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn what_goes_into_a_black_hole_is_lost_with_its_connection() {
        let proxy = linked().await;
        let mut stream = connected(&proxy).await;
        proxy.suffer(Trouble::BlackHole);
        let answer = tokio::time::timeout(SOON, said_back(&mut stream)).await;
        assert!(answer.is_err(), "nothing comes through: {answer:?}");
        proxy.heal();
        assert!(stream.read(&mut [0; 8]).await.is_err(), "it was cut");
        connected(&proxy).await;
    }

    #[tokio::test]
    async fn one_direction_alone_stands_still_and_goes_on() {
        for way in [Way::There, Way::Back] {
            let proxy = linked().await;
            let mut stream = connected(&proxy).await;
            proxy.suffer(Trouble::Deaf(way));
            let mut answer = [0; 5];
            stream.write_all(b"well?").await.unwrap();
            assert!(tokio::time::timeout(SOON, stream.read_exact(&mut answer)).await.is_err(), "{way:?}");
            proxy.heal();
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"well?", "{way:?}");
        }
    }

    #[tokio::test]
    async fn a_reset_breaks_connections_and_lets_nobody_in() {
        let proxy = linked().await;
        let mut stream = connected(&proxy).await;
        proxy.suffer(Trouble::Reset);
        assert!(stream.read(&mut [0; 8]).await.is_err(), "it broke");
        let refused = async {
            let mut next = TcpStream::connect(proxy.address()).await?;
            said_back(&mut next).await
        };
        assert!(refused.await.is_err());
        proxy.heal();
        connected(&proxy).await;
    }
}
