//! Keeps a program's clock synchronized with the database's. [`crate::startup`] reads it first.

use std::time::Duration;

use database::StoreError;
use kernel::shutdown::Shutdown;

/// How often the workers read the database's time.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the database's time periodically until the shutdown.
pub async fn follow_database<F: Future<Output = Result<(), StoreError>>>(shutdown: Shutdown, read: impl Fn() -> F) {
    while shutdown.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        if let Err(error) = read().await {
            tracing::debug!(%error, "cannot read the database's time");
        }
    }
}
