//! `rekindle supervise`: starts the processes of a run directory, and restarts each one that ends by itself.
//!
//! SIGHUP applies the current state and restarts what changed. SIGTERM stops all processes and exits.

pub mod backoff;
mod keeper;
pub mod log_file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kernel::clock::Clock;
use tokio::signal::unix::{SignalKind, signal};

use crate::process_table::{Entry, Published, Status};
use crate::run_dir::RunDir;
use crate::services::{self, MAILBOX, Service};
use crate::state::State;
use keeper::Keeper;

/// How long a process may take to stop before it is killed.
pub const GRACE: Duration = kernel::shutdown::GRACE;

pub async fn run(dir: RunDir) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut supervisor = Supervisor::new(dir, services::program_dir()?)?;
    supervisor.apply_state()?;
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                if let Err(error) = supervisor.apply_state() {
                    tracing::error!("cannot apply the new state; the processes continue unchanged: {error:#}");
                }
            }
        }
    }
    tracing::info!("stopping all processes");
    supervisor.stop().await;
    Ok(())
}

struct Supervisor {
    dir: RunDir,
    /// Directory of the programs.
    programs: PathBuf,
    clock: Clock,
    published: Arc<Published>,
    keepers: BTreeMap<&'static str, Keeper>,
    services: BTreeMap<&'static str, Service>,
}

impl Supervisor {
    fn new(dir: RunDir, programs: PathBuf) -> Result<Self> {
        let build = services::build_of(&programs.join("rekindle"))?;
        let published = Arc::new(Published::new(dir.clone(), build));
        let (keepers, services) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { dir, programs, clock: Clock::system(), published, keepers, services })
    }

    /// Applies the state: notifies every keeper of the service that it has to run.
    fn apply_state(&mut self) -> Result<()> {
        let state = State::load(&self.dir)?.context("the run directory has no state: run `rekindle up`")?;
        let wanted = services::of(&self.dir, &state, &self.programs)?;
        let now = self.clock.now();
        // Update the entries before publishing the generation, so that its readers never see a stale `running`.
        self.published.update(|table| {
            for (name, service) in &wanted {
                if self.services.get(name) != Some(service) {
                    let entry = table.processes.entry((*name).to_owned()).or_insert_with(|| new_entry(now));
                    *entry = Entry { admin: service.admin, ..new_entry(now) };
                }
            }
            table.generation = state.generation;
        });
        for (name, service) in &wanted {
            if let Some(keeper) = self.keepers.get(name) {
                keeper.set_service(service.clone());
                continue;
            }
            let (dir, clock, published) = (self.dir.clone(), self.clock.clone(), self.published.clone());
            self.keepers.insert(name, Keeper::start(name, service.clone(), dir, clock, published));
        }
        self.services = wanted;
        Ok(())
    }

    /// Stops the mailbox last, so that mail in flight still reaches it.
    async fn stop(mut self) {
        let mailbox = self.keepers.remove(MAILBOX);
        futures_util::future::join_all(self.keepers.into_values().map(Keeper::stop)).await;
        if let Some(mailbox) = mailbox {
            mailbox.stop().await;
        }
    }
}

fn new_entry(now: jiff::Timestamp) -> Entry {
    Entry { status: Status::Starting, pid: None, since: now, deaths: 0, last_end: None, last_code: None, admin: None }
}
