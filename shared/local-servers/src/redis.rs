//! A private Redis that keeps nothing on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server_dir::{Readiness, ServerDir, write_private};
use super::{LocalError, Process, Tool};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// A fixed port; otherwise the one remembered in the directory, or a free one.
    pub port: Option<u16>,
    pub max_memory_mb: u32,
    /// Numbered databases, from 0.
    pub databases: u32,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self { port: None, max_memory_mb: 256, databases: 16 }
    }
}

impl RedisOptions {
    fn config(&self, port: u16, password: &str) -> String {
        let (memory, databases) = (self.max_memory_mb, self.databases);
        format!(
            "bind 127.0.0.1\nport {port}\nprotected-mode yes\nrequirepass {password}\ndaemonize no\nsave \"\"\n\
             appendonly no\ndatabases {databases}\nmaxmemory {memory}mb\nmaxmemory-policy volatile-lru\n"
        )
    }
}

/// A server that was running when it was started or attached to.
#[derive(Clone, Debug)]
pub struct RedisServer {
    process: Process,
    port: u16,
    password: String,
    dir: ServerDir,
    log: PathBuf,
}

impl RedisServer {
    /// Starts the server of `dir`, or takes over the one that runs there (with the options it was started with);
    /// it answers PING when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &RedisOptions) -> Result<Self, LocalError> {
        let dir = ServerDir::at(dir, "redis-server")?;
        let _lock = dir.lock().await?;
        if let Some(process) = dir.process()? {
            let server = Self::of(dir, process)?;
            server.wait_ready().await?;
            return Ok(server);
        }
        let (password, config) = (dir.ensure_password()?, dir.path.join("redis.conf"));
        for last in [false, false, true] {
            let port = dir.choose_port("port", options.port)?;
            write_private(&config, &options.config(port, &password))?;
            let mut command = Command::new(&tool.path);
            command.arg(&config).current_dir(&dir.path);
            let process = Process::spawn(command, &dir.pid_file(), &dir.log_file())?;
            let server = Self::of(dir.clone(), process)?;
            match server.wait_ready().await {
                Ok(()) => return Ok(server),
                // Somebody was faster at that port.
                Err(_) if !last && !server.is_running() && !super::port::is_free(port) => {}
                Err(error) => return Err(error),
            }
        }
        Err(dir.error("found no port that stays free"))
    }

    /// The server that runs in `dir`, if one does.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let dir = ServerDir::at(dir, "redis-server")?;
        dir.process()?.map(|process| Self::of(dir, process)).transpose()
    }

    fn of(dir: ServerDir, process: Process) -> Result<Self, LocalError> {
        let (port, password) = (dir.kept_port("port")?, dir.password()?);
        let (Some(port), Some(password)) = (port, password) else {
            return Err(dir.error("runs, but its port or password file is gone; stop it and start again"));
        };
        let log = dir.log_file();
        Ok(Self { process, port, password, dir, log })
    }

    async fn wait_ready(&self) -> Result<(), LocalError> {
        match self.dir.wait_ready(&self.process, START, || pongs(self.port, &self.password)).await {
            Readiness::Ready => Ok(()),
            Readiness::Ended => Err(self.dir.error("ended while it started")),
            Readiness::Late => Err(self.dir.error("runs, but does not answer")),
        }
    }

    /// `redis://:…@127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}", self.password, self.port)
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

    /// SIGTERM, and waits.
    pub async fn stop(&self) -> Result<(), LocalError> {
        if self.process.stop(STOP).await { Ok(()) } else { Err(self.dir.error("did not stop and was killed")) }
    }

    /// SIGKILL, and waits.
    pub async fn kill(&self) {
        self.process.kill().await;
    }
}

async fn pongs(port: u16, password: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let asked = stream.write_all(format!("AUTH {password}\r\nPING\r\n").as_bytes()).await.is_ok();
    let expected = b"+OK\r\n+PONG\r\n";
    let mut answer = [0; 12];
    asked && stream.read_exact(&mut answer).await.is_ok() && &answer == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_listens_on_loopback_and_saves_nothing() {
        let config = RedisOptions::default().config(6379, "pw");
        for line in ["bind 127.0.0.1", "port 6379", "save \"\"", "requirepass pw", "maxmemory 256mb"] {
            assert!(config.lines().any(|found| found == line), "{line}");
        }
    }
}
