//! Independent benchmark scenarios.

mod accept;
mod automation;
mod campaign;
mod deliver;
mod drain;
mod durable;
mod end_to_end;
mod fairness;
mod growth;
mod idle;
mod reads;
mod segment;
mod tracing;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use kernel::clock::Clock;

use crate::fill::{self, FillArgs};
use crate::provision;
use crate::report::{Figure, Section};
use crate::system::{Options, System, clear};
use crate::tenants::PROJECTS;
use progress::Steps;

/// Users per project that exist before a load.
const USERS: u32 = 100;

/// In the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Half a minute without requests.
    Idle,
    /// One event per request over 256 connections, until acknowledged.
    Single,
    /// Batches of 100 events, until acknowledged.
    Batch,
    /// Single events from request to database, at a steady rate and then at increasing rates.
    EndToEndSingle,
    /// Batches from request to database, at a steady rate and then at increasing rates.
    EndToEndBatch,
    /// Recording only, by one worker and by two.
    Drain,
    /// CPU per event with increasing numbers of projects, users and automations.
    Growth,
    /// Cost of tracing one request in a hundred.
    Tracing,
    /// Accepting while NATS syncs every message to disk.
    Durable,
    /// Effect on one project of another that sends ten times its limit.
    Fairness,
    /// Pushes through a JSON API over HTTP/2.
    DeliverApi,
    /// Encrypted pushes to browsers.
    DeliverWebPush,
    /// Mails to a mail server.
    DeliverSmtp,
    /// Memory of a worker with a full queue.
    DeliverQueue,
    /// The same number of messages from 1, 10 and 1,000 projects, in full chunks and one by one.
    DeliverProjects,
    /// Latency of direct messages from acceptance to arrival at the provider, one at a time.
    DeliverLatency,
    /// Delivery with a year of messages in the ledger.
    DeliverYear,
    /// Delivery for one project while the provider of another never responds.
    DeliverHanging,
    /// Delivery while a transaction stays open for two million messages. Runs only by name.
    DeliverHeld,
    /// Template rendering only.
    Render,
    /// Matching of events to automations only.
    AutomationMatch,
    /// Runs that start and send a message immediately.
    AutomationRuns,
    /// Waits that end: published by the scheduler, resumed by the worker.
    AutomationResume,
    /// Recording with and without tracked segments.
    SegmentIngest,
    /// Reads from a filled database.
    Reads,
    /// Segment estimates on the filled database.
    SegmentEstimate,
    /// A campaign to all users with an address in the filled database: enqueueing the audience, and sending.
    Campaign,
    /// Memory over ten minutes, or --seconds. Runs only by name.
    Memory,
}

impl Scenario {
    /// Returns the scenarios that run by default.
    pub fn usual() -> Vec<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .filter(|scenario| !matches!(scenario, Self::Memory | Self::DeliverHeld))
            .collect()
    }

    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Durations and sizes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub quick: bool,
    /// Items per second of a sustained load, overriding the scenario's own rate.
    pub offered: Option<f64>,
    /// Duration of a sustained load.
    pub sustain: Duration,
    /// Duration of one round of a load or ceiling.
    pub round: Duration,
    pub rounds: usize,
    /// Automations per project.
    pub automations: u32,
    /// Messages in a full queue.
    pub queued: u32,
    /// Events and users of the filled database.
    pub filled: (u64, u64),
}

/// The database filled with months of data.
const FILLED: &str = "filled";

/// Environment of the scenarios: settings, and a system that is started on first use.
pub struct Lab {
    pub settings: Settings,
    pub progress: Steps,
    options: Options,
    system: Option<System>,
    /// Whether the system uses the filled database.
    filled: bool,
    /// Users in the system's database, by project.
    known: Vec<u32>,
    /// Number of projects that have automations, and automations per project.
    active: (u32, u32),
}

impl Lab {
    pub fn new(settings: Settings, options: Options, progress: Steps) -> Self {
        let active = (PROJECTS, settings.automations);
        Self { settings, progress, options, system: None, filled: false, known: Vec::new(), active }
    }

    /// Returns the system with 1,000 projects, their automations and 100,000 users.
    pub async fn system(&mut self) -> Result<&mut System> {
        if self.system.is_none() || self.filled {
            let automations = self.settings.automations;
            self.open(self.options.clone()).await?;
            self.provision(automations).await?;
        }
        self.opened()
    }

    /// Returns a system whose database is filled with months of data.
    ///
    /// Filling takes minutes. Its duration appears in the section of the first scenario that needs it.
    pub async fn filled(&mut self, section: &mut Section) -> Result<&mut System> {
        if self.system.is_none() || !self.filled {
            let ((events, users), progress) = (self.settings.filled, self.progress.clone());
            let system = self.open(self.options.clone()).await?;
            let database_url = system.use_database(FILLED).await?;
            let started = Instant::now();
            fill::run(&FillArgs { events, users, projects: PROJECTS, database_url }, &progress).await?;
            section.figures.push(Figure::one("fill time", "s", started.elapsed().as_secs_f64()));
            self.filled = true;
        }
        self.opened()
    }

    /// Replaces the running system with a new, empty one.
    pub async fn open(&mut self, options: Options) -> Result<&mut System> {
        self.close().await?;
        self.system = Some(System::start(options, &self.progress).await?);
        self.opened()
    }

    fn opened(&mut self) -> Result<&mut System> {
        self.system.as_mut().ok_or_else(|| anyhow::anyhow!("no system is running"))
    }

    /// Creates the projects, with `automations` automations each, and their users.
    pub async fn provision(&mut self, automations: u32) -> Result<&mut System> {
        self.progress.step("creating 1,000 projects, their automations and 100,000 users");
        let system = self.opened()?;
        let now = Clock::system().now();
        provision::projects(&system.database, PROJECTS, now).await?;
        provision::automations(&system.database, PROJECTS, automations, now).await?;
        provision::users(&system.database, 0..PROJECTS, 0..USERS, now).await?;
        provision::searchable(system.database_url()).await?;
        self.known = vec![USERS; PROJECTS as usize];
        self.active = (PROJECTS, automations);
        self.opened()
    }

    /// Stops the running system, if any.
    pub async fn close(&mut self) -> Result<()> {
        self.filled = false;
        if let Some(system) = self.system.take() {
            system.stop().await?;
        }
        clear(&self.options).await
    }

    /// Runs one scenario. The section keeps the figures that were measured before a failure.
    pub async fn run(&mut self, scenario: Scenario) -> Section {
        let mut section = Section { scenario: scenario.name(), ..Section::default() };
        self.progress.step(&section.scenario);
        let outcome = match scenario {
            Scenario::Idle => idle::run(self, &mut section).await,
            Scenario::Single => accept::single(self, &mut section).await,
            Scenario::Batch => accept::batch(self, &mut section).await,
            Scenario::EndToEndSingle => end_to_end::single(self, &mut section).await,
            Scenario::EndToEndBatch => end_to_end::batch(self, &mut section).await,
            Scenario::Drain => drain::run(self, &mut section).await,
            Scenario::Growth => growth::run(self, &mut section).await,
            Scenario::Tracing => tracing::run(self, &mut section).await,
            Scenario::Durable => durable::run(self, &mut section).await,
            Scenario::Fairness => fairness::run(self, &mut section).await,
            Scenario::DeliverApi => deliver::api(self, &mut section).await,
            Scenario::DeliverWebPush => deliver::web_push(self, &mut section).await,
            Scenario::DeliverSmtp => deliver::smtp(self, &mut section).await,
            Scenario::DeliverQueue => deliver::queue(self, &mut section).await,
            Scenario::DeliverProjects => deliver::projects(self, &mut section).await,
            Scenario::DeliverLatency => deliver::latency(self, &mut section).await,
            Scenario::DeliverYear => deliver::year(self, &mut section).await,
            Scenario::DeliverHanging => deliver::hanging(self, &mut section).await,
            Scenario::DeliverHeld => deliver::held(self, &mut section).await,
            Scenario::Render => deliver::render(self, &mut section).await,
            Scenario::AutomationMatch => automation::matching(self, &mut section).await,
            Scenario::AutomationRuns => automation::runs(self, &mut section).await,
            Scenario::AutomationResume => automation::resume(self, &mut section).await,
            Scenario::SegmentIngest => segment::ingest(self, &mut section).await,
            Scenario::Reads => reads::run(self, &mut section).await,
            Scenario::SegmentEstimate => segment::estimate(self, &mut section).await,
            Scenario::Campaign => campaign::run(self, &mut section).await,
            Scenario::Memory => end_to_end::memory(self, &mut section).await,
        };
        match outcome {
            Ok(()) => self.progress.done(&section.scenario),
            Err(error) => {
                // The failed scenario may have left the system in any state, so the next one starts a new system.
                if let Err(error) = self.close().await {
                    self.progress.warn(&format!("{error:#}"));
                }
                self.progress.warn(&format!("{}: {error:#}", section.scenario));
                section.error = Some(format!("{error:#}"));
            }
        }
        section
    }
}
