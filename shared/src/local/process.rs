//! A detached process known by its pid file, never mistaken for another that got its pid later.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use rustix::process::Signal;

use super::LocalError;

/// A process started by this program or by an earlier one. Dropping it leaves the process running.
#[derive(Clone, Debug)]
pub struct Process {
    pid: rustix::process::Pid,
    /// When it started, as the system tells it: what tells a process from a later one of the same pid.
    started: String,
    /// The handle to reap it by, where this program started it.
    child: Option<Arc<Mutex<std::process::Child>>>,
}

impl Process {
    /// Starts `command` in a process group of its own, stdin empty, stdout and stderr appended to `log_file`, and
    /// writes `pid_file`.
    pub fn spawn(command: Command, pid_file: &Path, log_file: &Path) -> Result<Self, LocalError> {
        let _ = (command, pid_file, log_file);
        todo!()
    }

    /// The process that `pid_file` names, if it still runs.
    pub fn attach(pid_file: &Path) -> Result<Option<Self>, LocalError> {
        let _ = pid_file;
        todo!()
    }

    pub fn pid(&self) -> u32 {
        todo!()
    }

    pub fn is_running(&self) -> bool {
        todo!()
    }

    /// Sends a signal; a process that is gone is no error.
    pub fn signal(&self, signal: Signal) {
        let _ = signal;
        todo!()
    }

    /// Sends SIGTERM and waits; after `grace` sends SIGKILL and waits. True when it went without being killed.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.stop_by(Signal::TERM, grace).await
    }

    /// As [`Process::stop`], with another first signal.
    pub async fn stop_by(&self, signal: Signal, grace: Duration) -> bool {
        let _ = (signal, grace);
        todo!()
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) {
        todo!()
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until it is gone; false when `deadline` passed first.
    pub async fn gone(&self, deadline: Duration) -> bool {
        let _ = deadline;
        todo!()
    }
}
