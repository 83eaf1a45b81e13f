//! Keeps one process running.

use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use kernel::clock::Clock;
use local_servers::Process;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::backoff::RestartBackoff;
use super::{GRACE, log_file};
use crate::process_table::{Published, Status};
use crate::run_dir::RunDir;
use crate::services::Service;

/// The task that keeps one process running. It receives the service to run through a channel, or `None` to stop.
pub struct Keeper {
    wanted: watch::Sender<Option<Service>>,
    task: JoinHandle<()>,
}

impl Keeper {
    pub fn start(name: &'static str, service: Service, dir: RunDir, clock: Clock, published: Arc<Published>) -> Self {
        let (wanted, receiver) = watch::channel(Some(service));
        let keeper_task = KeeperTask { name, dir, clock, published };
        Self { wanted, task: tokio::spawn(keeper_task.run(receiver)) }
    }

    /// Runs `service` from now on. An unchanged process continues, and a process that waits for its restart is started
    /// now.
    pub fn set_service(&self, service: Service) {
        let _ = self.wanted.send(Some(service));
    }

    /// Stops the process and waits until it has ended.
    pub async fn stop(self) {
        let _ = self.wanted.send(None);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the task that keeps a process running panicked");
        }
    }
}

#[cfg(test)]
impl Keeper {
    /// Ends the task but leaves the process running, as a killed supervisor does.
    pub fn abort(self) {
        self.task.abort();
    }
}

struct KeeperTask {
    name: &'static str,
    dir: RunDir,
    clock: Clock,
    published: Arc<Published>,
}

impl KeeperTask {
    async fn run(self, mut wanted: watch::Receiver<Option<Service>>) {
        self.stop_leftover().await;
        let mut backoff = RestartBackoff::default();
        loop {
            let Some(service) = wanted.borrow_and_update().clone() else { break };
            let began = Instant::now();
            let status = match self.spawn(&service) {
                Ok(process) => {
                    self.record_running(&process);
                    tokio::select! {
                        _ = process.wait_for_exit(Duration::MAX) => process.exit_status(),
                        () = wait_for_another_service(&mut wanted, &service) => {
                            tracing::info!(process = self.name, pid = process.pid(), "stopping");
                            self.published.update_entry(self.name, |e| e.status = Status::Starting);
                            process.stop(GRACE).await;
                            backoff = RestartBackoff::default();
                            continue;
                        }
                    }
                }
                Err(error) => {
                    tracing::error!(process = self.name, "cannot start the process: {error:#}");
                    None
                }
            };
            let delay = backoff.next_delay(began.elapsed(), status.and_then(|s| s.code()));
            self.record_exit(status, delay);
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = wanted.changed() => backoff = RestartBackoff::default(),
            }
        }
        let now = self.clock.now();
        self.published.update_entry(self.name, |e| (e.status, e.pid, e.since) = (Status::Stopped, None, now));
    }

    /// Stops a process of an earlier, killed supervisor: two instances must not share ports.
    async fn stop_leftover(&self) {
        match Process::attach(&self.dir.pid_file(self.name)) {
            Ok(Some(process)) => {
                tracing::info!(process = self.name, pid = process.pid(), "stopping a process of an earlier supervisor");
                process.stop(GRACE).await;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(process = self.name, %error, "cannot read the PID file"),
        }
    }

    fn spawn(&self, service: &Service) -> Result<Process> {
        let log = self.dir.log(self.name);
        log_file::rotate(&log, log_file::MAX_LOG_BYTES)?;
        let mut command = Command::new(&service.program);
        command.args(&service.args).envs(&service.env).current_dir(self.dir.path());
        Ok(Process::spawn(command, &self.dir.pid_file(self.name), &log)?)
    }

    fn record_running(&self, process: &Process) {
        tracing::info!(process = self.name, pid = process.pid(), "started");
        let now = self.clock.now();
        self.published.update_entry(self.name, |entry| {
            (entry.status, entry.pid, entry.since) = (Status::Running, Some(process.pid()), now);
        });
    }

    fn record_exit(&self, status: Option<ExitStatus>, delay: Duration) {
        let end = status.map_or("could not be started".to_owned(), |s| s.to_string());
        tracing::warn!(process = self.name, %end, ?delay, "the process ended; restarting after the delay");
        let now = self.clock.now();
        self.published.update_entry(self.name, |entry| {
            (entry.status, entry.pid, entry.since) = (Status::Waiting, None, now);
            entry.deaths += 1;
            entry.last_end = Some(end);
            entry.last_code = status.and_then(|s| s.code());
        });
    }
}

/// Returns once a service other than `running` is wanted.
async fn wait_for_another_service(wanted: &mut watch::Receiver<Option<Service>>, running: &Service) {
    loop {
        if wanted.changed().await.is_err() || wanted.borrow_and_update().as_ref() != Some(running) {
            return;
        }
    }
}
