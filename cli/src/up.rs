//! `rekindle up`: from nothing, or from whatever is there, to a system that is ready.

mod launch;
mod ports;
mod servers;
mod summary;

use anyhow::{Context, Result};
use shared::clock::Clock;
use shared::secrets::MasterKeys;

use crate::args::UpArgs;
use crate::progress::Progress;
use crate::provision::Provision;
use crate::run_dir::RunDir;
use crate::services;
use crate::state::{self, State};

pub use launch::STOP;
pub use servers::{NATS, POSTGRES, REDIS, attached_database, find_or_install};
pub use summary::Credentials;

/// Brings everything up and prints how to reach it. Every step may be repeated after a crash in any other.
pub async fn run(args: &UpArgs) -> Result<()> {
    let dir = RunDir::create(&args.place.run_dir)?;
    let _lock = dir.lock()?;
    let progress = Progress::start();
    let outcome = bring_up(&dir, args, &progress).await;
    progress.end();
    let state = outcome?;
    summary::print(&dir, &state);
    Ok(())
}

async fn bring_up(dir: &RunDir, args: &UpArgs, progress: &Progress) -> Result<State> {
    // Missing programs are found out before anything is started.
    let programs = services::program_dir()?;
    for program in services::PROGRAMS.iter().chain(&["rekindle"]) {
        services::build_of(&programs.join(program))?;
    }
    let tools = find_or_install(dir, args.redis, progress).await?;
    let mut state = State::load_or_create(dir, Clock::system().now_ms())?;
    state::ensure_master_key(dir)?;

    progress.step("starting PostgreSQL, NATS and Redis");
    state.servers = servers::start(dir, &tools, progress).await?;

    let choice = ports::choose_all(dir, &mut state, args.port)?;
    if let Some(note) = choice.note {
        progress.warn(&note);
    }
    // Remembered before it is first used, here and below: a crash in between must lose nothing.
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
    if provision.first_project(&keys, &state.first, Some(mail_before), mail_now).await? && mail_before != mail_now {
        state.mail_port_in_channel = Some(mail_now);
        state.save(dir)?;
    }

    progress.step("starting gateway, worker-automation, worker-delivery, scheduler and the mailbox");
    launch::supervisor(dir, &state, &programs).await?;
    launch::until_ready(dir, &state, progress).await?;
    summary::write_credentials(dir, &state)?;
    Ok(state)
}

/// The master keys of a run directory.
pub fn master_keys(dir: &RunDir) -> Result<MasterKeys> {
    let text = std::fs::read_to_string(dir.master_key_file())?;
    MasterKeys::parse(&text).context("master.key of the run directory does not hold 64 hexadecimal digits")
}
