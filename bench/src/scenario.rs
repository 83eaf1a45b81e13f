//! What can be measured, each by itself.

pub mod accept;
pub mod end_to_end;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use shared::clock::Clock;

use crate::progress::Progress;
use crate::report::Section;
use crate::system::{Options, System};
use crate::{provision, tenants};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// One event a request, acknowledged, over 256 connections.
    Single,
    /// Batches of 100, acknowledged.
    Batch,
    /// Single events at a steady rate, all the way into the database.
    EndToEndSingle,
    /// Batches at a steady rate, all the way into the database.
    EndToEndBatch,
}

impl Scenario {
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// How long and how large.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of a sustained load.
    pub sustain: Duration,
    /// Of one round of a load or ceiling.
    pub round: Duration,
    pub rounds: usize,
    /// Automations of each project.
    pub automations: u32,
}

/// Where scenarios run: settings, and a system that is started when it is first needed.
pub struct Lab {
    pub settings: Settings,
    pub progress: Progress,
    options: Options,
    system: Option<System>,
}

impl Lab {
    pub fn new(settings: Settings, options: Options, progress: Progress) -> Self {
        Self { settings, progress, options, system: None }
    }

    /// The system with 1,000 projects, their automations and 100,000 known people.
    pub async fn system(&mut self) -> Result<&mut System> {
        if self.system.is_none() {
            self.system = Some(provisioned(self.options.clone(), self.settings, &self.progress).await?);
        }
        self.system.as_mut().ok_or_else(|| anyhow::anyhow!("no system"))
    }

    pub async fn close(&mut self) -> Result<()> {
        match self.system.take() {
            Some(system) => system.stop().await,
            None => Ok(()),
        }
    }

    /// Runs one scenario; what it found before it failed stays in its section.
    pub async fn run(&mut self, scenario: Scenario) -> Section {
        let mut section = Section { scenario: scenario.name(), ..Section::default() };
        self.progress.step(&section.scenario);
        let outcome = match scenario {
            Scenario::Single => accept::single(self, &mut section).await,
            Scenario::Batch => accept::batch(self, &mut section).await,
            Scenario::EndToEndSingle => end_to_end::single(self, &mut section).await,
            Scenario::EndToEndBatch => end_to_end::batch(self, &mut section).await,
        };
        match outcome {
            Ok(()) => self.progress.done(&section.scenario),
            Err(error) => {
                self.progress.warn(&format!("{}: {error:#}", section.scenario));
                section.error = Some(format!("{error:#}"));
            }
        }
        section
    }
}

pub async fn provisioned(options: Options, settings: Settings, progress: &Progress) -> Result<System> {
    let system = System::start(options, progress).await?;
    progress.step("making 1,000 projects, their automations and 100,000 people");
    let now = Clock::system().now();
    provision::projects(&system.database, tenants::PROJECTS, now).await?;
    provision::automations(&system.database, tenants::PROJECTS, settings.automations, now).await?;
    provision::people(&system.database, tenants::PROJECTS, 0..100, now).await?;
    Ok(system)
}
