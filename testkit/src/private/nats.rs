//! A private NATS.

use shared::local::{NatsOptions, NatsServer};

use super::PrivateDir;
use crate::{must, servers};

/// A NATS server with JetStream, for one test.
#[derive(Debug)]
pub struct PrivateNats {
    server: NatsServer,
    options: NatsOptions,
    dir: PrivateDir,
}

impl PrivateNats {
    /// Panics with the reason when it cannot be had.
    pub async fn start() -> Self {
        Self::start_with(NatsOptions::default()).await
    }

    pub async fn start_with(mut options: NatsOptions) -> Self {
        let dir = PrivateDir::create("nats");
        let server = launch(&dir, &options).await;
        // The address stays the same from now on.
        options.port = Some(server.port());
        Self { server, options, dir }
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

    /// SIGTERM, and waits until it is gone.
    pub async fn stop(&self) {
        must("stopping a private NATS", self.server.stop().await);
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Starts it again after [`PrivateNats::stop`] or [`PrivateNats::kill`], at the same address and with its data.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.dir, &self.options).await;
    }

    /// SIGSTOP, and waits until it has stopped: connections stay open and nothing is answered.
    pub async fn suspend(&self) {
        self.server.process().suspend().await;
    }

    pub fn resume(&self) {
        self.server.process().resume();
    }
}

async fn launch(dir: &PrivateDir, options: &NatsOptions) -> NatsServer {
    let tool = &servers::tools().await.nats;
    must("a private NATS", NatsServer::start(tool, dir.path(), options).await)
}
