//! PostgreSQL: connections, the schema and its partitions, and the building blocks of statements.

pub mod by_project;
pub mod changes;
pub mod citus;
pub mod clock_jumps;
pub mod config;
pub mod connector;
pub mod due;
pub mod filter;
pub mod ingest_partitions;
pub mod jumps;
pub mod migrate;
pub mod migrations;
pub mod months;
pub mod server;
pub mod time_partitions;
pub mod workers;

use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use metrics::{Histogram, histogram};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use crate::config::DatabaseConfig;
use domain::message::Channel;
use kernel::clock::Clock;
use kernel::metric_name::Metric;

use self::connector::Connector;

pub use deadpool_postgres::{GenericClient, Object as Connection, Transaction};

/// Maximum number of readings of the database's time.
const MAX_READINGS: u32 = 3;
/// A round trip of at most this length needs no further reading.
const FAST_ROUND_TRIP_MS: i64 = 100;
/// How long a request waits for a connection before the database counts as unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// Parses a channel as columns store it.
pub fn channel(text: &str) -> Result<Channel, StoreError> {
    Channel::parse(text).ok_or_else(|| StoreError::Corrupt(format!("channel {text:?}")))
}

/// A database error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, or all connections are in use.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    #[error("{}", describe(.0))]
    Query(#[from] tokio_postgres::Error),
    /// A row contains a value that this program cannot decode.
    #[error("unreadable row: {0}")]
    Corrupt(String),
}

/// Describes an error. tokio-postgres displays only "db error"; the server's message is in the source.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(fault) = connector::tls_fault(error) {
        return connector::describe_tls_error(error, fault);
    }
    if connector::is_read_only(error) {
        return "no host of DATABASE_URL takes writes: each server that answers is a standby or read-only".to_owned();
    }
    match error.as_db_error() {
        Some(db) => format!(
            "{} ({}){}",
            db.message(),
            db.code().code(),
            db.detail().map(|d| format!(": {d}")).unwrap_or_default()
        ),
        None => {
            let cause = kernel::cause::root_message(error);
            if cause == error.to_string() { cause } else { format!("{error}: {cause}") }
        }
    }
}

impl StoreError {
    /// Returns whether a retry may succeed without a change of the data or the program.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Corrupt(_) => false,
            Self::Query(error) => {
                error.is_closed()
                    || match error.code() {
                        // No response from the server: the connection broke.
                        None => {
                            std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
                        }
                        Some(code) => is_transient(code),
                    }
            }
        }
    }

    /// Returns whether the values themselves caused the error, so that a retry with them fails again: they are out of
    /// range or malformed (class 22), or violate a constraint (class 23). A missing partition does not count.
    pub fn is_data_error(&self) -> bool {
        match self {
            Self::Unavailable(_) => false,
            Self::Corrupt(_) => true,
            Self::Query(error) => error.code().is_some_and(|code| {
                (code.code().starts_with("22") || code.code().starts_with("23")) && !self.is_missing_partition()
            }),
        }
    }

    /// Returns whether a row was rejected because its table has no partition for its ID.
    pub fn is_missing_partition(&self) -> bool {
        let db = if let Self::Query(error) = self { error.as_db_error() } else { None };
        db.is_some_and(|db| *db.code() == SqlState::CHECK_VIOLATION && db.constraint().is_none())
    }

    /// Returns whether a row with the same key already exists.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Query(e) if e.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Returns whether a statement exceeded its timeout.
    pub fn is_statement_timeout(&self) -> bool {
        matches!(self, Self::Query(e) if e.code() == Some(&SqlState::QUERY_CANCELED))
    }

    /// Returns whether the transaction was aborted to resolve a deadlock or a serialization conflict, or a lock was not
    /// available.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Query(e) if e.code().is_some_and(|c| {
            *c == SqlState::T_R_DEADLOCK_DETECTED || *c == SqlState::T_R_SERIALIZATION_FAILURE || *c == SqlState::LOCK_NOT_AVAILABLE
        }))
    }
}

/// Returns whether an error may disappear by itself: connection errors, shutdown and start of the server, full disks,
/// exhausted resources, timeouts, and a read-only server.
fn is_transient(code: &SqlState) -> bool {
    let code = code.code();
    ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) || code == "25006"
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        // The cause (a wrong password, a missing database) is unrelated to the work that needed the connection.
        Self::Unavailable(match error {
            PoolError::Backend(error) => describe(&error),
            other => other.to_string(),
        })
    }
}

/// A pool of connections.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    /// Time spent waiting for a connection.
    wait_seconds: Histogram,
}

impl Store {
    /// Creates the pool, which connects on first use. Statements time out after 10 s.
    pub fn new(config: &DatabaseConfig, program: &str) -> anyhow::Result<Self> {
        Self::with_timeout(config, program, Duration::from_secs(10))
    }

    /// As [`Store::new`], with another statement timeout.
    pub fn with_timeout(config: &DatabaseConfig, program: &str, statement: Duration) -> anyhow::Result<Self> {
        // A process that hangs within a transaction blocks its successor for at most 5 s.
        let bounds = format!(
            // JIT compilation of a plan takes longer than any statement here.
            "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = '5s'; SET timezone = 'UTC'; SET jit = off; \
             SELECT current_setting('{}', true) = 'on' AS is_distributed",
            statement.as_millis(),
            by_project::SETTING
        );
        let connector = Connector::parse(&config.url, program)?;
        let recycled = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(connector.config().clone(), connector, recycled);
        let pool = Pool::builder(manager)
            .max_size(config.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(ACQUIRE_TIMEOUT))
            .create_timeout(Some(ACQUIRE_TIMEOUT))
            .recycle_timeout(Some(ACQUIRE_TIMEOUT))
            .post_create(Hook::async_fn(move |client, _| {
                let bounds = bounds.clone();
                Box::pin(async move {
                    let messages = client.simple_query(&bounds).await.map_err(HookError::Backend)?;
                    by_project::set_distributed(messages.iter().any(|message| match message {
                        SimpleQueryMessage::Row(row) => row.get("is_distributed") == Some("t"),
                        _ => false,
                    }));
                    Ok(())
                })
            }))
            .build()?;
        Ok(Self { pool, wait_seconds: histogram!(Metric::DatabaseWaitSeconds) })
    }

    /// Returns a connection from the pool. Callers hold it for a few statements only.
    pub async fn connection(&self) -> Result<Connection, StoreError> {
        let started = Instant::now();
        let connection = self.pool.get().await;
        self.wait_seconds.record(started.elapsed());
        Ok(connection?)
    }

    /// Sets the clock from the database's time. A slow response no longer shows the current time: of a few readings,
    /// the one with the shortest round trip counts, as of the middle of that round trip.
    pub async fn synchronize(&self, clock: &Clock) -> Result<(), StoreError> {
        let db = self.connection().await?;
        let mut fastest: Option<(i64, i64)> = None;
        for _ in 0..MAX_READINGS {
            let sent = clock.monotonic_ms();
            let row = db.query_one("SELECT clock_timestamp() AS now", &[]).await?;
            let (shown, answered): (jiff::Timestamp, i64) = (row.try_get("now")?, clock.monotonic_ms());
            let trip = answered - sent;
            if fastest.is_none_or(|(shortest, _)| trip < shortest) {
                // The database's time at the zero point of this process's elapsed time.
                fastest = Some((trip, shown.as_millisecond() + trip / 2 - answered));
            }
            if trip <= FAST_ROUND_TRIP_MS {
                break;
            }
        }
        if let Some((trip, began)) = fastest {
            // The reading may be from any moment of the round trip.
            clock.follow(began, trip / 2 + 1);
        }
        Ok(())
    }

    /// Checks that the database executes a statement.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.connection().await?.simple_query("SELECT 1").await?;
        Ok(())
    }
}
