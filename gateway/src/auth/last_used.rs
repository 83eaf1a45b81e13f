//! Writes the time of each key's last use to the database, in bulk.

use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use jiff::Timestamp;
use kernel::shutdown::Shutdown;
use store_projects::api_keys::{self, KeyUse};

use super::key_cache::KnownKey;
use super::state::Auth;

/// Interval between writes: a key's first use is visible after at most this time.
const EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two writes for one key, across all gateways.
const A_KEY_EVERY: Duration = Duration::from_mins(1);
/// Maximum keys in one statement.
const CHUNK: usize = 1_000;

/// Writes at intervals, and once more at shutdown.
pub async fn keep_writing(auth: Arc<Auth>, shutdown: Shutdown) {
    loop {
        let ends = tokio::select! {
            () = shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
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
    write_those_before(auth, auth.clock.now() - A_KEY_EVERY).await
}

/// Writes every unwritten use. Called at shutdown, when no later write follows.
async fn write_all(auth: &Auth) -> Result<(), StoreError> {
    write_those_before(auth, auth.clock.now()).await
}

/// Writes the uses of keys that were last written before a time.
async fn write_those_before(auth: &Auth, before: Timestamp) -> Result<(), StoreError> {
    let mut used: Vec<(Arc<KnownKey>, KeyUse)> = auth.keys.unwritten(before);
    // Sorted, so that concurrent gateways lock the rows in the same order and cannot deadlock.
    used.sort_unstable_by_key(|(_, key_use)| *key_use);
    for chunk in used.chunks(CHUNK) {
        let uses: Vec<KeyUse> = chunk.iter().map(|(_, key_use)| *key_use).collect();
        api_keys::set_last_used(&auth.store.connection().await?, &uses, before).await?;
        for (key, key_use) in chunk {
            key.written(key_use.at);
        }
    }
    Ok(())
}
