//! A private PostgreSQL.

use std::path::{Path, PathBuf};

use super::{LocalError, PgBin, Process};

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// A fixed port; otherwise the one remembered in the directory, or a free one.
    pub port: Option<u16>,
    pub max_connections: u32,
    pub shared_buffers_mb: u32,
    /// False only where losing the data at a power failure is of no account: in tests.
    pub fsync: bool,
    /// Further lines of `postgresql.conf`: name and value.
    pub settings: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { port: None, max_connections: 200, shared_buffers_mb: 256, fsync: true, settings: Vec::new() }
    }
}

impl PostgresOptions {
    /// Small, and without fsync.
    pub fn for_tests() -> Self {
        Self { max_connections: 300, shared_buffers_mb: 64, fsync: false, ..Self::default() }
    }
}

/// A running server (or one that ran: see [`PostgresServer::is_running`]).
#[derive(Clone, Debug)]
pub struct PostgresServer {
    process: Process,
    port: u16,
    password: String,
    log: PathBuf,
}

impl PostgresServer {
    /// Starts the server of `dir`, or takes over the one that runs there; ready for queries when this returns.
    pub async fn start(bin: &PgBin, dir: &Path, options: &PostgresOptions) -> Result<Self, LocalError> {
        let _ = (bin, dir, options);
        todo!()
    }

    /// The server that runs in `dir`, if one does.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        let _ = dir;
        todo!()
    }

    /// `postgres://rekindle:…@127.0.0.1:port/database`
    pub fn url(&self, database: &str) -> String {
        format!("postgres://rekindle:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// Creates a database unless it exists; true when it was created.
    pub async fn create_database(&self, name: &str) -> Result<bool, LocalError> {
        let _ = name;
        todo!()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn log_file(&self) -> &Path {
        &self.log
    }

    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Fast shutdown: ends the sessions, writes a checkpoint, waits.
    pub async fn stop(&self) -> Result<(), LocalError> {
        todo!()
    }

    /// Immediate shutdown: as if the machine had crashed, without leaving processes behind.
    pub async fn kill(&self) {
        todo!()
    }
}
