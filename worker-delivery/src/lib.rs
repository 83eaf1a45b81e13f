//! Delivery: takes messages off the send stream, claims their rows, renders, sends and settles them; and tells other
//! systems by webhooks.
//!
//! A send moves through types: `Claimed` (with what it needs: `Loaded`) → `Rendered` → `Outcome` → `Settled`.

mod address;
mod attempt;
mod backlogs;
pub mod channels;
mod claim;
mod claim_turns;
pub mod config;
mod consume;
mod frequency;
mod handle;
mod in_hand;
mod intake;
mod invites;
pub mod limits;
mod owners;
mod permits;
pub mod provider;
pub mod render;
pub mod routes;
pub mod settle;
mod suppressed;
mod templates;
mod traced;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use shared::buckets::Buckets;
use shared::bus::Bus;
use shared::clock::Clock;
use shared::send::{Channel, Lane};
use shared::shutdown::{DRAIN, Shutdown, drained};
use shared::startup::Connected;
use shared::store::Store;
use tokio_util::task::TaskTracker;

use backlogs::Backlogs;
use channels::Channels;
use claim_turns::ClaimTurns;
use config::DeliveryConfig;
use limits::Limits;
use owners::Owners;
use permits::Permits;
use provider::{MailProvider, Outside, apns};
use routes::Route;
use settle::Settler;
use templates::Templates;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const ADMIN_PORT: u16 = 9103;
const SYNCHRONIZE: Duration = Duration::from_secs(10);
/// For the last acknowledgements to be written to the broker.
const FLUSH: Duration = Duration::from_secs(1);

/// What all of it shares.
pub struct App {
    pub config: DeliveryConfig,
    pub store: Store,
    pub bus: Bus,
    pub clock: Clock,
    pub channels: Channels,
    pub outside: Outside,
    pub shutdown: Shutdown,
    templates: Templates,
    owners: Owners,
    permits: Permits,
    claim_turns: ClaimTurns,
    backlogs: Backlogs,
    settler: Settler,
    /// By the operator's mail server, where one is set.
    system_mail: Option<Route<MailProvider>>,
    /// Work that must end before the process does.
    tasks: TaskTracker,
}

impl App {
    pub fn new(config: DeliveryConfig, connected: Connected, channels: Channels, shutdown: Shutdown) -> Arc<Self> {
        let Connected { store, bus, clock, .. } = connected;
        let settler = Settler::start(store.clone(), clock.clone());
        let prefix = &bus.config.stream_prefix;
        let buckets = config.redis.clone().map(|server| Buckets::start(server, prefix, shutdown.clone()));
        let limits = Limits::new(buckets.map(|buckets| (buckets, config.master_keys.clone())), config.replicas);
        let (http, addresses) = (config.http.clone(), config.addresses.clone());
        Arc::new(Self {
            outside: Outside { http, addresses, clock: clock.clone(), apns_tokens: apns::Tokens::default(), limits },
            templates: Templates::default(),
            owners: Owners::default(),
            permits: Permits::new(config.concurrency),
            claim_turns: ClaimTurns::default(),
            backlogs: Backlogs::default(),
            tasks: TaskTracker::new(),
            system_mail: invites::route(&config),
            config,
            store,
            bus,
            clock,
            channels,
            shutdown,
            settler,
        })
    }
}

/// Delivers until the shutdown, then finishes what is under way; false when that took too long.
pub async fn run(app: Arc<App>) -> bool {
    app.tasks.spawn(channels::watch(app.clone()));
    for channel in app.config.channels.clone() {
        for lane in Lane::ALL {
            app.tasks.spawn(consume::consume(app.clone(), channel, lane));
        }
    }
    if app.config.channels.contains(&Channel::Email) {
        app.tasks.spawn(invites::send_due(app.clone()));
    }
    app.tasks.spawn(webhooks::send_due(app.clone()));
    app.tasks.spawn(follow_clock(app.clone()));
    app.shutdown.cancelled().await;
    let drained = drained(&app.tasks, DRAIN).await;
    // What the broker was told last still lies here.
    let _ = tokio::time::timeout(FLUSH, app.bus.client.flush()).await;
    drained
}

async fn follow_clock(app: Arc<App>) {
    loop {
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(SYNCHRONIZE) => {}
        }
        if let Err(error) = app.store.synchronize(&app.clock).await {
            tracing::debug!(%error, "cannot read the database's time");
        }
    }
}
