//! `rekindle down`: stops what `up` started in a run directory, and nothing else.

use anyhow::Result;
use local_servers::{NatsServer, PostgresServer, Process, RedisServer};

use crate::run_dir::RunDir;
use crate::run_dir::RunDirArg;
use crate::services::{MAILBOX, PROGRAMS, SUPERVISOR};
use crate::supervise::GRACE;
use crate::up::{NATS, POSTGRES, REDIS, STOP_TIMEOUT};
use progress::Steps;

pub async fn run(args: &RunDirArg) -> Result<()> {
    let Some(dir) = RunDir::existing(&args.run_dir)? else {
        println!("Nothing is running: {} does not exist.", args.run_dir.display());
        return Ok(());
    };
    let _lock = dir.lock()?;
    let progress = Steps::start();
    let stopped = stop_all(&dir, &progress).await;
    progress.end();
    let stopped = stopped?;
    if stopped.is_empty() {
        println!("Nothing is running in {}.", dir.path().display());
    } else {
        println!("Stopped {}. The data is kept in {}.", stopped.join(", "), dir.path().display());
    }
    Ok(())
}

/// Stops processes and servers in dependency order. Each process is identified by PID and start time, so that no other
/// process is stopped by mistake.
async fn stop_all(dir: &RunDir, progress: &Steps) -> Result<Vec<&'static str>> {
    let mut stopped = Vec::new();
    let processes: Vec<&'static str> = PROGRAMS.into_iter().chain([MAILBOX]).collect();
    let running = |name: &str| Process::attach(&dir.pid_file(name));
    for name in &processes {
        if running(name)?.is_some() {
            stopped.push(*name);
        }
    }
    if let Some(supervisor) = running(SUPERVISOR)? {
        progress.step("stopping the processes");
        supervisor.stop(STOP_TIMEOUT).await;
        stopped.push(SUPERVISOR);
    }
    // Stop processes that a killed supervisor left running.
    for name in &processes {
        if let Some(process) = running(name)? {
            process.stop(GRACE).await;
        }
    }
    if let Some(server) = RedisServer::attach(&dir.server(REDIS))? {
        progress.step("stopping Redis");
        server.stop().await?;
        stopped.push(REDIS);
    }
    if let Some(server) = NatsServer::attach(&dir.server(NATS))? {
        progress.step("stopping NATS");
        server.stop().await?;
        stopped.push(NATS);
    }
    if let Some(server) = PostgresServer::attach(&dir.server(POSTGRES))? {
        progress.step("stopping PostgreSQL");
        server.stop().await?;
        stopped.push(POSTGRES);
    }
    Ok(stopped)
}
