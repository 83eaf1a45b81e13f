//! Token buckets in Redis, from which several processes lease shares of a common limit.
//!
//! Callers never wait long for Redis: a lease takes at most 50 ms. After a broken connection or a few late answers,
//! Redis is not asked again until it answers a ping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, Script, TlsCertificates};
use tokio::sync::Notify;

use kernel::env::{Env, EnvError};
use kernel::shutdown::Shutdown;

/// Timeout of a lease.
const LEASE_TIMEOUT: Duration = Duration::from_millis(50);
/// Number of consecutive late answers after which Redis counts as unavailable.
const MAX_LATE_RESPONSES: u32 = 3;
const PING_TIMEOUT: Duration = Duration::from_millis(300);
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// A Redis server.
#[derive(Clone, Debug)]
pub struct Server(Client);

impl Server {
    /// Parses a URL such as `redis://127.0.0.1:6379`, or `rediss://` for TLS.
    pub fn parse(url: &str) -> RedisResult<Self> {
        Client::open(url).map(Self)
    }

    /// Reads `REDIS_URL`, and `REDIS_CA_FILE`: CA certificates (PEM) that are trusted instead of the public ones.
    /// Returns `None` if there is no URL.
    pub fn from_env(env: &Env) -> Result<Option<Self>, EnvError> {
        const NAME: &str = "REDIS_URL";
        // The URL may contain a password, so the error does not repeat it.
        let wrong = |_| EnvError {
            name: NAME.to_owned(),
            problem: "is not a Redis URL".to_owned(),
            allowed: "a URL such as redis://127.0.0.1:6379 or rediss://redis.example.com:6380",
        };
        let Some(url) = env.get(NAME) else { return Ok(None) };
        let server = Self::parse(url).map_err(wrong)?;
        match env.get("REDIS_CA_FILE") {
            Some(path) => server.trusting(path).map(Some),
            None => Ok(Some(server)),
        }
    }

    fn trusting(self, path: &str) -> Result<Self, EnvError> {
        let wrong = |problem: String| EnvError {
            name: "REDIS_CA_FILE".to_owned(),
            problem,
            allowed: "a file of certificates (PEM), if REDIS_URL begins with rediss://",
        };
        tls::read_ca_file(path).map_err(wrong)?;
        let root_cert = std::fs::read(path).map_err(|e| wrong(format!("{path}: {e}")))?;
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
        let connection = self.0.get_connection_info().clone();
        Client::build_with_tls(connection, certificates).map(Self).map_err(|e| wrong(e.to_string()))
    }

    pub fn client(&self) -> &Client {
        &self.0
    }
}

/// The properties of a bucket, and how much may be taken from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketTerms {
    /// Tokens added per second; greater than 0.
    pub rate: f64,
    /// Capacity of the bucket.
    pub capacity: f64,
    /// Tokens that must remain in it.
    pub reserve: f64,
}

/// Additional tokens of a bucket that only privileged callers may take. A fifth of the added tokens goes to them first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Priority {
    /// Capacity for these tokens: 0, or at least 1.
    pub capacity: f64,
    /// Whether this caller may take them.
    pub is_granted: bool,
}

/// Share of the added tokens that goes to [`Priority`] first, as in `lease.lua`.
pub const PRIORITY_SHARE: f64 = 0.2;

/// The result of a lease request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub taken: u32,
    /// Tokens that remain in the bucket.
    pub left: u32,
    /// Time until a token is available, if none was taken.
    pub wait: Duration,
}

/// All buckets with one key prefix.
pub struct Buckets {
    client: Client,
    lease: Script,
    block: Script,
    prefix: String,
    /// `None` while Redis is unavailable.
    connection: ArcSwapOption<MultiplexedConnection>,
    late_responses: AtomicU32,
    lost: Notify,
    warned: AtomicBool,
}

impl Buckets {
    /// Connects in the background. `prefix` separates installations that share a server.
    pub fn start(server: Server, prefix: &str, shutdown: Shutdown) -> Arc<Self> {
        let buckets = Arc::new(Self {
            client: server.0,
            lease: Script::new(include_str!("lease.lua")),
            block: Script::new(include_str!("block.lua")),
            prefix: prefix.to_owned(),
            connection: ArcSwapOption::empty(),
            late_responses: AtomicU32::new(0),
            lost: Notify::new(),
            warned: AtomicBool::new(false),
        });
        tokio::spawn({
            let buckets = buckets.clone();
            async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = buckets.stay_connected() => {}
                }
            }
        });
        buckets
    }

    pub fn is_up(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Takes up to `wanted` tokens from a bucket. Returns `None` if Redis does not answer in time.
    pub async fn lease(&self, name: &str, terms: BucketTerms, wanted: u32) -> Option<Lease> {
        self.lease_with_priority(name, terms, Priority::default(), wanted).await
    }

    /// Like [`Buckets::lease`], for a bucket that keeps tokens for privileged callers.
    pub async fn lease_with_priority(
        &self,
        name: &str,
        terms: BucketTerms,
        priority: Priority,
        wanted: u32,
    ) -> Option<Lease> {
        let mut connection = self.connection.load_full().map(|c| (*c).clone())?;
        let mut invocation = self.lease.key(format!("{}{name}", self.prefix));
        invocation.arg(terms.rate).arg(terms.capacity).arg(terms.reserve).arg(wanted);
        invocation.arg(priority.capacity).arg(u8::from(priority.is_granted));
        let request = invocation.invoke_async::<(u32, u32, u64)>(&mut connection);
        let (taken, left, wait_ms) = self.record_response(tokio::time::timeout(LEASE_TIMEOUT, request).await.ok())?;
        Some(Lease { taken, left, wait: Duration::from_millis(wait_ms) })
    }

    /// Empties a bucket and blocks it for all processes for `time`, at most a minute, whatever their terms. Without
    /// Redis it has no effect.
    pub async fn block(&self, name: &str, terms: BucketTerms, time: Duration) {
        let Some(mut connection) = self.connection.load_full().map(|c| (*c).clone()) else { return };
        let mut invocation = self.block.key(format!("{}{name}", self.prefix));
        invocation.arg(terms.rate).arg(terms.capacity).arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let request = invocation.invoke_async::<()>(&mut connection);
        self.record_response(tokio::time::timeout(LEASE_TIMEOUT, request).await.ok());
    }

    /// Returns the answer, or `None` if it was late (`None`) or an error. Records whether Redis is available.
    fn record_response<T>(&self, answered: Option<RedisResult<T>>) -> Option<T> {
        match answered {
            Some(Ok(value)) => {
                self.late_responses.store(0, Ordering::Relaxed);
                Some(value)
            }
            Some(Err(error)) => {
                self.disconnect(&error.to_string());
                None
            }
            None => {
                if self.late_responses.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_LATE_RESPONSES {
                    self.disconnect("it did not respond in time");
                }
                None
            }
        }
    }

    fn disconnect(&self, why: &str) {
        if self.connection.swap(None).is_some() {
            self.warn(why);
            self.lost.notify_one();
        }
    }

    /// Logs once that Redis is unavailable, until it is back.
    fn warn(&self, why: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("Redis is unavailable ({why}): each process enforces its own share of the limits");
        }
    }

    async fn stay_connected(&self) {
        loop {
            match self.connect().await {
                Ok(connection) => {
                    self.late_responses.store(0, Ordering::Relaxed);
                    self.connection.store(Some(Arc::new(connection)));
                    if self.warned.swap(false, Ordering::Relaxed) {
                        tracing::info!("Redis is available again: the processes share the limits");
                    }
                    self.lost.notified().await;
                }
                Err(error) => self.warn(&error.to_string()),
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Opens a connection and checks it with a ping.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PING_TIMEOUT))
            .set_response_timeout(Some(PING_TIMEOUT));
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("PING").exec_async(&mut connection).await?;
        Ok(connection)
    }
}
