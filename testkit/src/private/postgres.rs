//! A private PostgreSQL.

use std::time::Duration;

use shared::local::{PostgresOptions, PostgresServer};

use super::PrivateDir;
use crate::certificate::Certificate;
use crate::session::{connect, described};
use crate::{eventually, must, random_name, servers};

/// For settings to be read again.
const SOON: Duration = Duration::from_secs(20);

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

    /// Speaks TLS under this certificate from now on, and goes on without for whoever asks for none.
    pub async fn speak_tls(&self, certificate: &Certificate) {
        let file = format!("server-{}.pem", random_name());
        let client = must("PostgreSQL", connect(&self.url()).await);
        // The server writes it itself, for it takes no key that others can read, and may be another user.
        let lines = certificate.chain().trim_end();
        let write =
            format!("COPY (SELECT unnest(string_to_array('{lines}', E'\n'))) TO PROGRAM 'umask 077; cat > {file}'");
        let set = |name: &str, value: &str| format!("ALTER SYSTEM SET {name} = '{value}'");
        let settings = [set("ssl_cert_file", &file), set("ssl_key_file", &file), set("ssl", "on")];
        let reload = "SELECT pg_reload_conf()".to_owned();
        for sql in std::iter::once(write).chain(settings).chain([reload]) {
            must("TLS for a private PostgreSQL", client.batch_execute(&sql).await.map_err(described));
        }
        let read = "SELECT current_setting('ssl') = 'on' AND current_setting('ssl_cert_file') = $1";
        eventually(SOON, async || {
            let client = connect(&self.url()).await.map_err(|e| e.to_string())?;
            let row = client.query_one(read, &[&file]).await.map_err(|e| e.to_string())?;
            if row.get(0) { Ok(()) } else { Err("the settings were not read".to_owned()) }
        })
        .await;
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
