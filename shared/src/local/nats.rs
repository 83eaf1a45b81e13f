//! A private NATS server with JetStream.

use std::path::{Path, PathBuf};

use super::{LocalError, Process, Tool};

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

#[derive(Clone, Debug)]
pub struct NatsServer {
    process: Process,
    port: u16,
    monitor_port: u16,
    password: String,
    log: PathBuf,
}

impl NatsServer {
    /// Starts the server of `dir`, or takes over the one that runs there; JetStream is up when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &NatsOptions) -> Result<Self, LocalError> {
        let _ = (tool, dir, options);
        todo!()
    }

    /// The server that runs in `dir`, if one does.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let _ = dir;
        todo!()
    }

    /// `nats://rekindle:…@127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("nats://rekindle:{}@127.0.0.1:{}", self.password, self.port)
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
        todo!()
    }

    /// SIGKILL, and waits.
    pub async fn kill(&self) {
        self.process.kill().await;
    }
}
