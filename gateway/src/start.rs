//! Assembles the process and waits for its dependencies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bus::Publisher;
use kernel::shutdown::Shutdown;
use runtime::startup::{self, Connected, StartError};
use tokio::net::TcpListener;
use trace::Sampler;

use crate::app::{App, Parts};
use crate::auth::{self, Auth};
use crate::config::ProcessConfig;
use crate::health::readiness::Readiness;
use crate::ingest::Ingest;
use crate::ingest::import::Imports;
use crate::limits::permits::Permits;
use crate::limits::rate_limit::RateLimits;
use crate::limits::slots::Slots;
use crate::measure::Meters;
use crate::public::docs::Docs;
use crate::public::links::Links;
use crate::resources::ai::provider::Ai;
use crate::resources::inbox::InboxStreams;
use crate::resources::segments::evaluate;
use crate::resources::users::LargeSearches;
use crate::resources::{export, rendering};

impl App {
    /// Builds the app and starts its background tasks, which end at shutdown.
    pub async fn start(parts: Parts, shutdown: &Shutdown) -> anyhow::Result<Arc<Self>> {
        let Parts { config, store, bus, ingest_stream, clock, master_keys } = parts;
        let publisher = Publisher::new(bus.clone());
        let app = Arc::new(Self {
            auth: Arc::new(Auth::new(store.clone(), clock.clone(), master_keys.clone())),
            limits: RateLimits::start(&config, &bus.config.stream_prefix, shutdown),
            ingest: Ingest::start(&publisher, &bus.names, ingest_stream),
            imports: Imports::default(),
            exports: Slots::new(export::MAX_CONCURRENT, export::MAX_CONCURRENT_PER_OWNER),
            links: Links::default(),
            inbox_streams: InboxStreams::new(config.inbox_streams, shutdown.clone()),
            evaluations: Permits::new(evaluate::MAX_CONCURRENT, evaluate::MAX_CONCURRENT_PER_OWNER),
            renderings: Permits::new(rendering::MAX_CONCURRENT, rendering::MAX_CONCURRENT_PER_OWNER),
            large_searches: LargeSearches::default(),
            ai: config.ai.clone().map(|ai| Ai::new(ai, config.replicas)).transpose()?,
            docs: Docs::new(&config.public_base_url)?,
            readiness: Readiness::default(),
            meters: Meters::default(),
            sampler: Sampler::new(config.sampling),
            draining: AtomicBool::new(false),
            config,
            store,
            bus,
            publisher,
            clock,
            master_keys,
        });
        let position = auth::initial_position(&app.auth).await;
        tokio::spawn(auth::watch(app.auth.clone(), app.bus.clone(), position, shutdown.clone()));
        tokio::spawn(auth::last_used::run_writer(app.auth.clone(), shutdown.clone()));
        Ok(app)
    }
}

/// Connects to all dependencies and waits until they are available. Fails if the shutdown comes first.
pub async fn app(config: &ProcessConfig, shutdown: &Shutdown) -> Result<Arc<App>, StartError> {
    let connected = startup::connect_to(&config.database, &config.bus, "gateway", shutdown).await?;
    let Connected { store, bus, ingest_stream, clock } = connected;
    tokio::spawn({
        let (store, clock, shutdown) = (store.clone(), clock.clone(), shutdown.clone());
        async move { runtime::clock::follow_database(shutdown, || store.synchronize(&clock)).await }
    });
    let (gateway, master_keys) = (config.gateway.clone(), config.master_keys.clone());
    let starting = App::start(Parts { config: gateway, store, bus, ingest_stream, clock, master_keys }, shutdown);
    tokio::select! {
        () = shutdown.cancelled() => Err(StartError::Stopped),
        app = starting => Ok(app?),
    }
}

/// Returns the address that a listener is bound to.
pub fn address(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    Ok(listener.local_addr()?)
}
