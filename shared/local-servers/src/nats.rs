//! A private NATS server with JetStream.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Signal;
use super::server_dir::{ServerDir, write_private};
use super::{LocalError, RunningServer, Tool};

const USER: &str = "rekindle";
/// Recovering large streams can take this long.
const START_TIMEOUT: Duration = Duration::from_mins(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// A fixed port. `None`: the port stored in the directory, or a free one.
    pub port: Option<u16>,
    /// How often streams are synced to disk: a duration such as `1s`, or `always`.
    pub sync_interval: String,
    /// Bytes.
    pub max_payload: u64,
    /// Maximum size of all streams together, in bytes.
    pub max_file_store: u64,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self { port: None, sync_interval: "1s".into(), max_payload: 1 << 20, max_file_store: 10 << 30 }
    }
}

impl NatsOptions {
    fn config(&self, port: u16, monitor_port: u16, password: &str, store: &Path) -> String {
        let (sync, payload, file_store) = (quoted(&self.sync_interval), self.max_payload, self.max_file_store);
        let store = quoted(&store.to_string_lossy());
        format!(
            "server_name: rekindle\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor_port}\"\n\
             max_payload: {payload}\nauthorization {{ user: {USER}, password: \"{password}\" }}\n\
             jetstream {{ store_dir: {store}, max_memory_store: 268435456, max_file_store: {file_store}, \
             sync_interval: {sync} }}\n"
        )
    }
}

/// Quotes a string for the server's configuration file.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A server that was running when it was started or attached.
#[derive(Clone, Debug)]
pub struct NatsServer {
    running: RunningServer,
    monitor_port: u16,
}

impl Deref for NatsServer {
    type Target = RunningServer;

    fn deref(&self) -> &RunningServer {
        &self.running
    }
}

impl NatsServer {
    /// Starts the server of `dir`, or attaches to the one that runs there (with its original options). JetStream is
    /// ready when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &NatsOptions) -> Result<Self, LocalError> {
        let dir = ServerDir::at(dir, "nats-server")?;
        let _lock = dir.lock().await?;
        if let Some(running) = RunningServer::attach(&dir)? {
            let server = Self::of(&dir, running)?;
            server.wait_ready().await?;
            return Ok(server);
        }
        let (password, config) = (dir.ensure_password()?, dir.path.join("nats.conf"));
        for last in [false, false, true] {
            let port = dir.choose_port("port", options.port)?;
            let monitor_port = dir.choose_port("monitor-port", None)?;
            write_private(&config, &options.config(port, monitor_port, &password, &dir.path.join("data")))?;
            let mut command = Command::new(&tool.path);
            command.arg("-c").arg(&config).current_dir(&dir.path);
            let server = Self::of(&dir, RunningServer::spawn(&dir, command)?)?;
            let lost_monitor_port = || !server.is_running() && !super::port::is_free(monitor_port);
            match server.wait_ready().await {
                Ok(()) => return Ok(server),
                // Another process took one of the ports first.
                Err(_) if !last && (server.lost_port() || lost_monitor_port()) => {}
                Err(error) => return Err(error),
            }
        }
        Err(dir.error("found no port that stayed free"))
    }

    /// Returns the server that runs in `dir`, if there is one.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let dir = ServerDir::at(dir, "nats-server")?;
        RunningServer::attach(&dir)?.map(|running| Self::of(&dir, running)).transpose()
    }

    fn of(dir: &ServerDir, running: RunningServer) -> Result<Self, LocalError> {
        let monitor_port = dir.stored_port("monitor-port")?.ok_or_else(|| dir.incomplete())?;
        Ok(Self { running, monitor_port })
    }

    async fn wait_ready(&self) -> Result<(), LocalError> {
        let (port, monitor_port) = (self.port(), self.monitor_port);
        let ready = || async move { sends_greeting(port).await && jetstream_is_up(monitor_port).await };
        self.running.wait_ready(START_TIMEOUT, "runs, but JetStream did not come up", ready).await
    }

    /// Returns `nats://rekindle:…@127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("nats://{USER}:{}@127.0.0.1:{}", self.password(), self.port())
    }

    /// Returns `http://127.0.0.1:port`, which serves `/healthz`, `/varz` and `/jsz`.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor_port)
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

async fn sends_greeting(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).await.is_ok() && &greeting == b"INFO "
}

async fn jetstream_is_up(monitor_port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", monitor_port)).await else { return false };
    let request = "GET /healthz?js-enabled-only=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = [0; 12];
    let asked = stream.write_all(request.as_bytes()).await.is_ok();
    asked && stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_escapes_quotes_in_paths() {
        let config = NatsOptions::default().config(4222, 8222, "pw", Path::new("/a \"b\"\\c"));
        assert!(config.contains(r#"store_dir: "/a \"b\"\\c","#), "{config}");
        assert!(config.contains("sync_interval: \"1s\"") && config.contains("listen: \"127.0.0.1:4222\""), "{config}");
    }
}
