//! When keys were last used, written to the database in bulk.

use std::sync::Arc;
use std::time::Duration;

use shared::shutdown::Shutdown;
use shared::store::StoreError;
use shared::store::api_keys::{self, KeyUse};

use super::key_cache::KnownKey;
use crate::app::App;

const EVERY: Duration = Duration::from_secs(30);
/// Keys in one statement.
const CHUNK: usize = 1_000;

/// Writes now and again, and once more at the shutdown.
pub async fn keep_writing(app: Arc<App>, shutdown: Shutdown) {
    loop {
        let ends = tokio::select! {
            () = shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        // What could not be written is tried again the next time.
        if let Err(error) = write(&app).await {
            tracing::debug!(%error, "when keys were last used could not be written");
        }
        if ends {
            return;
        }
    }
}

/// Writes the uses that are not written yet.
pub async fn write(app: &App) -> Result<(), StoreError> {
    let mut used: Vec<(Arc<KnownKey>, KeyUse)> = app.keys.unwritten();
    // In one order, so that two gateways do not wait for one another's rows.
    used.sort_unstable_by_key(|(_, key_use)| *key_use);
    for chunk in used.chunks(CHUNK) {
        let uses: Vec<KeyUse> = chunk.iter().map(|(_, key_use)| *key_use).collect();
        api_keys::set_last_used(&app.store.connection().await?, &uses).await?;
        for (key, key_use) in chunk {
            key.written(key_use.at);
        }
    }
    Ok(())
}
