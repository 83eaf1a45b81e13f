//! The scheduler: publishes timers, dates and segment changes that are due, releases campaigns, and runs maintenance
//! tasks.
//!
//! Several schedulers may run at once. Each claims due rows under a row lock and makes them due again a little later,
//! so that another scheduler can process them if it crashes. Consumers tolerate duplicates.
//!
//! [`tick`] repeats each of these:
//! 1. [`due`] publishes the timers and dates that are due, and resumes frozen runs.
//! 2. [`segments`] evaluates the users whose membership may have changed, and publishes who entered or left.
//! 3. [`campaigns`] queues the audience of campaigns and releases their chunks to the workers.
//! 4. [`maintenance`] removes what is no longer needed.

pub mod campaigns;
pub mod config;
pub mod due;
pub mod maintenance;
pub mod segments;
pub mod tick;

use std::collections::HashSet;
use std::sync::Arc;

use bus::topology::IngestStream;
use bus::{Bus, Publisher};
use database::Store;
use database::jumps::Jumps;
use kernel::clock::Clock;
use kernel::ids::ProjectId;
use kernel::shutdown::{DRAIN_TIMEOUT, Shutdown, drained};
use runtime::startup::{self, Connected};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use config::SchedulerConfig;
use due::{dates, jumps, thaw, timers};
use maintenance::tasks;
use tick::project_backoff::ProjectBackoff;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const ADMIN_PORT: u16 = 9104;

/// State shared by all polls and tasks.
pub struct App {
    pub config: SchedulerConfig,
    pub store: Store,
    pub bus: Bus,
    pub publisher: Publisher,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    /// Deleted automations known to have no runs left.
    without_runs: Mutex<HashSet<(ProjectId, Uuid)>>,
    /// Projects whose segments, timers and dates are backed off after failures.
    segment_backoff: ProjectBackoff,
    timer_backoff: ProjectBackoff,
    date_backoff: ProjectBackoff,
    jumps: Jumps,
}

impl App {
    pub fn new(config: SchedulerConfig, connected: Connected) -> Arc<Self> {
        let Connected { store, bus, ingest_stream, clock } = connected;
        let publisher = Publisher::new(bus.clone());
        Arc::new(Self {
            config,
            store,
            bus,
            publisher,
            ingest_stream,
            clock,
            without_runs: Mutex::default(),
            segment_backoff: ProjectBackoff::default(),
            timer_backoff: ProjectBackoff::default(),
            date_backoff: ProjectBackoff::default(),
            jumps: Jumps::default(),
        })
    }
}

/// Runs until shutdown, then finishes work in flight. Returns `false` if that took too long.
pub async fn run(app: Arc<App>, shutdown: Shutdown) -> bool {
    let tracker = TaskTracker::new();
    // Before the first poll, finds out whether another scheduler has detected a clock jump.
    if startup::wait_for("the clock jump check", &shutdown, || jumps::tick(app.clone())).await.is_err() {
        return true;
    }
    // Pauses campaigns that a restored backup holds as sending, before any of their messages are released.
    if startup::wait_for("the check of active campaigns", &shutdown, || campaigns::late::pause(&app)).await.is_err() {
        return true;
    }
    tracker.spawn(tick::repeat("clock jumps", app.clone(), shutdown.clone(), jumps::tick));
    tracker.spawn(tick::repeat("timers", app.clone(), shutdown.clone(), timers::tick));
    tracker.spawn(tick::repeat("campaigns", app.clone(), shutdown.clone(), campaigns::tick));
    tracker.spawn(tick::repeat("segments", app.clone(), shutdown.clone(), segments::tick));
    tracker.spawn(tick::repeat("segment fill", app.clone(), shutdown.clone(), segments::fill));
    tracker.spawn(tick::repeat("dates", app.clone(), shutdown.clone(), dates::tick));
    tracker.spawn(tick::repeat("date planning", app.clone(), shutdown.clone(), dates::plan::tick));
    tracker.spawn(tick::repeat("frozen runs", app.clone(), shutdown.clone(), thaw::tick));
    for task in tasks::TASKS {
        tracker.spawn(tasks::repeat(task, app.clone(), shutdown.clone()));
    }
    shutdown.cancelled().await;
    drained(&tracker, DRAIN_TIMEOUT).await
}
