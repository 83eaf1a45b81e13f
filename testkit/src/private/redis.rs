//! A private Redis.

use local_servers::{RedisOptions, RedisServer, port};

use super::PrivateDir;
use crate::certificate::Certificate;
use crate::{must, servers};

/// A Redis for one test. Its data is removed with this value.
#[derive(Debug)]
pub struct PrivateRedis {
    server: RedisServer,
    options: RedisOptions,
    dir: PrivateDir,
}

impl PrivateRedis {
    /// Panics with the reason if it cannot be started.
    pub async fn start() -> Self {
        Self::start_with(RedisOptions::default()).await
    }

    pub async fn start_with(mut options: RedisOptions) -> Self {
        let dir = PrivateDir::create("redis");
        let server = launch(&dir, &options).await;
        // The address stays the same from now on.
        options.port = Some(server.port());
        Self { server, options, dir }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Enables TLS with this certificate, in addition, until the server is stopped. Returns the TLS URL.
    pub async fn enable_tls(&self, certificate: &Certificate) -> String {
        let (port, file) = (port::free(), certificate.server_file());
        let client = must("Redis", redis::Client::open(self.url()));
        let mut connection = must("Redis", client.get_multiplexed_async_connection().await);
        let settings = [("tls-auth-clients", "no"), ("tls-cert-file", &*file), ("tls-key-file", &*file)];
        for (name, value) in settings.into_iter().chain([("tls-port", &*port.to_string())]) {
            let set = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec_async(&mut connection).await;
            must("TLS for a private Redis", set);
        }
        self.url().replace("redis://", "rediss://").replace(&format!(":{}", self.port()), &format!(":{port}"))
    }

    /// Sends SIGTERM and waits until the server has ended.
    pub async fn stop(&self) {
        must("stopping a private Redis", self.server.stop().await);
    }

    /// Sends SIGKILL and waits until the server has ended.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Restarts the server after [`PrivateRedis::stop`] or [`PrivateRedis::kill`], at the same address and with its data.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.dir, &self.options).await;
    }

    /// Sends SIGSTOP and waits until the server has stopped: connections stay open, and nothing is answered.
    pub async fn suspend(&self) {
        self.server.process().suspend().await;
    }

    pub fn resume(&self) {
        self.server.process().resume();
    }
}

async fn launch(dir: &PrivateDir, options: &RedisOptions) -> RedisServer {
    let Some(tool) = &servers::tools().await.redis else {
        panic!("the tests need Redis 6 or newer: install redis-server")
    };
    must("a private Redis", RedisServer::start(tool, dir.path(), options).await)
}
