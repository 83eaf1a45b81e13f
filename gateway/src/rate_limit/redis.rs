//! The projects' buckets in Redis, from which all gateways lease tokens.
//!
//! Redis is never waited for: a lease has 50 ms, and after a broken connection or some late answers nothing is asked of
//! it until it answers a ping again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use shared::ids::ProjectId;
use shared::shutdown::Shutdown;
use tokio::sync::Notify;

use super::BURST;

/// How long a lease may take.
const BUDGET: Duration = Duration::from_millis(50);
/// Late answers in a row after which Redis counts as gone.
const LATE: u32 = 3;
const PING_TIMEOUT: Duration = Duration::from_millis(300);
const PING_AGAIN: Duration = Duration::from_millis(500);

/// What came of asking for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub taken: u32,
    /// What the bucket still holds.
    pub left: u32,
    /// When there will be one, if none was taken.
    pub wait: Duration,
}

pub struct Redis {
    client: Client,
    script: Script,
    prefix: String,
    /// There while Redis is to be asked.
    connection: ArcSwapOption<MultiplexedConnection>,
    late: AtomicU32,
    lost: Notify,
    warned: AtomicBool,
}

impl Redis {
    /// Connects in the background; `prefix` keeps installations apart that share a server.
    pub fn start(url: &str, prefix: &str, shutdown: Shutdown) -> redis::RedisResult<Arc<Self>> {
        let redis = Arc::new(Self {
            client: Client::open(url)?,
            script: Script::new(include_str!("../rate_limit.lua")),
            prefix: format!("{prefix}rate-limit:"),
            connection: ArcSwapOption::empty(),
            late: AtomicU32::new(0),
            lost: Notify::new(),
            warned: AtomicBool::new(false),
        });
        tokio::spawn({
            let redis = redis.clone();
            async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = redis.stay_connected() => {}
                }
            }
        });
        Ok(redis)
    }

    pub fn is_up(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Takes up to `wanted` tokens of a project with `limit` requests a second; `None` when Redis cannot tell in time.
    pub async fn lease(&self, project: ProjectId, limit: u32, wanted: u32) -> Option<Lease> {
        let mut connection = self.connection.load_full().map(|c| (*c).clone())?;
        let mut invocation = self.script.key(format!("{}{project}", self.prefix));
        invocation.arg(limit).arg(limit.saturating_mul(BURST.get())).arg(wanted);
        let asked = invocation.invoke_async::<(u32, u32, u64)>(&mut connection);
        match tokio::time::timeout(BUDGET, asked).await {
            Ok(Ok((taken, left, wait_ms))) => {
                self.late.store(0, Ordering::Relaxed);
                Some(Lease { taken, left, wait: Duration::from_millis(wait_ms) })
            }
            Ok(Err(error)) => {
                self.give_up(&error.to_string());
                None
            }
            Err(_) => {
                if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE {
                    self.give_up("it does not answer in time");
                }
                None
            }
        }
    }

    fn give_up(&self, why: &str) {
        if self.connection.swap(None).is_some() {
            self.warn(why);
            self.lost.notify_one();
        }
    }

    /// Says once that Redis is gone, until it is back.
    fn warn(&self, why: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("Redis cannot be used ({why}): each gateway limits requests on its own");
        }
    }

    async fn stay_connected(&self) {
        loop {
            match self.connect().await {
                Ok(connection) => {
                    self.late.store(0, Ordering::Relaxed);
                    self.connection.store(Some(Arc::new(connection)));
                    if self.warned.swap(false, Ordering::Relaxed) {
                        tracing::info!("Redis is back: requests are limited together");
                    }
                    self.lost.notified().await;
                }
                Err(error) => self.warn(&error.to_string()),
            }
            tokio::time::sleep(PING_AGAIN).await;
        }
    }

    /// A connection that has just answered a ping.
    async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PING_TIMEOUT))
            .set_response_timeout(Some(PING_TIMEOUT));
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("PING").exec_async(&mut connection).await?;
        Ok(connection)
    }
}
