//! Starts a process: it waits for its servers instead of exiting, and logs what it waits for.

use std::fmt::Display;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::admin::{self, Admin};
use bus::config::BusConfig;
use bus::topology::{self, IngestStream, TopologyError};
use bus::{Bus, Names};
use database::config::DatabaseConfig;
use database::migrate::{self, EXIT_SCHEMA, SchemaError};
use database::{Store, StoreError};
use kernel::backoff::Backoff;
use kernel::clock::Clock;
use kernel::env::{EXIT_CONFIG, Env, EnvError};
use kernel::shutdown::Shutdown;

/// How often a process checks that it can still work with the database's schema.
const SCHEMA_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The `/readyz` response of a process that is not connected yet.
pub const NOT_CONNECTED: &str = "waiting for the database, its schema or the broker; see the log";

/// Set once when the schema becomes too new for this process, which then stops.
static SCHEMA_TOO_NEW: OnceLock<SchemaError> = OnceLock::new();

/// Why a process does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] EnvError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It received the shutdown signal while it waited.
    #[error("stopped while starting")]
    Stopped,
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl StartError {
    /// Returns the exit status.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Config(_) => EXIT_CONFIG,
            Self::Schema(_) => EXIT_SCHEMA,
            Self::Stopped => 0,
            Self::Other(_) => 1,
        }
    }
}

/// The connections and clock that every process uses.
#[derive(Clone)]
pub struct Connected {
    pub store: Store,
    pub bus: Bus,
    pub ingest_stream: IngestStream,
    /// Synchronized with the database's clock.
    pub clock: Clock,
}

/// Reads `DATABASE_*` and `NATS_*`, then connects like [`connect_to`].
pub async fn connect(env: &Env, program: &str, shutdown: &Shutdown) -> Result<Connected, StartError> {
    connect_to(&DatabaseConfig::from_env(env)?, &BusConfig::from_env(env)?, program, shutdown).await
}

/// Like [`connect`], but serves probes and metrics at an address from before it connects until the shutdown. A waiting
/// process is alive but not ready; without an answer it would appear dead.
pub async fn connect_probed(
    env: &Env,
    program: &str,
    (addr, metrics): (SocketAddr, Option<PrometheusHandle>),
    shutdown: &Shutdown,
) -> Result<Connected, StartError> {
    let connected: Arc<OnceLock<Connected>> = Arc::default();
    let seen = connected.clone();
    let is_ready = move || {
        let connected = seen.get().cloned();
        async move {
            let Connected { store, bus, .. } = connected.ok_or(NOT_CONNECTED)?;
            ready(&store, &bus).await
        }
    };
    let listener = listen(addr, "ADMIN_ADDR").await?;
    tokio::spawn(admin::serve(listener, Admin::new(metrics, is_ready), shutdown.clone()));
    let servers = connect(env, program, shutdown).await?;
    Ok(connected.get_or_init(|| servers).clone())
}

/// Binds a listener. The error names the address and its variable.
pub async fn listen(addr: SocketAddr, variable: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr} ({variable})"))
}

/// Waits for both servers and the schema, and creates missing streams. Fails if the schema is too new, and stops the
/// process if it becomes so later ([`check_schema_supported`]).
pub async fn connect_to(
    database: &DatabaseConfig,
    broker: &BusConfig,
    program: &str,
    shutdown: &Shutdown,
) -> Result<Connected, StartError> {
    broker.servers()?;
    let store = Store::new(database, program).map_err(|error| match error.downcast::<EnvError>() {
        Ok(error) => StartError::Config(error),
        Err(error) => StartError::Other(error),
    })?;
    let clock = Clock::system();
    wait_for("the database", shutdown, || store.check()).await?;
    wait_for("the schema", shutdown, || schema(&store)).await??;
    tokio::spawn(watch_schema(store.clone(), shutdown.clone()));
    wait_for("the database's time", shutdown, || store.synchronize(&clock)).await?;
    let bus = wait_for("the broker", shutdown, || Bus::connect(broker, program)).await?;
    let what = format!("the stream {}", Names::new(&broker.stream_prefix).ingest_stream());
    let ensured = wait_for(&what, shutdown, || async {
        match topology::ensure(&bus).await {
            Ok(stream) => Ok(Ok(stream)),
            Err(TopologyError::Incompatible(incompatible)) => Ok(Err(incompatible)),
            Err(TopologyError::Unavailable(error)) => Err(error),
        }
    });
    let ingest_stream = ensured.await??;
    Ok(Connected { store, bus, ingest_stream, clock })
}

/// Returns the outer error if waiting can help: for the database, or for a migration.
async fn schema(store: &Store) -> Result<Result<(), SchemaError>, anyhow::Error> {
    match migrate::check(&store.connection().await?).await? {
        Err(behind) if behind.is_behind() => Err(behind.into()),
        judged => Ok(judged),
    }
}

/// Stops the process when the schema becomes too new. A migrator refuses to break connected programs, but programs
/// connect and disconnect.
async fn watch_schema(store: Store, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(SCHEMA_CHECK_INTERVAL) => {}
        }
        // An unreachable database says nothing about its schema.
        if let Ok(Err(newer)) = schema(&store).await {
            tracing::error!("stopping: {newer}");
            let _ = SCHEMA_TOO_NEW.set(newer);
            shutdown.cancel();
        }
    }
}

/// Returns an error if the process stopped because the schema became too new.
pub fn check_schema_supported() -> Result<(), StartError> {
    SCHEMA_TOO_NEW.get().map_or(Ok(()), |newer| Err(newer.clone().into()))
}

/// Returns why a process that received the shutdown signal does not start.
fn stopped() -> StartError {
    check_schema_supported().err().unwrap_or(StartError::Stopped)
}

/// Retries until it succeeds. Logs the first failure and every tenth one after it.
pub async fn wait_for<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    shutdown: &Shutdown,
    mut attempt: impl FnMut() -> F,
) -> Result<T, StartError> {
    let mut failures = 0;
    loop {
        let tried = tokio::select! {
            () = shutdown.cancelled() => return Err(stopped()),
            tried = attempt() => tried,
        };
        let error = match tried {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        failures += 1;
        if failures % 10 == 1 {
            tracing::warn!("waiting for {what}: {error:#}");
        }
        tokio::select! {
            () = shutdown.cancelled() => return Err(stopped()),
            () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => {}
        }
    }
}

/// The check behind `/readyz`: the database answers, and the broker is connected.
pub async fn ready(store: &Store, bus: &Bus) -> Result<(), String> {
    store.check().await.map_err(|e: StoreError| e.to_string())?;
    if bus.is_connected() { Ok(()) } else { Err("not connected to the broker".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_ends_on_success_or_shutdown() {
        let shutdown = Shutdown::new();
        let mut left = 3;
        let found = wait_for("it", &shutdown, || {
            left -= 1;
            let outcome = if left == 0 { Ok(7) } else { Err("not yet") };
            async move { outcome }
        });
        assert_eq!(found.await.unwrap(), 7);
        let stopping = shutdown.clone();
        let never = wait_for("it", &shutdown, || {
            stopping.cancel();
            async { Err::<(), _>("never") }
        });
        let never = never.await;
        assert!(matches!(never, Err(StartError::Stopped)));
    }
}
