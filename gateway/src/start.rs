//! Putting the process together: waits for what it needs to be there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use shared::bus::Bus;
use shared::bus::topology::{self, IngestStream};
use shared::clock::Clock;
use shared::config::{BusConfig, DatabaseConfig};
use shared::shutdown::Shutdown;
use shared::store::Store;
use shared::store::migrate::{self, EXIT_SCHEMA, SchemaError};
use tokio::net::TcpListener;

use crate::app::{App, Parts};
use crate::config::ProcessConfig;

/// How long to wait before trying again.
const AGAIN: Duration = Duration::from_secs(2);
/// How often the clock is set by the database's.
const SYNCHRONIZE: Duration = Duration::from_mins(1);

/// What trying again does not mend.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl StartError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Schema(_) => EXIT_SCHEMA,
        }
    }
}

/// Connects to everything, for as long as that takes; `None` when the shutdown came first.
pub async fn app(config: &ProcessConfig, shutdown: &Shutdown) -> anyhow::Result<Option<Arc<App>>> {
    let clock = Clock::system();
    tokio::select! {
        () = shutdown.cancelled() => Ok(None),
        app = connect(config, clock, shutdown) => app.map(Some),
    }
}

async fn connect(config: &ProcessConfig, clock: Clock, shutdown: &Shutdown) -> anyhow::Result<Arc<App>> {
    let store = database(&config.database, &clock).await?;
    let (bus, ingest_stream) = broker(&config.bus).await?;
    let (gateway, master_keys) = (config.gateway.clone(), config.master_keys.clone());
    tokio::spawn(synchronize(store.clone(), clock.clone()));
    App::start(Parts { config: gateway, store, bus, ingest_stream, clock, master_keys }, shutdown).await
}

async fn database(config: &DatabaseConfig, clock: &Clock) -> anyhow::Result<Store> {
    let store = Store::new(config, "gateway")?;
    loop {
        let look = async {
            store.synchronize(clock).await?;
            migrate::check(&store.connection().await?).await
        };
        match look.await {
            Ok(fit) => {
                fit.map_err(StartError::from)?;
                return Ok(store);
            }
            Err(error) => tracing::warn!("waiting for Postgres (DATABASE_URL): {error}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn broker(config: &BusConfig) -> anyhow::Result<(Bus, IngestStream)> {
    config.servers()?;
    let bus = loop {
        match Bus::connect(config, "gateway").await {
            Ok(bus) => break bus,
            Err(error) => tracing::warn!("waiting for the broker: {error:#}"),
        }
        tokio::time::sleep(AGAIN).await;
    };
    loop {
        match topology::ensure(&bus).await {
            Ok(stream) => return Ok((bus, stream)),
            // Streams of another shape do not change by waiting.
            Err(error) if bus.is_connected() && error.chain().len() == 1 => return Err(error),
            Err(error) => tracing::warn!("waiting for the broker's streams: {error:#}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn synchronize(store: Store, clock: Clock) {
    loop {
        tokio::time::sleep(SYNCHRONIZE).await;
        if let Err(error) = store.synchronize(&clock).await {
            tracing::debug!(%error, "the database's time could not be read");
        }
    }
}

/// A listener, or an error that names the address and its variable.
pub async fn listen(addr: SocketAddr, variable: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr} ({variable})"))
}
