//! One of the four programs as a child process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use local_servers::port;
use tokio::process::{Child, Command};

use super::metrics;

/// Maximum time from start to a ready `/readyz`.
const READY: Duration = Duration::from_mins(1);
/// Maximum time from SIGTERM to exit.
const STOP: Duration = Duration::from_secs(40);

/// A running program, killed on drop.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    child: Child,
    pub admin: SocketAddr,
    log: PathBuf,
}

impl Program {
    /// Starts the program and waits until it is ready.
    pub async fn start(
        name: &'static str,
        executable: &Path,
        dir: &Path,
        env: &BTreeMap<&'static str, String>,
    ) -> Result<Self> {
        let admin = SocketAddr::from(([127, 0, 0, 1], port::free()));
        let log = dir.join(format!("{name}.log"));
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let errors = out.try_clone()?;
        let mut command = Command::new(executable);
        command.envs(env).env("ADMIN_ADDR", admin.to_string()).stdin(Stdio::null()).stdout(out).stderr(errors);
        let child = command.kill_on_drop(true).spawn().with_context(|| format!("starting {}", executable.display()))?;
        let mut program = Self { name, child, admin, log };
        program.ready().await?;
        Ok(program)
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    async fn ready(&mut self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + READY;
        loop {
            if metrics::get(self.admin, "/readyz").await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} exited during startup ({status}):\n{}", self.name, self.log_tail());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{} is not ready:\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a signal, named without `SIG`.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        if let Some(pid) = self.pid() {
            Command::new("kill").args(["-s", signal, &pid.to_string()]).status().await?;
        }
        Ok(())
    }

    /// Sends SIGTERM and waits. Kills the program if it does not exit in time.
    pub async fn stop(mut self) -> Result<()> {
        self.signal("TERM").await?;
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
