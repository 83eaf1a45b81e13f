//! `rekindle`: runs a whole system on one machine, and administers any installation.

pub mod args;
pub mod demo;
mod doctor;
mod down;
mod logs;
mod mailbox;
mod operator;
mod port;
mod private_file;
pub mod process_table;
pub mod provision;
mod readiness;
mod run_dir;
mod services;
mod setup;
mod state;
mod status;
mod supervise;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use kernel::env::Env;

use args::{Cli, Command};
use run_dir::RunDir;
pub use up::Credentials;

/// Exit status of a program that the user interrupted.
const INTERRUPTED: u8 = 130;

/// Runs one command.
pub async fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Up(args) => {
            return interruptible(
                up::run(&args),
                "run `rekindle up` to continue, or `rekindle down` to stop what was started",
            )
            .await;
        }
        Command::Down(args) => {
            return interruptible(down::run(&args), "run `rekindle down` again to stop the rest").await;
        }
        Command::Logs(args) => logs::run(&args).await?,
        Command::Status(args) => {
            return Ok(if status::run(&args).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Demo(options) => {
            return Ok(if demo::run(options).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Migrate(args) => {
            // The migration logs what it waits for.
            runtime::telemetry::start_logging(&Env::from_process())?;
            operator::migrate(&args).await?;
        }
        Command::Setup(args) => setup::run(&args).await?,
        Command::Project { command } => operator::project(&command).await?,
        Command::Key { command } => operator::key(&command).await?,
        Command::Account { command } => operator::account(&command).await?,
        Command::Invite { command } => operator::invite(&command).await?,
        Command::DeadLetters { command } => operator::dead_letters(&command).await?,
        Command::Clock { command } => operator::clock(&command).await?,
        Command::Secrets { command } => {
            return Ok(if operator::secrets(&command).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Doctor(args) => {
            return Ok(if doctor::run(&args).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Supervise(args) => {
            runtime::telemetry::start_logging(&Env::from_process())?;
            supervise::run(RunDir::create(&args.run_dir)?).await?;
        }
        Command::Mailbox(args) => {
            runtime::telemetry::start_logging(&Env::from_process())?;
            mailbox::run(&args).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `work` until it ends or is interrupted. Every step records its result in files at once, so an interruption
/// needs no cleanup.
async fn interruptible(work: impl Future<Output = Result<()>>, hint: &str) -> Result<ExitCode> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        done = work => done.map(|()| ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(interrupted(hint)),
        _ = term.recv() => Ok(interrupted(hint)),
    }
}

fn interrupted(hint: &str) -> ExitCode {
    eprintln!("\nInterrupted: {hint}.");
    ExitCode::from(INTERRUPTED)
}
