//! A private NATS server with JetStream.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server_dir::{Readiness, ServerDir, write_private};
use super::{LocalError, Process, Tool};

const USER: &str = "rekindle";
/// Reading back large streams can take this long.
const START: Duration = Duration::from_mins(2);
const STOP: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// A fixed port; otherwise the one remembered in the directory, or a free one.
    pub port: Option<u16>,
    /// How often streams are synced to the disk: a duration such as `1s`, or `always`.
    pub sync_interval: String,
    /// Bytes.
    pub max_payload: u64,
    /// Bytes that all streams together may take on the disk.
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

/// A string as the server's configuration language has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A server that was running when it was started or attached to.
#[derive(Clone, Debug)]
pub struct NatsServer {
    process: Process,
    port: u16,
    monitor_port: u16,
    password: String,
    dir: ServerDir,
    log: PathBuf,
}

impl NatsServer {
    /// Starts the server of `dir`, or takes over the one that runs there (with the options it was started with);
    /// JetStream is up when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &NatsOptions) -> Result<Self, LocalError> {
        let dir = ServerDir::at(dir, "nats-server")?;
        let _lock = dir.lock().await?;
        if let Some(process) = dir.process()? {
            let server = Self::of(dir, process)?;
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
            let process = Process::spawn(command, &dir.pid_file(), &dir.log_file())?;
            let server = Self::of(dir.clone(), process)?;
            let taken = || !super::port::is_free(port) || !super::port::is_free(monitor_port);
            match server.wait_ready().await {
                Ok(()) => return Ok(server),
                // Somebody was faster at one of the ports.
                Err(_) if !last && !server.is_running() && taken() => {}
                Err(error) => return Err(error),
            }
        }
        Err(dir.error("found no port that stays free"))
    }

    /// The server that runs in `dir`, if one does.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let dir = ServerDir::at(dir, "nats-server")?;
        dir.process()?.map(|process| Self::of(dir, process)).transpose()
    }

    fn of(dir: ServerDir, process: Process) -> Result<Self, LocalError> {
        let kept = (dir.kept_port("port")?, dir.kept_port("monitor-port")?, dir.password()?);
        let (Some(port), Some(monitor_port), Some(password)) = kept else {
            return Err(dir.error("runs, but a port or password file is gone; stop it and start again"));
        };
        let log = dir.log_file();
        Ok(Self { process, port, monitor_port, password, dir, log })
    }

    async fn wait_ready(&self) -> Result<(), LocalError> {
        let (port, monitor_port) = (self.port, self.monitor_port);
        let ready = || async move { greets(port).await && jetstream_is_up(monitor_port).await };
        match self.dir.wait_ready(&self.process, START, ready).await {
            Readiness::Ready => Ok(()),
            Readiness::Ended => Err(self.dir.error("ended while it started")),
            Readiness::Late => Err(self.dir.error("runs, but JetStream did not come up")),
        }
    }

    /// `nats://rekindle:…@127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("nats://{USER}:{}@127.0.0.1:{}", self.password, self.port)
    }

    /// `http://127.0.0.1:port`: `/healthz`, `/varz`, `/jsz`.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor_port)
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

async fn greets(port: u16) -> bool {
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
    fn the_configuration_holds_paths_with_quotes() {
        let config = NatsOptions::default().config(4222, 8222, "pw", Path::new("/a \"b\"\\c"));
        assert!(config.contains(r#"store_dir: "/a \"b\"\\c","#), "{config}");
        assert!(config.contains("sync_interval: \"1s\"") && config.contains("listen: \"127.0.0.1:4222\""), "{config}");
    }
}
