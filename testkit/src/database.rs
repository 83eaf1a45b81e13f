//! A database for one test, copied from a template that is migrated once.

use database::config::DatabaseConfig;
use database::{Store, migrate};
use kernel::clock::Clock;
use local_servers::PostgresServer;
use tokio_postgres::Client;

use crate::session::{connect, described};
use crate::{CitusDatabase, background, must, random_name, servers, test_dir};

/// A new, migrated database; dropped with this value. On Citus, if configured (docs/operate/citus.md).
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    /// Dropped with this value.
    _backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Local(#[expect(dead_code, reason = "it is dropped")] LocalDatabase),
    Citus(#[expect(dead_code, reason = "it is dropped")] CitusDatabase),
}

#[derive(Debug)]
struct LocalDatabase {
    server: &'static PostgresServer,
    name: String,
}

impl TestDatabase {
    /// Creates a database. Panics with the reason if PostgreSQL is unavailable.
    pub async fn create() -> Self {
        if CitusDatabase::is_configured() {
            let citus = CitusDatabase::create().await;
            return Self { url: citus.url(), _backing: Backing::Citus(citus) };
        }
        let server = servers::postgres().await;
        let template = must("migrating the template database", template(server).await);
        Self::create_as(server, &format!(" TEMPLATE {template}")).await
    }

    /// Creates an empty database.
    pub async fn create_empty() -> Self {
        Self::create_as(servers::postgres().await, "").await
    }

    async fn create_as(server: &'static PostgresServer, suffix: &str) -> Self {
        let name = format!("test_{}", random_name());
        let created = run(server, &format!("CREATE DATABASE {name}{suffix}")).await;
        must("creating a test's database", created);
        Self { url: server.url(&name), _backing: Backing::Local(LocalDatabase { server, name }) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the configuration for a program under test: 8 connections.
    pub fn config(&self) -> DatabaseConfig {
        DatabaseConfig { url: self.url.clone(), pool_size: 8 }
    }

    /// Creates a new connection pool.
    pub fn store(&self) -> Store {
        must("a pool of connections", Store::new(&self.config(), "test"))
    }

    /// Opens a plain connection.
    pub async fn client(&self) -> Client {
        must("connecting to a test's database", connect(&self.url).await)
    }
}

impl Drop for LocalDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server, std::mem::take(&mut self.name));
        background::finish(async move {
            if let Err(error) = run(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await {
                eprintln!("could not drop the test database {name}: {error:#}");
            }
        });
    }
}

/// Returns the name of the migrated template for this code and this day (partitions are created by the day). Creates it if missing.
async fn template(server: &PostgresServer) -> anyhow::Result<String> {
    let clock = Clock::system();
    let checksums: String = migrate::MIGRATIONS.iter().map(migrate::Migration::checksum).collect();
    let name = format!("template_{:08x}_{}", fnv(checksums.as_bytes()), clock.now_ms() / 86_400_000);
    let _lock = test_dir::lock("template").await;
    let client = connect(&server.url("postgres")).await?;
    if client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await?.is_some() {
        return Ok(name);
    }
    // Created under another name, so that an interrupted one is not taken for complete.
    let unfinished = format!("unfinished_{name}");
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {unfinished}")).await?;
    migrate::run(&DatabaseConfig { url: server.url(&unfinished), pool_size: 2 }, &clock).await?;
    // The migration's connections may take a moment to close, and a database in use can be neither renamed nor copied.
    let sessions = "SELECT count(*) AS total, count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                    WHERE datname = $1";
    while client.query_one(sessions, &[&unfinished]).await?.try_get::<_, i64>("total")? > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client.batch_execute(&format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await?;
    Ok(name)
}

async fn run(server: &PostgresServer, sql: &str) -> anyhow::Result<()> {
    connect(&server.url("postgres")).await?.batch_execute(sql).await.map_err(described)
}

/// FNV-1a: sufficient to distinguish the templates of a work tree.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
