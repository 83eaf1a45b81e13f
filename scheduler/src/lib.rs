//! The scheduler: hands over what fell due, and keeps house.
//!
//! Several may run at once: whatever is taken is taken by a row lock and made due again a little later, so that what a
//! dying scheduler took is found by the next; and whatever is handed over may be handed over twice.

pub mod config;
pub mod house;
pub mod messages;
pub mod purge;
pub mod thaw;
pub mod tick;
pub mod timers;

use std::sync::Arc;

use shared::bus::topology::IngestStream;
use shared::bus::{Bus, Publisher};
use shared::clock::Clock;
use shared::shutdown::{DRAIN, Shutdown, drained};
use shared::startup::Connected;
use shared::store::Store;
use tokio_util::task::TaskTracker;

use config::SchedulerConfig;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const ADMIN_PORT: u16 = 9104;

/// What all of it shares.
pub struct App {
    pub config: SchedulerConfig,
    pub store: Store,
    pub bus: Bus,
    pub publisher: Publisher,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
}

impl App {
    pub fn new(config: SchedulerConfig, connected: Connected) -> Arc<Self> {
        let Connected { store, bus, ingest_stream, clock } = connected;
        Arc::new(Self { config, publisher: Publisher::new(bus.clone()), store, bus, ingest_stream, clock })
    }
}

/// Works until the shutdown, then finishes what is under way; false when that took too long.
pub async fn run(app: Arc<App>, shutdown: Shutdown) -> bool {
    let tasks = TaskTracker::new();
    tasks.spawn(tick::repeat("timers", app.clone(), shutdown.clone(), timers::tick));
    tasks.spawn(tick::repeat("messages", app.clone(), shutdown.clone(), messages::tick));
    tasks.spawn(tick::repeat("frozen runs", app.clone(), shutdown.clone(), thaw::tick));
    for chore in house::CHORES {
        tasks.spawn(house::repeat(chore, app.clone(), shutdown.clone()));
    }
    shutdown.cancelled().await;
    drained(&tasks, DRAIN).await
}
