//! Connections that send a load and measure latencies.

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

/// Status of an accepted request.
const ACCEPTED: &[u8; 3] = b"202";
/// Status of a request over the project's rate limit.
const REFUSED: &[u8; 3] = b"429";

/// The outcome of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Accepted requests.
    pub requests: u64,
    /// Requests rejected by their project's rate limit. Only loads built with `over_its_limit` allow these.
    pub refused: u64,
    /// Accepted items.
    pub items: u64,
    /// Events among the items, without repeats.
    pub events: u64,
    pub seconds: f64,
    /// In microseconds, sorted.
    latencies: Vec<u32>,
}

impl Outcome {
    /// Creates the outcome of items that were processed without requests.
    pub fn of_items(items: u64, seconds: f64) -> Self {
        Self { items, seconds, ..Self::default() }
    }

    pub fn items_per_second(&self) -> f64 {
        self.items as f64 / self.seconds
    }

    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Returns a latency quantile in milliseconds.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile(&self.latencies, q)
    }
}

/// Returns a quantile, in milliseconds, of sorted microseconds.
pub fn quantile(sorted: &[u32], q: f64) -> f64 {
    let index = (q * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(index).map_or(f64::NAN, |micros| f64::from(*micros) / 1e3)
}

/// Connections to one server with their prebuilt requests, reused for each load.
pub struct Sender {
    connections: Vec<Connection>,
    /// Items accepted since creation, readable while a load runs.
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
    /// Opens `connections` connections to a server and builds their requests, which takes a moment.
    pub async fn connect(to: SocketAddr, shape: Shape, connections: usize) -> Result<Self> {
        let host = to.to_string();
        let sent_at = rfc3339(Clock::system().now());
        // IDs must differ from those of earlier runs against the same database.
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

    /// Allows the load to exceed its projects' rate limits: 429 is counted and is not an error.
    #[must_use]
    pub fn over_its_limit(mut self) -> Self {
        self.connections.iter_mut().for_each(|connection| connection.may_be_refused = true);
        self
    }

    /// Sends for `time` and waits for the last responses. Any status but 202 is an error, unless 429 is allowed.
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

/// What one connection sent.
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
                    // The server is not charged for a timer that fires late.
                    since = Instant::now();
                } else {
                    // The previous response came late. The delayed request counts from the time when it was due.
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

/// Writes as much as the socket accepts at once, usually everything, without first waiting for readiness.
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
