//! Polls for changes to keys and projects every half second, or sooner after a notification.

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use database::StoreError;
use database::changes::{self, Topic};
use futures_util::StreamExt;
use kernel::shutdown::Shutdown;
use store_projects::{api_keys, projects};

use super::state::Auth;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
const COALESCE_DELAY: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_secs(5);
const TOPICS: [Topic; 2] = [Topic::ApiKey, Topic::Project];

/// The changes processed so far.
#[derive(Clone, Copy)]
pub struct Position {
    keys: i64,
    projects: i64,
}

/// Returns the position to poll from, or `None` if the database is unavailable. Call it before any key is looked up.
pub async fn initial_position(auth: &Auth) -> Option<Position> {
    poll_changes(auth, None).await.ok()
}

/// Keeps the caches of keys and identity secrets up to date until shutdown.
pub async fn watch(auth: Arc<Auth>, bus: Bus, mut position: Option<Position>, shutdown: Shutdown) {
    let mut lost = false;
    let mut hints = bus.client.subscribe(bus.names.changed(Topic::ApiKey.as_str())).await.ok();
    loop {
        let polled = tokio::time::timeout(TIMEOUT, poll_changes(&auth, position)).await;
        match polled.unwrap_or_else(|_| Err(StoreError::Unavailable("the poll timed out".to_owned()))) {
            Ok(reached) => {
                position = Some(reached);
                if std::mem::take(&mut lost) {
                    tracing::info!("polling for key changes works again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut lost, true) {
                    tracing::warn!(%error, "cannot poll for key changes; cached keys stay valid for up to an hour");
                }
            }
        }
        let hinted = async {
            match &mut hints {
                Some(hints) => hints.next().await.is_some(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            alive = hinted => {
                if !alive {
                    hints = None;
                }
                // Coalesces notifications that arrive together.
                tokio::time::sleep(COALESCE_DELAY).await;
            }
        }
    }
}

async fn poll_changes(auth: &Auth, position: Option<Position>) -> Result<Position, StoreError> {
    let db = auth.store.connection().await?;
    let current = changes::current(&db, &TOPICS).await?;
    let [keys, projects] = current[..] else {
        return Err(StoreError::Corrupt("topics are missing".to_owned()));
    };
    let reached = Position { keys, projects };
    let known = position.filter(|p| p.keys <= keys && p.projects <= projects);
    let Some(position) = known else {
        // Entries that were loaded before the first poll, or before a backup was restored, may be outdated.
        auth.keys.invalidate_all();
        auth.identity_secrets.clear();
        auth.keys.confirm();
        return Ok(reached);
    };
    if keys != position.keys {
        auth.keys.invalidate(&api_keys::changed_after(&db, position.keys).await?);
    }
    if projects != position.projects {
        let rules = projects::rules_changed_after(&db, position.projects).await?;
        auth.identity_secrets.remove(rules.iter().map(|rules| rules.id));
        auth.keys.apply_project_settings(&rules);
    }
    auth.keys.confirm();
    Ok(reached)
}
