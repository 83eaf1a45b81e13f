//! A server that runs in its directory: the common parts of PostgreSQL, NATS and Redis.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::Signal;
use super::server_dir::{Readiness, ServerDir};
use super::{LocalError, Process, port};

/// A server that was running when it was started or attached.
#[derive(Clone, Debug)]
pub struct RunningServer {
    process: Process,
    port: u16,
    password: String,
    dir: ServerDir,
    log: PathBuf,
}

impl RunningServer {
    /// Returns the server that runs in `dir`, if there is one.
    pub(super) fn attach(dir: &ServerDir) -> Result<Option<Self>, LocalError> {
        dir.process()?.map(|process| Self::of(dir, process)).transpose()
    }

    /// Starts the server whose port and password the directory already stores.
    pub(super) fn spawn(dir: &ServerDir, command: Command) -> Result<Self, LocalError> {
        Self::of(dir, Process::spawn(command, &dir.pid_file(), &dir.log_file())?)
    }

    fn of(dir: &ServerDir, process: Process) -> Result<Self, LocalError> {
        let (port, password) = (dir.stored_port("port")?, dir.password()?);
        let (Some(port), Some(password)) = (port, password) else { return Err(dir.incomplete()) };
        Ok(Self { process, port, password, dir: dir.clone(), log: dir.log_file() })
    }

    /// Waits until the server is ready. `timeout_message` is the error if that takes longer than `within`.
    pub(super) async fn wait_ready<F: Future<Output = bool>>(
        &self,
        within: Duration,
        timeout_message: &str,
        ready: impl Fn() -> F,
    ) -> Result<(), LocalError> {
        match self.dir.wait_ready(&self.process, within, ready).await {
            Readiness::Ready => Ok(()),
            Readiness::Ended => Err(self.dir.error("ended while it started")),
            Readiness::TimedOut => Err(self.dir.error(timeout_message)),
        }
    }

    /// Returns whether the server ended because another process took its port first.
    pub(super) fn lost_port(&self) -> bool {
        !self.is_running() && !port::is_free(self.port)
    }

    /// Stops the server by a signal. `killed` is the error if it did not end within `grace`.
    pub(super) async fn stop_by(&self, signal: Signal, grace: Duration, killed: &str) -> Result<(), LocalError> {
        if self.process.stop_by(signal, grace).await { Ok(()) } else { Err(self.dir.error(killed)) }
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> LocalError {
        self.dir.error(problem)
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn log_file(&self) -> &Path {
        &self.log
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }
}
