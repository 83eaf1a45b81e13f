//! A deployment without faults: schema, streams, and a worker that holds all partitions.

use std::path::Path;
use std::process::Command;

use bus::config::BusConfig;
use bus::{Bus, topology};
use cli::provision::Provision;
use database::config::DatabaseConfig;
use database::{Connection, Store, ingest_partitions};
use kernel::env::Env;
use testkit::{TestDatabase, TestNats};
use uuid::Uuid;

use crate::program::rekindle;

pub const MASTER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Longer than any test.
const LEASE_MS: i64 = 120_000;

pub struct Deployment {
    pub database_url: String,
    pub nats: TestNats,
    _database: Option<TestDatabase>,
}

impl Deployment {
    /// Creates a deployment in a new database on the shared server.
    pub async fn make() -> Self {
        let database = TestDatabase::create().await;
        Self::within(database.url().to_owned(), Some(database)).await
    }

    /// Creates a deployment in this database.
    pub async fn on(database_url: String) -> Self {
        Self::within(database_url, None).await
    }

    async fn within(database_url: String, database: Option<TestDatabase>) -> Self {
        let nats = TestNats::create().await;
        Provision::new(&database_url).unwrap().migrate().await.unwrap();
        let deployment = Self { database_url, nats, _database: database };
        let bus = deployment.bus().await;
        let ingest = topology::ensure(&bus).await.unwrap();
        let db = deployment.connection().await;
        ingest_partitions::ensure(&db, ingest.partitions, ingest.created_ms).await.unwrap();
        ingest_partitions::acquire(&db, Uuid::nil(), 256, LEASE_MS).await.unwrap();
        deployment
    }

    pub async fn bus(&self) -> Bus {
        let pairs = [("NATS_URL", self.nats.url()), ("STREAM_PREFIX", self.nats.prefix())];
        Bus::connect(&BusConfig::from_env(&Env::from_pairs(pairs)).unwrap(), "test").await.unwrap()
    }

    pub async fn connection(&self) -> Connection {
        let config = DatabaseConfig { url: self.database_url.clone(), pool_size: 1 };
        Store::new(&config, "test").unwrap().connection().await.unwrap()
    }

    /// Returns a `rekindle doctor` command with the environment of a program.
    pub fn doctor(&self) -> Command {
        let mut command = rekindle(Path::new("/nonexistent"), &["doctor"]);
        command
            .env("DATABASE_URL", &self.database_url)
            .env("NATS_URL", self.nats.url())
            .env("STREAM_PREFIX", self.nats.prefix())
            .env("MASTER_KEY", MASTER_KEY)
            .env("PUBLIC_BASE_URL", "https://shop.example.com")
            .env_remove("REDIS_URL")
            .env_remove("NATS_MONITOR_URL");
        command
    }
}
