//! Postgres: connections, the schema and its partitions, and what every statement is built from.

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

/// How often the database's time is read at most where the answers are slow, and from when on one is quick enough.
const READINGS: u32 = 3;
const QUICK_MS: i64 = 100;
/// How long a request waits for a connection before the database counts as away.
const WAIT: Duration = Duration::from_secs(2);

/// A channel as a column holds it.
pub fn channel(text: &str) -> Result<Channel, StoreError> {
    Channel::parse(text).ok_or_else(|| StoreError::Corrupt(format!("channel {text:?}")))
}

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or has no connection to spare.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    #[error("{}", described(.0))]
    Query(#[from] tokio_postgres::Error),
    /// A row holds what this program cannot read.
    #[error("unreadable row: {0}")]
    Corrupt(String),
}

/// tokio-postgres shows only "db error"; what the server said is in its source.
fn described(error: &tokio_postgres::Error) -> String {
    if let Some(fault) = connector::tls_fault(error) {
        return connector::tls_words(error, fault);
    }
    if connector::takes_no_writes(error) {
        return "no host of DATABASE_URL takes writes: what answers is a standby, or read only".to_owned();
    }
    match error.as_db_error() {
        Some(db) => format!(
            "{} ({}){}",
            db.message(),
            db.code().code(),
            db.detail().map(|d| format!(": {d}")).unwrap_or_default()
        ),
        None => {
            let cause = kernel::cause::words(error);
            if cause == error.to_string() { cause } else { format!("{error}: {cause}") }
        }
    }
}

impl StoreError {
    /// Whether trying again later may succeed without anything being mended in the data or the program.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Corrupt(_) => false,
            Self::Query(error) => {
                error.is_closed()
                    || match error.code() {
                        // No answer from the server at all: the connection broke.
                        None => {
                            std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
                        }
                        Some(code) => passes_by_itself(code),
                    }
            }
        }
    }

    /// Whether it lies in the values themselves, so that the same ones will fail again: they are out of range or
    /// malformed (class 22), or break a rule of their table (class 23). A row that no partition takes is not at fault.
    pub fn is_of_data(&self) -> bool {
        match self {
            Self::Unavailable(_) => false,
            Self::Corrupt(_) => true,
            Self::Query(error) => error.code().is_some_and(|code| {
                (code.code().starts_with("22") || code.code().starts_with("23")) && !self.is_missing_partition()
            }),
        }
    }

    /// Whether a row was refused because its table has no partition for its id.
    pub fn is_missing_partition(&self) -> bool {
        let db = if let Self::Query(error) = self { error.as_db_error() } else { None };
        db.is_some_and(|db| *db.code() == SqlState::CHECK_VIOLATION && db.constraint().is_none())
    }

    /// Whether a row with the same key is there already.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Query(e) if e.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Whether a statement ran into its time limit.
    pub fn is_too_slow(&self) -> bool {
        matches!(self, Self::Query(e) if e.code() == Some(&SqlState::QUERY_CANCELED))
    }

    /// Whether the database chose this transaction to end a deadlock or a serialization conflict.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Query(e) if e.code().is_some_and(|c| {
            *c == SqlState::T_R_DEADLOCK_DETECTED || *c == SqlState::T_R_SERIALIZATION_FAILURE || *c == SqlState::LOCK_NOT_AVAILABLE
        }))
    }
}

/// Connection trouble, shutdown and start of the server, full disks and exhausted resources, and timeouts.
fn passes_by_itself(code: &SqlState) -> bool {
    let code = code.code();
    ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) || code == "25006"
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        // Whatever keeps a connection from being made (a password, a missing database) is no fault of what it was for.
        Self::Unavailable(match error {
            PoolError::Backend(error) => described(&error),
            other => other.to_string(),
        })
    }
}

/// A pool of connections.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    /// For connections.
    waited: Histogram,
}

impl Store {
    /// Makes the pool; connects when the first connection is asked for. Statements run at most 10 s.
    pub fn new(config: &DatabaseConfig, program: &str) -> anyhow::Result<Self> {
        Self::with_timeout(config, program, Duration::from_secs(10))
    }

    /// As [`Store::new`], for work whose statements may run for so long.
    pub fn with_timeout(config: &DatabaseConfig, program: &str, statement: Duration) -> anyhow::Result<Self> {
        // A process that hangs within a transaction holds up whoever takes its place no longer than that.
        let bounds = format!(
            // Compiling a plan takes longer than any of our statements.
            "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = '5s'; SET timezone = 'UTC'; SET jit = off; \
             SELECT current_setting('{}', true) = 'on' AS is_spread",
            statement.as_millis(),
            by_project::SETTING
        );
        let connector = Connector::parse(&config.url, program)?;
        let recycled = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(connector.config().clone(), connector, recycled);
        let pool = Pool::builder(manager)
            .max_size(config.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .recycle_timeout(Some(WAIT))
            .post_create(Hook::async_fn(move |client, _| {
                let bounds = bounds.clone();
                Box::pin(async move {
                    let said = client.simple_query(&bounds).await.map_err(HookError::Backend)?;
                    by_project::note(said.iter().any(|message| match message {
                        SimpleQueryMessage::Row(row) => row.get("is_spread") == Some("t"),
                        _ => false,
                    }));
                    Ok(())
                })
            }))
            .build()?;
        Ok(Self { pool, waited: histogram!(Metric::DatabaseWaitSeconds) })
    }

    /// A connection for a few statements.
    pub async fn connection(&self) -> Result<Connection, StoreError> {
        let asked = Instant::now();
        let given = self.pool.get().await;
        self.waited.record(asked.elapsed());
        Ok(given?)
    }

    /// Reads the database's time into the clock. An answer that was long on its way is no present time: the quickest of a
    /// few readings counts, and as one of the middle of its way.
    pub async fn synchronize(&self, clock: &Clock) -> Result<(), StoreError> {
        let db = self.connection().await?;
        let mut quickest: Option<(i64, i64)> = None;
        for _ in 0..READINGS {
            let asked = clock.passed_ms();
            let row = db.query_one("SELECT clock_timestamp() AS now", &[]).await?;
            let (shown, answered): (jiff::Timestamp, i64) = (row.try_get("now")?, clock.passed_ms());
            let trip = answered - asked;
            if quickest.is_none_or(|(known, _)| trip < known) {
                // What the database showed when this process's time began.
                quickest = Some((trip, shown.as_millisecond() + trip / 2 - answered));
            }
            if trip <= QUICK_MS {
                break;
            }
        }
        if let Some((trip, began)) = quickest {
            // The database may have answered at any moment of the way.
            clock.follow(began, trip / 2 + 1);
        }
        Ok(())
    }

    /// Whether a statement runs now.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.connection().await?.simple_query("SELECT 1").await?;
        Ok(())
    }
}
