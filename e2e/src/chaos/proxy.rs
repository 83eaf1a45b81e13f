//! A link between two processes that can be made bad: what goes over it is late, stands still, goes one way only or breaks.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Bytes that are read at a time, and how often until somebody takes them.
const CHUNK: usize = 16_384;
const AHEAD: usize = 64;
/// Of stalls: one read in so many is held for so long.
const STALL_EVERY: u32 = 10;
const STALL: Duration = Duration::from_millis(700);

/// From the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// All comes so much later.
    Latency(Duration),
    /// Now and then something stands still for a while, and all that follows behind it.
    Stalls,
    /// Nothing comes through; connections of that time are cut when it ends.
    BlackHole,
    /// Nothing comes through in this direction; it comes once that ends.
    Deaf(Way),
    /// Connections break, and nobody gets a new one.
    Reset,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    trouble: Option<Trouble>,
    /// Connections that were made under a lower number are cut.
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

    /// Of the n-th read.
    fn delay(self, nth: u32) -> Duration {
        match self.trouble {
            Some(Trouble::Latency(late)) => late,
            Some(Trouble::Stalls) if nth.is_multiple_of(STALL_EVERY) => STALL,
            _ => Duration::ZERO,
        }
    }
}

/// A link to one address. With this value it goes, and the connections over it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on loopback and connects whoever comes to `to`.
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

    /// From now on this is wrong, and nothing else.
    pub fn suffer(&self, trouble: Trouble) {
        self.state.send_modify(|state| {
            state.trouble = Some(trouble);
            state.cut += u64::from(trouble == Trouble::Reset);
        });
    }

    /// Nothing is wrong any more.
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
        // Whoever is connected sees the sender go.
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

/// Its end will be a reset.
fn break_off(stream: &TcpStream) {
    // If it cannot be set, the end is an orderly one.
    let _ = stream.set_zero_linger();
}

/// One connection to its end.
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
            // Or the proxy is gone.
            _ = watched.wait_for(|state| state.cut > made_under) => false,
        }
    };
    if !went_well {
        break_off(&client);
        break_off(&server);
    }
}

/// One direction, until its source ends.
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

    /// A link to somebody who says everything back.
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
