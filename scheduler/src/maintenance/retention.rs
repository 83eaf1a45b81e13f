//! Events that are older than their projects keep them, the clicks of that age, the ids that clients chose, and old in-app
//! messages. Messages and runs: see [`ledger`].

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

/// Forgets the ids that clients chose when no project keeps events of their age any more.
pub async fn forget_client_ids(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let kept = projects::retentions(&db).await?;
    let Some(longest) = kept.iter().map(|(_, days)| i64::from(*days)).max() else { return Ok(()) };
    let before = app.now() - SignedDuration::from_hours(24 * longest);
    for stretch in client_ids::stretches(&db).await? {
        let since = Instant::now();
        client_ids::forget(&db, &stretch, before).await?;
        breathe(since).await;
    }
    Ok(())
}

/// Removes in-app messages that arrived long ago, slice by slice, whether they were read or not.
pub async fn clear_inboxes(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let before = app.now() - app.config.keep_inbox;
    for (project, _) in projects::retentions(&db).await? {
        loop {
            let since = Instant::now();
            if inbox::remove_slice(&db, project, before).await? < inbox::SLICE as u64 {
                break;
            }
            breathe(since).await;
        }
    }
    Ok(())
}

/// Removes the clicks on links of campaigns' messages that are as old as the events that a project keeps no longer, slice by slice.
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
            breathe(since).await;
        }
    }
    Ok(())
}

/// Removes sends that no frequency cap counts any more, slice by slice. A project that has removed its cap keeps none.
pub async fn clear_capped_sends(app: Arc<App>) -> Result<(), TickError> {
    let (db, now) = (app.store.connection().await?, app.now());
    for (project, _) in projects::retentions(&db).await? {
        let before = channels::frequency_cap(&db, project).await?.map_or(now, |cap| cap.within.before(now));
        loop {
            let since = Instant::now();
            if capped_sends::remove_slice(&db, project, before).await? < capped_sends::SLICE {
                break;
            }
            breathe(since).await;
        }
    }
    Ok(())
}

/// Leaves the database to others for as long as it was busy with this.
async fn breathe(since: Instant) {
    tokio::time::sleep(since.elapsed().min(Duration::from_secs(5))).await;
}
