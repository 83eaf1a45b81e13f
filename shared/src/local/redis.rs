//! A private Redis that keeps nothing on the disk.

use std::path::{Path, PathBuf};

use super::{LocalError, Process, Tool};

#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// A fixed port; otherwise the one remembered in the directory, or a free one.
    pub port: Option<u16>,
    pub max_memory_mb: u32,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self { port: None, max_memory_mb: 256 }
    }
}

#[derive(Clone, Debug)]
pub struct RedisServer {
    process: Process,
    port: u16,
    password: String,
    log: PathBuf,
}

impl RedisServer {
    /// Starts the server of `dir`, or takes over the one that runs there; it answers PING when this returns.
    pub async fn start(tool: &Tool, dir: &Path, options: &RedisOptions) -> Result<Self, LocalError> {
        let _ = (tool, dir, options);
        todo!()
    }

    /// The server that runs in `dir`, if one does.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let _ = dir;
        todo!()
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
        todo!()
    }

    /// SIGKILL, and waits.
    pub async fn kill(&self) {
        self.process.kill().await;
    }
}
