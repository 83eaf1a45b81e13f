//! A detached process identified by its pid file, never mistaken for another that later reused the pid.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
pub use rustix::process::Signal;

use super::LocalError;

mod identity;

/// How often the end of a process is polled.
const POLL: Duration = Duration::from_millis(10);

/// A process started by this program or by an earlier one. Dropping it leaves the process running.
#[derive(Clone, Debug)]
pub struct Process {
    pid: Pid,
    /// Distinguishes it from a later process with the same pid.
    identity: String,
    /// The handle that reaps it, if this program started it.
    child: Option<Arc<Mutex<Child>>>,
}

impl Process {
    /// Starts `command` in its own process group, with empty stdin, and stdout and stderr appended to `log_file`.
    /// Writes `pid_file`.
    pub fn spawn(mut command: Command, pid_file: &Path, log_file: &Path) -> Result<Self, LocalError> {
        let open = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(log_file);
        let log = open.map_err(LocalError::io("open", log_file))?;
        let errors = log.try_clone().map_err(LocalError::io("open", log_file))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let program = Path::new(command.get_program()).to_owned();
        let child = command.spawn().map_err(LocalError::io("start", &program))?;
        let pid = Pid::from_child(&child);
        // The child has not been waited for, so it can be looked up even if it has ended.
        let identity = identity::of(pid).map(|found| found.identity).unwrap_or_default();
        let process = Self { pid, identity, child: Some(Arc::new(Mutex::new(child))) };
        if let Err(error) = process.write_pid_file(pid_file) {
            process.signal(Signal::KILL);
            return Err(error);
        }
        Ok(process)
    }

    /// Returns the process that `pid_file` names, if it still runs.
    pub fn attach(pid_file: &Path) -> Result<Option<Self>, LocalError> {
        let text = match fs::read_to_string(pid_file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LocalError::io("read", pid_file)(error)),
        };
        let parsed = text.trim_end().split_once(' ');
        let pid = parsed.and_then(|(pid, _)| pid.parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let (Some(pid), Some((_, identity))) = (pid, parsed) else { return Ok(None) };
        let process = Self { pid, identity: identity.to_owned(), child: None };
        Ok(process.is_running().then_some(process))
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub fn is_running(&self) -> bool {
        if let Some(child) = &self.child {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            return matches!(child.try_wait(), Ok(None));
        }
        identity::of(self.pid).is_some_and(|found| !found.zombie && found.identity == self.identity)
    }

    /// Returns the exit status; `None` while it runs, or if an earlier program started it.
    pub fn exit_status(&self) -> Option<std::process::ExitStatus> {
        let mut child = self.child.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }

    /// Sends a signal. A process that has ended is not an error.
    pub fn signal(&self, signal: Signal) {
        if self.is_running() {
            // It may end between the check and the signal, but pids are not reused that fast.
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Sends SIGTERM and waits; after `grace` sends SIGKILL and waits. Returns true if it ended without SIGKILL.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.stop_by(Signal::TERM, grace).await
    }

    /// Like [`Process::stop`], with another first signal.
    pub async fn stop_by(&self, signal: Signal, grace: Duration) -> bool {
        self.signal(signal);
        self.resume();
        if self.wait_for_exit(grace).await {
            return true;
        }
        self.kill().await;
        false
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait_for_exit(Duration::MAX).await;
    }

    /// Sends SIGSTOP and waits until all threads have stopped. The process keeps its connections but does not answer.
    pub async fn suspend(&self) {
        self.signal(Signal::STOP);
        // Threads stop one after another, and the last may still answer requests.
        while self.is_running() && !identity::is_stopped(self.pid) {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the process has ended. Returns false if `deadline` passed first.
    pub async fn wait_for_exit(&self, deadline: Duration) -> bool {
        let wait = async {
            while self.is_running() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(deadline, wait).await.is_ok()
    }

    fn write_pid_file(&self, pid_file: &Path) -> Result<(), LocalError> {
        let temporary = pid_file.with_extension(format!("{}.tmp", self.pid()));
        fs::write(&temporary, format!("{} {}\n", self.pid(), self.identity))
            .and_then(|()| fs::rename(&temporary, pid_file))
            .map_err(LocalError::io("write", pid_file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path) -> Process {
        let mut command = Command::new("sleep");
        command.arg("60");
        Process::spawn(command, &dir.join("pid"), &dir.join("log")).unwrap()
    }

    #[tokio::test]
    async fn process_is_attached_by_pid_file_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let started = sleeper(dir.path());
        let attached = Process::attach(&dir.path().join("pid")).unwrap().unwrap();
        assert_eq!(attached.pid(), started.pid());
        assert!(started.is_running() && attached.is_running());
        assert!(attached.stop(Duration::from_secs(5)).await);
        assert!(!started.is_running());
        assert!(Process::attach(&dir.path().join("pid")).unwrap().is_none());
    }

    #[tokio::test]
    async fn reused_pid_is_not_attached() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path());
        fs::write(dir.path().join("pid"), format!("{} an-earlier-start\n", process.pid())).unwrap();
        assert!(Process::attach(&dir.path().join("pid")).unwrap().is_none());
        process.kill().await;
    }

    #[tokio::test]
    async fn suspended_process_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path());
        process.suspend().await;
        assert!(process.is_running() && identity::is_stopped(process.pid));
        process.resume();
        assert!(!identity::is_stopped(process.pid));
        process.suspend().await;
        assert!(process.stop(Duration::from_secs(5)).await);
    }

    #[test]
    fn invalid_pid_file_yields_no_process() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "-1 x", "0 x", "abc", "99999999999999 x"] {
            fs::write(dir.path().join("pid"), text).unwrap();
            assert!(Process::attach(&dir.path().join("pid")).unwrap().is_none(), "{text:?}");
        }
    }
}
