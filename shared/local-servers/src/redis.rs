//! A private Redis server without persistence.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Signal;
use super::server_dir::{ServerDir, write_private};
use super::{LocalError, RunningServer, Tool};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// A fixed port. `None`: the port stored in the directory, or a free one.
    pub port: Option<u16>,
    pub max_memory_mb: u32,
    /// Number of databases, numbered from 0.
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

/// A server that was running when it was started or attached.
#[derive(Clone, Debug)]
pub struct RedisServer(RunningServer);

impl Deref for RedisServer {
    type Target = RunningServer;

    fn deref(&self) -> &RunningServer {
        &self.0
    }
}

impl RedisServer {
    /// Starts the server of `dir`, or attaches to the one that runs there (with its original options). It answers PING
    /// when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &RedisOptions) -> Result<Self, LocalError> {
        let dir = ServerDir::at(dir, "redis-server")?;
        let _lock = dir.lock().await?;
        if let Some(server) = RunningServer::attach(&dir)?.map(Self) {
            server.wait_ready().await?;
            return Ok(server);
        }
        let (password, config) = (dir.ensure_password()?, dir.path.join("redis.conf"));
        for last in [false, false, true] {
            let port = dir.choose_port("port", options.port)?;
            write_private(&config, &options.config(port, &password))?;
            let mut command = Command::new(&tool.path);
            command.arg(&config).current_dir(&dir.path);
            let server = Self(RunningServer::spawn(&dir, command)?);
            match server.wait_ready().await {
                Ok(()) => return Ok(server),
                // Another process took the port first.
                Err(_) if !last && server.lost_port() => {}
                Err(error) => return Err(error),
            }
        }
        Err(dir.error("found no port that stayed free"))
    }

    /// Returns the server that runs in `dir`, if there is one.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        Ok(RunningServer::attach(&ServerDir::at(dir, "redis-server")?)?.map(Self))
    }

    async fn wait_ready(&self) -> Result<(), LocalError> {
        self.0
            .wait_ready(START_TIMEOUT, "runs, but does not answer", || answers_ping(self.port(), self.password()))
            .await
    }

    /// Returns `redis://:…@127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}", self.password(), self.port())
    }

    /// Sends SIGTERM and waits.
    pub async fn stop(&self) -> Result<(), LocalError> {
        self.stop_by(Signal::TERM, STOP_TIMEOUT, "did not stop and was killed").await
    }

    /// Sends SIGKILL and waits.
    pub async fn kill(&self) {
        self.process().kill().await;
    }
}

async fn answers_ping(port: u16, password: &str) -> bool {
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
    fn config_uses_loopback_without_persistence() {
        let config = RedisOptions::default().config(6379, "pw");
        for line in ["bind 127.0.0.1", "port 6379", "save \"\"", "requirepass pw", "maxmemory 256mb"] {
            assert!(config.lines().any(|found| found == line), "{line}");
        }
    }
}
