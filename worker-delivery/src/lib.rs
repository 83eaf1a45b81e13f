//! Delivery: takes messages from the queue, renders, sends and settles them; and sends webhooks.
//!
//! In the order in which a message passes through, with the type that it then has:
//! 1. [`intake`] records direct messages; those of automations and campaigns are in the queue already.
//! 2. [`dispatch`] chooses the next queue and begins a batch of its messages: `ClaimedMessage`.
//! 3. [`load`] reads what they need: recipients, templates, suppressions, frequency caps: `Loaded`.
//! 4. [`attempt`] renders each ([`render`]: `Rendered`) and has it sent by a provider of its channel ([`routes`], [`providers`]:
//!    `Outcome`).
//! 5. [`settle`] writes the outcomes: `Settled`.
//!
//! Apart from these, [`webhooks`] calls endpoints of other systems, and [`invites`] mails invitations.

mod attempt;
pub mod channels;
pub mod config;
mod dispatch;
mod intake;
mod invites;
pub mod limits;
mod load;
pub mod provider_context;
pub mod render;
pub mod routes;
pub mod settle;
mod traced;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use database::Store;
use database::jumps::DueBy;
use database::jumps::DueClock;
use domain::message::{Channel, Queue};
use jiff::SignedDuration;
use kernel::clock::Clock;
use kernel::shutdown::{DRAIN_TIMEOUT, Shutdown, drained};
use rate_limits::Buckets;
use runtime::clock;
use runtime::startup::{self, Connected};
use tokio_util::task::TaskTracker;

use channels::Channels;
use config::DeliveryConfig;
use dispatch::Dispatcher;
use dispatch::lease::Leases;
use dispatch::owners::Owners;
use dispatch::takeover::Takeovers;
use limits::Limits;
use load::templates::Templates;
use provider_context::ProviderContext;
use providers::{MailProvider, apns};
use routes::Route;
use settle::Settler;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const ADMIN_PORT: u16 = 9103;
/// Time limit for flushing the last acknowledgements to the broker.
const FLUSH: Duration = Duration::from_secs(1);

/// Shared state.
pub struct App {
    pub config: DeliveryConfig,
    pub store: Store,
    pub bus: Bus,
    pub clock: Clock,
    pub channels: Channels,
    pub provider_context: ProviderContext,
    pub shutdown: Shutdown,
    templates: Templates,
    owners: Arc<Owners>,
    dispatcher: Dispatcher,
    takeovers: Takeovers,
    leases: Leases,
    due_clock: DueClock,
    settler: Settler,
    /// Route to the operator's mail server.
    system_mail: Option<Route<MailProvider>>,
    /// Tasks that must end before the process does.
    tasks: TaskTracker,
}

impl App {
    pub fn new(config: DeliveryConfig, connected: Connected, channels: Channels, shutdown: Shutdown) -> Arc<Self> {
        let Connected { store, bus, clock, .. } = connected;
        let (owners, dispatcher) = (Arc::new(Owners::default()), Dispatcher::new(config.concurrency, &config.channels));
        let on_retry_due = {
            let (owners, dispatcher) = (owners.clone(), dispatcher.clone());
            // If the owner is not cached, the poll finds the queue.
            move |queue: Queue| owners.cached(queue.project).into_iter().for_each(|of| dispatcher.ready(queue, of))
        };
        let due_clock = DueClock::new(clock.clone());
        let settler = Settler::start(store.clone(), due_clock.clone(), Arc::new(on_retry_due));
        let prefix = &bus.config.stream_prefix;
        let buckets = config.redis.clone().map(|server| Buckets::start(server, prefix, shutdown.clone()));
        let limits = Limits::new(buckets.map(|buckets| (buckets, config.master_keys.clone())), config.replicas);
        let (http, provider_urls) = (config.http.clone(), config.provider_urls.clone());
        Arc::new(Self {
            provider_context: ProviderContext {
                http,
                provider_urls,
                clock: clock.clone(),
                apns_tokens: apns::Tokens::default(),
                limits,
            },
            templates: Templates::default(),
            owners,
            dispatcher,
            takeovers: Takeovers::new(clock.clone(), config.lease),
            leases: Leases::default(),
            due_clock,
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

    fn due_by(&self) -> DueBy {
        self.due_clock.due_by()
    }

    fn lease(&self) -> SignedDuration {
        SignedDuration::from_millis(self.config.lease.as_millis() as i64)
    }
}

/// Delivers until shutdown, then waits for the tasks to end. Returns false if they do not end within [`DRAIN_TIMEOUT`].
pub async fn run(app: Arc<App>) -> bool {
    app.tasks.spawn(channels::watch(app.clone()));
    for channel in app.config.channels.clone() {
        app.tasks.spawn(dispatch::ready::follow_hints(app.clone(), channel));
        app.tasks.spawn(intake::run(app.clone(), channel));
    }
    if app.config.channels.contains(&Channel::Email) {
        app.tasks.spawn(invites::send_due(app.clone()));
    }
    app.tasks.spawn(webhooks::send_due(app.clone()));
    // A jump of the clock before the start must make nothing due.
    let read_clock = || app.due_clock.jumps.follow(&app.store, &app.clock);
    if startup::wait_for("the state of the database's clock", &app.shutdown, read_clock).await.is_ok() {
        if app.due_clock.jumps.ahead(&app.clock).is_some() {
            app.takeovers.clock_stepped_ahead();
        }
        app.tasks.spawn({
            let app = app.clone();
            let shutdown = app.shutdown.clone();
            async move {
                clock::follow_database(shutdown, || app.due_clock.jumps.follow(&app.store, &app.clock)).await;
            }
        });
        app.tasks.spawn(dispatch::run(app.clone()));
        app.tasks.spawn(dispatch::ready::poll(app.clone()));
    }
    app.shutdown.cancelled().await;
    let drained = drained(&app.tasks, DRAIN_TIMEOUT).await;
    // Flush the last acknowledgements.
    let _ = tokio::time::timeout(FLUSH, app.bus.client.flush()).await;
    drained
}
