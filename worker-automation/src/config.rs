//! The worker's configuration.

use std::time::Duration;

use http_client::HttpClient;
use kernel::env::{Env, EnvError};
use secrets::MasterKeys;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const ADMIN_PORT: u16 = 9102;
/// Delay before a database operation is retried.
pub const RETRY_DELAY: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub struct Config {
    /// Number of concurrent transactions; each lane serves its share of this worker's partitions.
    pub lanes: usize,
    /// Maximum number of items in one transaction.
    pub batch_items: usize,
    /// How long a lane waits for more items after the first of a transaction has arrived.
    pub linger: Duration,
    /// The same after a large transaction.
    pub linger_busy: Duration,
    /// Maximum number of users cached as existing, at about 60 bytes each.
    pub max_cached_users: usize,
    /// Lease of a partition without renewal.
    pub lease: Duration,
    /// Decrypts the secrets that sign webhook calls.
    pub keys: MasterKeys,
    pub http: HttpClient,
}

impl Config {
    /// `AUTOMATION_LANES` (1), `AUTOMATION_BATCH_ITEMS` (5000), `AUTOMATION_LINGER_MS` (20; three times that under
    /// load), `AUTOMATION_PEOPLE` (500000), `PARTITION_LEASE_MS` (8000), `MASTER_KEY`, `OUTBOUND_ALLOW`.
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let linger =
            Duration::from_millis(env.bounded("AUTOMATION_LINGER_MS", 20, 0..=1_000, "0 to 1000 milliseconds")?);
        Ok(Self {
            lanes: env.bounded("AUTOMATION_LANES", 1, 1..=64, "1 to 64")?,
            batch_items: env.bounded("AUTOMATION_BATCH_ITEMS", 5_000, 1..=50_000, "1 to 50000")?,
            linger,
            linger_busy: linger * 3,
            max_cached_users: env.bounded("AUTOMATION_PEOPLE", 500_000, 1_000..=100_000_000, "1000 to 100000000")?,
            lease: Duration::from_millis(env.bounded(
                "PARTITION_LEASE_MS",
                8_000,
                500..=120_000,
                "500 to 120000 milliseconds",
            )?),
            keys: MasterKeys::from_env(env)?,
            http: HttpClient::from_env(env)?,
        })
    }
}
