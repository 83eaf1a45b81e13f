//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shared::bus::group_commit::GroupCommit;
use shared::bus::topology::IngestStream;
use shared::bus::{Bus, Publisher};
use shared::clock::Clock;
use shared::secrets::MasterKeys;
use shared::shutdown::Shutdown;
use shared::store::Store;
use tokio_util::task::TaskTracker;

use crate::auth::{self, KeyCache};
use crate::config::GatewayConfig;
use crate::health::Readiness;
use crate::ingest::applied::Applied;
use crate::rate_limit::RateLimits;

/// The parts that an [`App`] is put together from.
pub struct Parts {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
}

pub struct App {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub publisher: Publisher,
    pub ingest: GroupCommit,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
    pub keys: KeyCache,
    pub limits: RateLimits,
    pub readiness: Readiness,
    /// Positions up to which the ingest stream has been applied, for those who wait for them.
    pub applied: Applied,
    /// No longer ready: requests are only being finished.
    pub draining: AtomicBool,
}

impl App {
    /// Puts it together and starts its background tasks, which end with the shutdown.
    pub async fn start(parts: Parts, shutdown: &Shutdown) -> anyhow::Result<Arc<Self>> {
        let Parts { config, store, bus, ingest_stream, clock, master_keys } = parts;
        let publisher = Publisher::new(bus.clone());
        let app = Arc::new(Self {
            ingest: GroupCommit::start(&publisher, &bus.names, ingest_stream.partitions, &TaskTracker::new()),
            limits: RateLimits::start(&config, &bus.config.stream_prefix, shutdown)?,
            keys: KeyCache::default(),
            readiness: Readiness::default(),
            applied: Applied::new(ingest_stream.partitions),
            draining: AtomicBool::new(false),
            config,
            store,
            bus,
            publisher,
            ingest_stream,
            clock,
            master_keys,
        });
        let position = auth::begin(&app).await;
        tokio::spawn(auth::watch(app.clone(), position, shutdown.clone()));
        Ok(app)
    }
}
