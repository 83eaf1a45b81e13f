//! `rekindle up`: brings a system from any state to ready.

mod launch;
mod ports;
mod servers;
mod summary;

use std::path::Path;

use anyhow::{Context, Result};
use kernel::clock::Clock;
use secrets::MasterKeys;

use crate::args::UpArgs;
use crate::provision::{Mailbox, Provision};
use crate::run_dir::RunDir;
use crate::services;
use crate::state::{self, State};
use progress::Steps;

pub use launch::STOP_TIMEOUT;
pub use servers::{NATS, POSTGRES, REDIS, attached_database};
pub use summary::{Credentials, write_credentials};

/// Starts everything and prints how to reach it. Every step can be repeated after a crash.
pub async fn run(args: &UpArgs) -> Result<()> {
    let dir = RunDir::create(&args.dir.run_dir)?;
    let _lock = dir.lock()?;
    let progress = Steps::start();
    let outcome = bring_up(&dir, args, &progress).await;
    progress.end();
    let state = outcome?;
    summary::print(&dir, &state);
    Ok(())
}

async fn bring_up(dir: &RunDir, args: &UpArgs, progress: &Steps) -> Result<State> {
    // Check for missing programs before anything starts.
    let programs = services::program_dir()?;
    for program in services::PROGRAMS.iter().chain(&["rekindle"]) {
        services::build_of(&programs.join(program))?;
    }
    let mut state = State::load_or_create(dir, Clock::system().now_ms())?;
    let choice = ports::choose_gateway(dir, &mut state, args.port)?;
    if let Some(note) = choice.note {
        progress.warn(&note);
    }
    state::ensure_master_key(&dir.master_key_file())?;
    let tools = servers::find_or_install(dir, args.redis, progress).await?;

    progress.step("starting PostgreSQL, NATS and Redis");
    state.servers = servers::start(dir, &tools, progress).await?;

    ports::choose_others(dir, &mut state);
    // Save before the first use, here and below, so that a crash in between loses nothing.
    let mail_now = state.ports.smtp.context("no port was chosen for the mailbox")?;
    let mail_before = *state.mail_port_in_channel.get_or_insert(mail_now);
    state.generation += 1;
    state.save(dir)?;

    progress.step("migrating the database");
    let provision = Provision::new(&state.servers.database)?;
    for migration in provision.migrate().await? {
        progress.done(&format!("migration {migration}"));
    }
    let keys = master_keys(dir)?;
    let [before, now] = [mail_before, mail_now].map(Mailbox::on_loopback);
    if provision.first_project(&keys, &state.first, Some(&before), Some(&now)).await? && before != now {
        state.mail_port_in_channel = Some(mail_now);
        state.save(dir)?;
    }

    progress.step("starting gateway, worker-automation, worker-delivery, scheduler and the mailbox");
    start_processes(dir, args, &mut state, &programs, progress).await?;
    write_credentials(dir, &Credentials::of(dir, &state))?;
    Ok(state)
}

/// Starts the processes and waits until they are ready. If another program takes the gateway's port first, another port
/// is chosen.
async fn start_processes(
    dir: &RunDir,
    args: &UpArgs,
    state: &mut State,
    programs: &Path,
    progress: &Steps,
) -> Result<()> {
    loop {
        launch::supervisor(dir, state, programs).await?;
        let Err(error) = launch::wait_until_ready(dir, state, progress).await else { return Ok(()) };
        let before = state.ports.gateway;
        let choice = ports::choose_gateway(dir, state, args.port)?;
        if state.ports.gateway == before {
            return Err(error);
        }
        progress.warn(&choice.note.unwrap_or_default());
        state.generation += 1;
        state.save(dir)?;
    }
}

/// Returns the master keys of a run directory.
pub fn master_keys(dir: &RunDir) -> Result<MasterKeys> {
    let text = std::fs::read_to_string(dir.master_key_file())?;
    MasterKeys::parse(&text).context("master.key of the run directory does not hold 64 hexadecimal digits")
}
