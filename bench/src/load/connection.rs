//! Connections that send a load and take its times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kernel::clock::{Clock, rfc3339};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::answer::Answers;
use super::pace::Pace;
use super::request::{Counts, Requests};
use super::shape::Shape;

/// What an accepted request is answered with.
const ACCEPTED: &[u8; 3] = b"202";
/// And one that is over the project's limit.
const REFUSED: &[u8; 3] = b"429";

/// What a load came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Those that were accepted.
    pub requests: u64,
    /// Those that were over the limit of their project; only of loads that may be.
    pub refused: u64,
    /// Accepted items.
    pub items: u64,
    /// Of those, events that were not sent before.
    pub events: u64,
    pub seconds: f64,
    /// In microseconds, sorted.
    latencies: Vec<u32>,
}

impl Outcome {
    /// Of items that were handled without requests.
    pub fn of_items(items: u64, seconds: f64) -> Self {
        Self { items, seconds, ..Self::default() }
    }

    pub fn items_per_second(&self) -> f64 {
        self.items as f64 / self.seconds
    }

    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// In milliseconds.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile(&self.latencies, q)
    }
}

/// Of sorted microseconds, in milliseconds.
pub fn quantile(sorted: &[u32], q: f64) -> f64 {
    let index = (q * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(index).map_or(f64::NAN, |micros| f64::from(*micros) / 1e3)
}

/// Connections to one server with their requests, used again and again.
pub struct Sender {
    connections: Vec<Connection>,
    /// Items that were accepted since this exists, readable while a load runs.
    pub accepted: Arc<AtomicU64>,
}

struct Connection {
    number: usize,
    stream: TcpStream,
    answers: Answers,
    requests: Requests,
    may_be_refused: bool,
}

impl Sender {
    /// `expected` connections to a server. Requests are made now, which takes a moment.
    pub async fn connect(to: SocketAddr, shape: Shape, connections: usize) -> Result<Self> {
        let host = to.to_string();
        let sent_at = rfc3339(Clock::system().now());
        // Ids must differ from those of earlier runs into the same database.
        let run: u64 = rand::random();
        let mut all = Vec::with_capacity(connections);
        for number in 0..connections {
            let stream = TcpStream::connect(to).await.with_context(|| format!("connecting to {to}"))?;
            stream.set_nodelay(true)?;
            let requests = Requests::new(shape, &host, number as u64, run ^ (number as u64).rotate_left(32), &sent_at);
            all.push(Connection { number, stream, answers: Answers::default(), requests, may_be_refused: false });
        }
        Ok(Self { connections: all, accepted: Arc::default() })
    }

    /// Lets the load be over the limit of its projects: 429 is no error then, and counted.
    #[must_use]
    pub fn over_its_limit(mut self) -> Self {
        self.connections.iter_mut().for_each(|connection| connection.may_be_refused = true);
        self
    }

    /// Sends for so long and waits for the last answers. Any answer but 202 is an error.
    pub async fn send(&mut self, pace: Pace, time: Duration) -> Result<Outcome> {
        let count = self.connections.len();
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for connection in self.connections.drain(..) {
            tasks.spawn(connection.send(count, pace, started, time, self.accepted.clone()));
        }
        let mut all = Outcome::default();
        while let Some(ended) = tasks.join_next().await {
            let Sent { connection, counts, refused, latencies } = ended??;
            all.refused += refused;
            all.items += counts.items;
            all.events += counts.events;
            all.latencies.extend(latencies);
            self.connections.push(connection);
        }
        all.seconds = started.elapsed().as_secs_f64();
        all.requests = all.latencies.len() as u64;
        all.latencies.sort_unstable();
        Ok(all)
    }
}

/// What one connection has sent.
struct Sent {
    connection: Connection,
    counts: Counts,
    refused: u64,
    /// In microseconds.
    latencies: Vec<u32>,
}

impl Connection {
    async fn send(
        mut self,
        connections: usize,
        pace: Pace,
        started: Instant,
        time: Duration,
        accepted: Arc<AtomicU64>,
    ) -> Result<Sent> {
        let clock = Clock::system();
        let (mut counts, mut refused, mut latencies) = (Counts::default(), 0, Vec::new());
        for nth in 0_u64.. {
            let mut since = Instant::now();
            if let Some(due) = pace.due(self.number, connections, nth) {
                if due >= time {
                    break;
                }
                let due = started + due;
                if due > since {
                    tokio::time::sleep_until(due.into()).await;
                    // A timer that fires late is not the server's doing.
                    since = Instant::now();
                } else {
                    // The last answer came late: what it holds up has waited since it was due.
                    since = due;
                }
            } else if started.elapsed() >= time {
                break;
            }
            let request = self.requests.next(clock.now_ms());
            write(&self.stream, &request.bytes).await?;
            let sent = request.counts;
            if !self.may_be_refused {
                self.answers.next(&mut self.stream, ACCEPTED).await?;
            } else if !self.answers.next_or(&mut self.stream, ACCEPTED, REFUSED).await? {
                refused += 1;
                continue;
            }
            latencies.push(u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX));
            counts.items += sent.items;
            counts.events += sent.events;
            accepted.fetch_add(sent.items, Ordering::Relaxed);
        }
        Ok(Sent { connection: self, counts, refused, latencies })
    }
}

/// As much as the socket takes at once, as a rule all of it, without asking first whether it is ready.
pub async fn write(stream: &TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
