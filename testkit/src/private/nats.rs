//! A private NATS.

use std::path::{Path, PathBuf};
use std::time::Duration;

use local_servers::{NatsOptions, NatsServer};

use super::PrivateDir;
use super::configured_nats::is_healthy;
use super::disk::Disk;
use crate::{must, servers};

/// Time limit of a response, for a busy server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A NATS server with JetStream, for one test.
#[derive(Debug)]
pub struct PrivateNats {
    server: NatsServer,
    options: NatsOptions,
    disk: Option<Disk>,
    dir: PrivateDir,
}

impl PrivateNats {
    /// Panics with the reason if it cannot be started.
    pub async fn start() -> Self {
        Self::start_with(NatsOptions::default()).await
    }

    pub async fn start_with(mut options: NatsOptions) -> Self {
        let dir = PrivateDir::create("nats");
        let server = launch(&dir, &options).await;
        // The address stays the same from now on.
        options.port = Some(server.port());
        Self { server, options, disk: None, dir }
    }

    /// Starts a server with its data on a separate disk of `bytes` bytes, which requires Linux and root.
    pub async fn start_on_disk(bytes: u64) -> Self {
        let mut started = Self::start().await;
        started.stop().await;
        started.disk = Some(Disk::create(&started.dir.path().join("data"), bytes));
        started.start_again().await;
        started
    }

    /// Fills the server's disk. Panics if it has no disk of its own.
    pub async fn fill_disk(&self) {
        self.disk.as_ref().expect("the server has no disk of its own").fill().await;
    }

    /// Frees the space that [`PrivateNats::fill_disk`] took.
    pub fn free_disk(&self) {
        self.disk.as_ref().expect("the server has no disk of its own").free();
    }

    /// Whether the server and its streams are healthy. A stream is unhealthy from a failed write until the server restarts.
    pub async fn is_healthy(&self) -> bool {
        is_healthy(&self.monitor_url()).await
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub async fn client(&self) -> async_nats::Client {
        must("connecting to a private NATS", crate::nats::connect(&self.url()).await)
    }

    pub fn monitor_url(&self) -> String {
        self.server.monitor_url()
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub async fn stop(&self) {
        must("stopping a private NATS", self.server.stop().await);
    }

    /// Sends SIGKILL and waits until the server has ended.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Restarts the server after [`PrivateNats::stop`] or [`PrivateNats::kill`], at the same address and with its data.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.dir, &self.options).await;
    }

    /// Like [`PrivateNats::start_again`], after the loss of its disk.
    pub async fn start_without_data(&mut self) {
        must("removing a private NATS's data", std::fs::remove_dir_all(self.dir.path().join("data")));
        self.start_again().await;
    }

    /// Copies the data of the stopped server.
    pub fn copy_data(&self) -> PathBuf {
        let copy = self.dir.path().join("copy");
        must("copying a private NATS's data", copy_all(&self.dir.path().join("data"), &copy));
        copy
    }

    /// Like [`PrivateNats::start_again`], with an earlier copy of its data.
    pub async fn start_with_data(&mut self, copy: &Path) {
        let data = self.dir.path().join("data");
        must("removing a private NATS's data", std::fs::remove_dir_all(&data));
        must("copying a private NATS's data", copy_all(copy, &data));
        self.start_again().await;
    }

    /// Sets the size limit of a stream in bytes, by default to its current size, and returns the previous limit. `None` if the server does
    /// not respond.
    pub async fn limit_stream(&self, name: &str, limit: Option<i64>) -> Option<i64> {
        let limited = async {
            let jetstream = async_nats::jetstream::new(crate::nats::connect(&self.url()).await.ok()?);
            let mut stream = jetstream.get_stream(name).await.ok()?;
            let info = stream.info().await.ok()?.clone();
            let before = info.config.max_bytes;
            let max_bytes = limit.unwrap_or_else(|| i64::try_from(info.state.bytes).unwrap_or(before).max(1));
            let config = async_nats::jetstream::stream::Config { max_bytes, ..info.config };
            jetstream.update_stream(config).await.ok()?;
            Some(before)
        };
        tokio::time::timeout(RESPONSE_TIMEOUT, limited).await.ok().flatten()
    }

    /// Sends SIGSTOP and waits until the server has stopped: connections stay open, and nothing is answered.
    pub async fn suspend(&self) {
        self.server.process().suspend().await;
    }

    pub fn resume(&self) {
        self.server.process().resume();
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, from) = entry.map(|entry| (to.join(entry.file_name()), entry.path()))?;
        if from.is_dir() {
            copy_all(&from, &entry)?;
        } else {
            std::fs::copy(&from, &entry)?;
        }
    }
    Ok(())
}

async fn launch(dir: &PrivateDir, options: &NatsOptions) -> NatsServer {
    let tool = &servers::tools().await.nats;
    must("a private NATS", NatsServer::start(tool, dir.path(), options).await)
}
