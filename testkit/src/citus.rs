//! A database on an existing Citus cluster: see docs/operate/citus.md.

use std::fmt::Write;

use database::config::DatabaseConfig;
use database::{Store, citus, migrate};
use kernel::clock::Clock;

use crate::session::{connect, described};
use crate::{background, must, random_name};

/// URLs of the servers without a database, separated by spaces: the coordinator first, then the workers.
const SERVERS: &str = "CITUS_URLS";
/// Few, so that a test's database is created quickly.
const SHARDS: i32 = 4;

/// A new database on all of the cluster's servers, migrated and distributed; dropped with this value.
#[derive(Debug)]
pub struct CitusDatabase {
    servers: Vec<String>,
    name: String,
}

impl CitusDatabase {
    /// Whether a Citus cluster is configured.
    pub fn is_configured() -> bool {
        std::env::var(SERVERS).is_ok()
    }

    /// Creates a database. Panics with the reason on failure.
    pub async fn create() -> Self {
        let given = std::env::var(SERVERS).unwrap_or_default();
        let servers: Vec<String> = given.split_whitespace().map(|url| url.trim_end_matches('/').to_owned()).collect();
        assert!(servers.len() > 1, "{SERVERS} must list a Citus coordinator and its workers");
        let database = Self { servers, name: format!("test_{}", random_name()) };
        must("a database on Citus", database.make().await);
        database
    }

    /// Returns the URL of the database on the coordinator.
    pub fn url(&self) -> String {
        format!("{}/{}", self.servers[0], self.name)
    }

    async fn make(&self) -> anyhow::Result<()> {
        let Self { servers, name } = self;
        let extensions = "CREATE EXTENSION citus; CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gin";
        for server in servers {
            run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name}")).await?;
            run(&format!("{server}/{name}"), extensions).await?;
        }
        let place = |url: &str| -> anyhow::Result<String> {
            let config: tokio_postgres::Config = url.parse()?;
            let (Some(tokio_postgres::config::Host::Tcp(host)), Some(port)) =
                (config.get_hosts().first(), config.get_ports().first())
            else {
                anyhow::bail!("{url} has no host or port")
            };
            Ok(format!("'{host}', {port}"))
        };
        let mut sql = format!("SELECT citus_set_coordinator_host({});", place(&servers[0])?);
        for server in &servers[1..] {
            let _ = write!(sql, "SELECT citus_add_node({});", place(server)?);
        }
        run(&self.url(), &sql).await?;
        let config = DatabaseConfig { url: self.url(), pool_size: 2 };
        migrate::run(&config, &Clock::system()).await?;
        let store = Store::with_timeout(&config, "migrate", std::time::Duration::from_mins(10))?;
        citus::distribute(&mut store.connection().await?, Some(SHARDS), |_| ()).await?;
        Ok(())
    }
}

impl Drop for CitusDatabase {
    fn drop(&mut self) {
        let (servers, name) = (std::mem::take(&mut self.servers), std::mem::take(&mut self.name));
        background::finish(async move {
            for server in servers {
                let dropped =
                    run(&format!("{server}/postgres"), &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                if let Err(error) = dropped {
                    eprintln!("could not drop the test database {name} of {server}: {error:#}");
                }
            }
        });
    }
}

async fn run(url: &str, sql: &str) -> anyhow::Result<()> {
    connect(url).await?.batch_execute(sql).await.map_err(described)
}
