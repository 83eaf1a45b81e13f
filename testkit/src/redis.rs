//! Redis for one test: a numbered database of the shared server.

use crate::servers::{self, REDIS_DATABASES};
use crate::{must, random_name};

/// An empty database (reused by the 1,023rd test after this one), and a prefix for keys and channels.
#[derive(Debug)]
pub struct TestRedis {
    url: String,
    prefix: String,
}

impl TestRedis {
    /// Panics with the reason if Redis is unavailable.
    pub async fn create() -> Self {
        let server = servers::redis().await;
        let number = must("taking a database of the test Redis", next_database(&server.url()).await);
        let url = format!("{}/{number}", server.url());
        must("emptying a database of the test Redis", flush(&url).await);
        Self { url, prefix: format!("t{}:", random_name()) }
    }

    /// Returns the value for `REDIS_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the prefix, which ends with a colon.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// Returns the next database, round-robin over all test processes; database 0 holds the counter.
async fn next_database(url: &str) -> redis::RedisResult<u32> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let count: u32 = redis::cmd("INCR").arg("testkit:count").query_async(&mut connection).await?;
    Ok(count % (REDIS_DATABASES - 1) + 1)
}

async fn flush(url: &str) -> redis::RedisResult<()> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    redis::cmd("FLUSHDB").query_async(&mut connection).await
}
