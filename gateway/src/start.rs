//! Putting the process together: waits for what it needs to be there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bus::Publisher;
use bus::group_commit::GroupCommit;
use database::Store;
use kernel::clock::Clock;
use kernel::shutdown::Shutdown;
use quick_cache::sync::Cache;
use runtime::startup::{self, Connected, StartError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use trace::Sampler;

use crate::ai::Ai;
use crate::api::inbox::Inboxes;
use crate::api::rendering;
use crate::api::segments::evaluate;
use crate::app::{App, Parts};
use crate::auth;
use crate::auth::recent_sessions::RecentSessions;
use crate::auth::session::Lookups;
use crate::auth::sign_in_queue::SignInQueue;
use crate::config::ProcessConfig;
use crate::docs::Docs;
use crate::health::readiness::Readiness;
use crate::ingest::applied::Applied;
use crate::links::{self, Lately};
use crate::measure::Meters;
use crate::permits::Permits;
use crate::rate_limit::{LimitByKey, RateLimits, Scope};
use crate::slots::Slots;
use crate::{export, import};

/// Searches that are remembered to find many.
const LARGE_SEARCHES: usize = 1_000;
/// How often the clock is set by the database's.
const SYNCHRONIZE: Duration = Duration::from_mins(1);
/// Requests per second of one account outside of any project, in one gateway.
const PER_ACCOUNT: u32 = 50;
/// Requests per second from one address that may be answered 401, in one gateway.
const REFUSALS_PER_ADDRESS: u32 = 20;
/// Pages shown per second behind one message's links, in one gateway.
const PER_LINK: u32 = 10;

impl App {
    /// Puts it together and starts its background tasks, which end with the shutdown.
    pub async fn start(parts: Parts, shutdown: &Shutdown) -> anyhow::Result<Arc<Self>> {
        let Parts { config, store, bus, ingest_stream, clock, master_keys } = parts;
        let publisher = Publisher::new(bus.clone());
        let app = Arc::new(Self {
            ingest: GroupCommit::start(&publisher, &bus.names, ingest_stream.partitions, &TaskTracker::new()),
            limits: RateLimits::start(&config, &bus.config.stream_prefix, shutdown),
            account_limit: LimitByKey::new(Scope::Account, PER_ACCOUNT),
            refusal_limit: LimitByKey::new(Scope::Address, REFUSALS_PER_ADDRESS),
            docs: Docs::new(&config.public_base_url)?,
            ai: config.ai.clone().map(|ai| Ai::new(ai, config.replicas)).transpose()?,
            keys: Arc::default(),
            identity_secrets: Arc::default(),
            sign_ins: SignInQueue::default(),
            lookups: Lookups::default(),
            recent_sessions: RecentSessions::default(),
            readiness: Readiness::default(),
            meters: Meters::default(),
            sampler: Sampler::new(config.sampling),
            applied: Applied::new(ingest_stream.partitions),
            told_by_links: Lately::default(),
            link_permits: Permits::new(links::AT_ONCE, links::AT_ONCE_PER_OWNER),
            link_limit: LimitByKey::new(Scope::Link, PER_LINK),
            inboxes: Inboxes::new(config.inbox_streams, shutdown.clone()),
            evaluations: Permits::new(evaluate::AT_ONCE, evaluate::AT_ONCE_PER_OWNER),
            large_searches: Cache::new(LARGE_SEARCHES),
            renderings: Permits::new(rendering::AT_ONCE, rendering::AT_ONCE_PER_OWNER),
            imports: Slots::new(import::AT_ONCE, import::AT_ONCE_PER_OWNER),
            import_turn: Semaphore::new(1),
            exports: Slots::new(export::AT_ONCE, export::AT_ONCE_PER_OWNER),
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
        tokio::spawn(auth::last_used::keep_writing(app.clone(), shutdown.clone()));
        Ok(app)
    }
}

/// Connects to everything, for as long as that takes.
pub async fn app(config: &ProcessConfig, shutdown: &Shutdown) -> Result<Arc<App>, StartError> {
    let connected = startup::connect_to(&config.database, &config.bus, "gateway", shutdown).await?;
    let Connected { store, bus, ingest_stream, clock } = connected;
    tokio::spawn(synchronize(store.clone(), clock.clone()));
    let (gateway, master_keys) = (config.gateway.clone(), config.master_keys.clone());
    let starting = App::start(Parts { config: gateway, store, bus, ingest_stream, clock, master_keys }, shutdown);
    tokio::select! {
        () = shutdown.cancelled() => Err(StartError::Stopped),
        app = starting => Ok(app?),
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

/// Where a listener is bound.
pub fn address(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    Ok(listener.local_addr()?)
}
