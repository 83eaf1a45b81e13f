//! Starting a process: it waits for its servers instead of leaving, and says what it waits for.

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

/// How often a process looks whether the database still is one that it can work with.
const LOOK_AT_SCHEMA: Duration = Duration::from_secs(5);

/// What `/readyz` says of a process that has begun and is not connected yet.
pub const WAITING: &str = "waiting for the servers and the schema; the log says for which";

/// Set once by a schema that left this process behind, which ends it.
static OUTGROWN: OnceLock<SchemaError> = OnceLock::new();

/// Why a process does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] EnvError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It was told to stop while it waited.
    #[error("stopped while starting")]
    Stopped,
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl StartError {
    /// The status to exit with.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Config(_) => EXIT_CONFIG,
            Self::Schema(_) => EXIT_SCHEMA,
            Self::Stopped => 0,
            Self::Other(_) => 1,
        }
    }
}

/// What every process works with.
#[derive(Clone)]
pub struct Connected {
    pub store: Store,
    pub bus: Bus,
    pub ingest_stream: IngestStream,
    /// Follows the database.
    pub clock: Clock,
}

/// Reads `DATABASE_*` and `NATS_*`, and then as [`connect_to`].
pub async fn connect(env: &Env, program: &str, shutdown: &Shutdown) -> Result<Connected, StartError> {
    connect_to(&DatabaseConfig::from_env(env)?, &BusConfig::from_env(env)?, program, shutdown).await
}

/// As [`connect`], and from before it connects until the shutdown it serves probes and metrics at an address: who waits is alive and
/// not ready, and where nobody answered it would look like a program that has died.
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
            let Connected { store, bus, .. } = connected.ok_or(WAITING)?;
            ready(&store, &bus).await
        }
    };
    let listener = listen(addr, "ADMIN_ADDR").await?;
    tokio::spawn(admin::serve(listener, Admin::new(metrics, is_ready), shutdown.clone()));
    let servers = connect(env, program, shutdown).await?;
    Ok(connected.get_or_init(|| servers).clone())
}

/// A listener, or an error that names the address and its variable.
pub async fn listen(addr: SocketAddr, variable: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr} ({variable})"))
}

/// Waits for both servers and for the schema, and makes the streams that are missing. Refuses a schema that is too new, and stops the
/// process when it becomes so ([`outgrown`]).
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
            Err(TopologyError::Shape(misfit)) => Ok(Err(misfit)),
            Err(TopologyError::Away(error)) => Err(error),
        }
    });
    let ingest_stream = ensured.await??;
    Ok(Connected { store, bus, ingest_stream, clock })
}

/// An error where there is something to wait for: the database, or a migration.
async fn schema(store: &Store) -> Result<Result<(), SchemaError>, anyhow::Error> {
    match migrate::check(&store.connection().await?).await? {
        Err(behind) if behind.is_behind() => Err(behind.into()),
        judged => Ok(judged),
    }
}

/// A migrator lets nobody be left behind that it sees; but programs come and go.
async fn watch_schema(store: Store, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_AT_SCHEMA) => {}
        }
        // One that cannot be reached says nothing about its schema.
        if let Ok(Err(newer)) = schema(&store).await {
            tracing::error!("stopping: {newer}");
            let _ = OUTGROWN.set(newer);
            shutdown.cancel();
        }
    }
}

/// What a process that was told to stop ends with: an error where the schema left it behind.
pub fn outgrown() -> Result<(), StartError> {
    OUTGROWN.get().map_or(Ok(()), |newer| Err(newer.clone().into()))
}

/// Why a process that was told to stop does not start.
fn stopped() -> StartError {
    outgrown().err().unwrap_or(StartError::Stopped)
}

/// Tries until it succeeds, with a line in the log at the first failure and then now and again.
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

/// What `/readyz` asks: the database, and whether the broker is connected.
pub async fn ready(store: &Store, bus: &Bus) -> Result<(), String> {
    store.check().await.map_err(|e: StoreError| e.to_string())?;
    if bus.is_connected() { Ok(()) } else { Err("not connected to the broker".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_success_or_with_the_shutdown() {
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
