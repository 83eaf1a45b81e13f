//! A private PostgreSQL.

use shared::local::{PostgresOptions, PostgresServer};

use super::PrivateDir;
use crate::session::connect;
use crate::{must, servers};

/// A PostgreSQL for one test, with an empty database `test`.
#[derive(Debug)]
pub struct PrivatePostgres {
    server: PostgresServer,
    options: PostgresOptions,
    dir: PrivateDir,
}

impl PrivatePostgres {
    /// Panics with the reason when it cannot be had.
    pub async fn start() -> Self {
        Self::start_with(PostgresOptions { max_connections: 60, shared_buffers_mb: 16, ..PostgresOptions::for_tests() })
            .await
    }

    pub async fn start_with(mut options: PostgresOptions) -> Self {
        let dir = PrivateDir::create("postgres");
        let server = launch(&dir, &options).await;
        // The address stays the same from now on.
        options.port = Some(server.port());
        Self { server, options, dir }
    }

    /// Of the database `test`.
    pub fn url(&self) -> String {
        self.server.url("test")
    }

    /// Makes the database `test` anew, empty, whoever is connected to it.
    pub async fn empty(&self) {
        let client = must("connecting to a private PostgreSQL", connect(&self.server.url("postgres")).await);
        let dropped = client.batch_execute("DROP DATABASE test WITH (FORCE)").await;
        must("dropping a private PostgreSQL's database", dropped);
        must("a private PostgreSQL", self.server.create_database("test").await);
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Fast shutdown, and waits until it is gone.
    pub async fn stop(&self) {
        must("stopping a private PostgreSQL", self.server.stop().await);
    }

    /// Immediate shutdown, as in a crash, and waits until it is gone.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Starts it again after [`PrivatePostgres::stop`] or [`PrivatePostgres::kill`], at the same address and with its data.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.dir, &self.options).await;
    }
}

async fn launch(dir: &PrivateDir, options: &PostgresOptions) -> PostgresServer {
    let bin = &servers::tools().await.postgres;
    let server = must("a private PostgreSQL", PostgresServer::start(bin, dir.path(), options).await);
    must("a private PostgreSQL", server.create_database("test").await);
    server
}
