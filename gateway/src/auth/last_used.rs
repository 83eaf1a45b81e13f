//! Writes the time of each key's last use to the database, in bulk.

use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use jiff::Timestamp;
use kernel::shutdown::Shutdown;
use store_projects::api_keys::{self, KeyUse};

use super::key_cache::CachedKey;
use super::state::Auth;

/// Interval between writes: a key's first use is visible after at most this time.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two writes for one key, across all gateways.
const MIN_INTERVAL_PER_KEY: Duration = Duration::from_mins(1);
/// Maximum keys in one statement.
const MAX_KEYS: usize = 1_000;

/// Writes at intervals, and once more at shutdown.
pub async fn run_writer(auth: Arc<Auth>, shutdown: Shutdown) {
    loop {
        let ends = tokio::select! {
            () = shutdown.cancelled() => true,
            () = tokio::time::sleep(WRITE_INTERVAL) => false,
        };
        // A failed write is retried at the next interval.
        let written = if ends { write_all(&auth).await } else { write(&auth).await };
        if let Err(error) = written {
            tracing::debug!(%error, "cannot write the last use of keys; retrying");
        }
        if ends {
            return;
        }
    }
}

/// Writes the uses of keys that were not written within the last minute.
pub async fn write(auth: &Auth) -> Result<(), StoreError> {
    write_last_written_before(auth, auth.clock.now() - MIN_INTERVAL_PER_KEY).await
}

/// Writes every unwritten use. Called at shutdown, when no later write follows.
async fn write_all(auth: &Auth) -> Result<(), StoreError> {
    write_last_written_before(auth, auth.clock.now()).await
}

/// Writes the uses of keys that were last written before a time.
async fn write_last_written_before(auth: &Auth, before: Timestamp) -> Result<(), StoreError> {
    let mut used: Vec<(Arc<CachedKey>, KeyUse)> = auth.keys.unwritten(before);
    // Sorted, so that concurrent gateways lock the rows in the same order and cannot deadlock.
    used.sort_unstable_by_key(|(_, key_use)| *key_use);
    for chunk in used.chunks(MAX_KEYS) {
        let uses: Vec<KeyUse> = chunk.iter().map(|(_, key_use)| *key_use).collect();
        api_keys::set_last_used(&auth.store.connection().await?, &uses, before).await?;
        for (key, key_use) in chunk {
            key.mark_written(key_use.at);
        }
    }
    Ok(())
}
