//! Removes expired events, clicks, client IDs, in-app messages and capped sends. Messages and runs: see [`ledger`].

pub mod ledger;
mod partitioned;

use std::sync::Arc;
use std::time::{Duration, Instant};

use database::StoreError;
use jiff::SignedDuration;
use kernel::clock::from_ms;
use store_profiles::client_ids;
use store_projects::{channels, projects};
use store_sending::campaigns::clicks;
use store_sending::{capped_sends, inbox};

use crate::App;
use crate::tick::TickError;
use partitioned::Table;

const DAY_MS: i64 = 86_400_000;

/// Removes events past their retention, unless another scheduler is removing some.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    partitioned::clear(&app, Table::Events).await
}

/// Deletes client-chosen IDs older than every project's event retention.
pub async fn forget_client_ids(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let kept = projects::retentions(&db).await?;
    let Some(longest) = kept.iter().map(|(_, days)| i64::from(*days)).max() else { return Ok(()) };
    let before = app.now() - SignedDuration::from_hours(24 * longest);
    for stretch in client_ids::page_ranges(&db).await? {
        let since = Instant::now();
        client_ids::forget(&db, &stretch, before).await?;
        pause_for_load(since).await;
    }
    Ok(())
}

/// Removes in-app messages past their retention, read or not, slice by slice.
pub async fn clear_inboxes(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let before = app.now() - app.config.keep_inbox;
    for (project, _) in projects::retentions(&db).await? {
        loop {
            let since = Instant::now();
            if inbox::remove_slice(&db, project, before).await? < inbox::SLICE as u64 {
                break;
            }
            pause_for_load(since).await;
        }
    }
    Ok(())
}

/// Removes clicks on campaign links that are past their project's event retention, slice by slice.
pub async fn clear_clicks(app: Arc<App>) -> Result<(), TickError> {
    let (mut db, now_ms) = (app.store.connection().await?, app.now_ms());
    for (project, days) in projects::retentions(&db).await? {
        let before = from_ms(now_ms - i64::from(days) * DAY_MS);
        loop {
            let since = Instant::now();
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let removed = clicks::remove_slice(&tx, project, before).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if removed < clicks::SLICE as u64 {
                break;
            }
            pause_for_load(since).await;
        }
    }
    Ok(())
}

/// Removes sends that no frequency cap counts any more, slice by slice. A project without a cap keeps none.
pub async fn clear_capped_sends(app: Arc<App>) -> Result<(), TickError> {
    let (db, now) = (app.store.connection().await?, app.now());
    for (project, _) in projects::retentions(&db).await? {
        let before = channels::frequency_cap(&db, project).await?.map_or(now, |cap| cap.within.before(now));
        loop {
            let since = Instant::now();
            if capped_sends::remove_slice(&db, project, before).await? < capped_sends::SLICE {
                break;
            }
            pause_for_load(since).await;
        }
    }
    Ok(())
}

/// Pauses for as long as the last slice took, at most 5 seconds, to leave the database to other work.
async fn pause_for_load(since: Instant) {
    tokio::time::sleep(since.elapsed().min(Duration::from_secs(5))).await;
}
