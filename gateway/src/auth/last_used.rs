//! When keys were last used, written to the database in bulk.

use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use jiff::Timestamp;
use kernel::shutdown::Shutdown;
use store_projects::api_keys::{self, KeyUse};

use super::key_cache::KnownKey;
use super::state::Auth;

/// How soon a first use is seen.
const EVERY: Duration = Duration::from_secs(5);
/// How often a key that is used all the time is written, by all gateways together.
const A_KEY_EVERY: Duration = Duration::from_mins(1);
/// Keys in one statement.
const CHUNK: usize = 1_000;

/// Writes now and again, and once more at the shutdown.
pub async fn keep_writing(auth: Arc<Auth>, shutdown: Shutdown) {
    loop {
        let ends = tokio::select! {
            () = shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        // What could not be written is tried again the next time.
        let written = if ends { write_all(&auth).await } else { write(&auth).await };
        if let Err(error) = written {
            tracing::debug!(%error, "when keys were last used could not be written");
        }
        if ends {
            return;
        }
    }
}

/// Writes the uses of keys of which none was written within the minute.
pub async fn write(auth: &Auth) -> Result<(), StoreError> {
    write_those_before(auth, auth.clock.now() - A_KEY_EVERY).await
}

/// Writes every use that is not written yet: nobody will do it later.
async fn write_all(auth: &Auth) -> Result<(), StoreError> {
    write_those_before(auth, auth.clock.now()).await
}

/// Writes the uses of keys that were last written before a time.
async fn write_those_before(auth: &Auth, before: Timestamp) -> Result<(), StoreError> {
    let mut used: Vec<(Arc<KnownKey>, KeyUse)> = auth.keys.unwritten(before);
    // In one order, so that two gateways do not wait for one another's rows.
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
