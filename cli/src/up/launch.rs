//! Starts the supervisor, or notifies the running one, and waits until all its processes are ready.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use local_servers::Process;
use local_servers::process::Signal;

use crate::process_table::{Entry, ProcessTable, Status};
use crate::readiness::{self, ReadinessClient};
use crate::run_dir::RunDir;
use crate::services::{self, SUPERVISOR};
use crate::state::State;
use crate::supervise::{GRACE, log_file};
use progress::Steps;

/// Maximum time for all processes to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// A process that ended by itself this often, since its service last changed, counts as failed.
const MAX_EXITS: u32 = 4;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time for the supervisor to stop everything: the processes, then the mailbox.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2 * GRACE.as_secs() + 5);

/// Ensures that a supervisor of this build applies the state.
pub async fn supervisor(dir: &RunDir, state: &State, programs: &Path) -> Result<()> {
    let program = programs.join("rekindle");
    let pid_file = dir.pid_file(SUPERVISOR);
    let running = Process::attach(&pid_file)?;
    let table = ProcessTable::load(dir).ok().flatten().unwrap_or_default();
    match running {
        Some(process) if table.supervisor == process.pid() && table.build == services::build_of(&program)? => {
            process.signal(Signal::HUP);
        }
        other => {
            if let Some(process) = other {
                process.stop(STOP_TIMEOUT).await;
            }
            let log = dir.log(SUPERVISOR);
            log_file::rotate(&log, log_file::MAX_LOG_BYTES)?;
            let mut command = Command::new(program);
            command.arg("supervise").env("RUN_DIR", dir.path()).current_dir(dir.path());
            Process::spawn(command, &pid_file, &log)?;
        }
    }
    wait_until_applied(dir, state.generation).await
}

/// Waits until the supervisor has applied the state.
async fn wait_until_applied(dir: &RunDir, generation: u64) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let running = Process::attach(&dir.pid_file(SUPERVISOR))?;
        let table = ProcessTable::load(dir).ok().flatten();
        let current = table
            .is_some_and(|t| t.generation == generation && running.as_ref().is_some_and(|p| p.pid() == t.supervisor));
        if current {
            return Ok(());
        }
        if running.is_none() || Instant::now() > deadline {
            bail!("the supervisor did not start. The end of its log:\n{}", log_end(dir, SUPERVISOR));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until every process runs and reports that it is ready.
pub async fn wait_until_ready(dir: &RunDir, state: &State, progress: &Steps) -> Result<()> {
    let client = ReadinessClient::new()?;
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let table = ProcessTable::load(dir)?.unwrap_or_default();
        let waiting = not_ready(&client, &table, state).await;
        if waiting.is_empty() {
            return Ok(());
        }
        if let Some((name, entry)) = failed_process(&table) {
            let end = entry.last_end.as_deref().unwrap_or("ended");
            bail!(
                "{name} keeps failing ({end}). The end of its log:\n{}\n`rekindle logs {name}` shows more. To try again, run `rekindle down` and then `rekindle up`.",
                log_end(dir, name)
            );
        }
        let list: Vec<String> = waiting.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        if Instant::now() > deadline {
            let logs: Vec<String> =
                waiting.keys().map(|name| format!("the end of the log of {name}:\n{}", log_end(dir, name))).collect();
            bail!("not ready after {} s: {}\n{}", READY_TIMEOUT.as_secs(), list.join(", "), logs.join("\n"));
        }
        progress.waiting(&format!("waiting for {}", list.join(", ")));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns every process that is not ready, with the reason.
async fn not_ready(client: &ReadinessClient, table: &ProcessTable, state: &State) -> BTreeMap<String, String> {
    let checks = table.processes.iter().map(|(name, entry)| async move {
        let ready = readiness::of(client, name, entry, &state.ports).await;
        ready.err().map(|why| (name.clone(), why))
    });
    futures_util::future::join_all(checks).await.into_iter().flatten().collect()
}

/// Returns a process that will not recover by waiting, if any.
fn failed_process(table: &ProcessTable) -> Option<(&str, &Entry)> {
    let dead =
        |e: &Entry| e.status == Status::Waiting && (e.deaths >= MAX_EXITS || matches!(e.last_code, Some(64 | 78)));
    table.processes.iter().find(|(_, entry)| dead(entry)).map(|(name, entry)| (name.as_str(), entry))
}

fn log_end(dir: &RunDir, name: &str) -> String {
    let (lines, _) = log_file::last_lines(&dir.log(name), 5).unwrap_or_default();
    if lines.is_empty() { "    (empty)".into() } else { format!("    {}", lines.join("\n    ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(status: Status, deaths: u32, last_code: Option<i32>) -> ProcessTable {
        let entry = Entry {
            status,
            pid: None,
            since: jiff::Timestamp::UNIX_EPOCH,
            deaths,
            last_end: None,
            last_code,
            admin: None,
        };
        ProcessTable { processes: [("gateway".to_owned(), entry)].into(), ..ProcessTable::default() }
    }

    #[test]
    fn permanent_failures_are_reported_at_once() {
        assert!(failed_process(&table(Status::Waiting, 1, Some(64))).is_some());
        assert!(failed_process(&table(Status::Waiting, 1, Some(78))).is_some());
        assert!(failed_process(&table(Status::Waiting, 1, Some(1))).is_none());
        assert!(failed_process(&table(Status::Waiting, MAX_EXITS, Some(1))).is_some());
        assert!(failed_process(&table(Status::Running, MAX_EXITS, Some(1))).is_none());
    }
}
