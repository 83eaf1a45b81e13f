//! Removes messages, ended runs, dead letters and counts past their retention.

use std::sync::Arc;
use std::time::Instant;

use database::StoreError;
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use kernel::clock::from_ms;
use store_profiles::events::counters;
use store_projects::projects;
use store_sending::messages::counts;
use store_sending::{dead_letters, runs};
use uuid::Uuid;

use super::partitioned::{self, Table};
use super::{DAY_MS, pause_for_load};
use crate::App;
use crate::tick::TickError;

/// Days for which quarter-hourly message counts are kept: more than any report covers.
const QUARTER_RETENTION_DAYS: i64 = 100;
/// Age below which a quarter may still be counted.
const STILL_COUNTED: SignedDuration = SignedDuration::from_hours(1);
/// How far back counts are folded. Earlier passes folded the older ones; if no scheduler ran for longer, they stay
/// unfolded until they are removed.
const FOLD_WINDOW: SignedDuration = SignedDuration::from_hours(8 * 24);

/// Removes messages past their retention, unless another scheduler is removing some.
pub async fn clear_messages(app: Arc<App>) -> Result<(), TickError> {
    partitioned::clear(&app, Table::Messages).await
}

/// Removes ended runs past their project's retention, slice by slice.
pub async fn clear_runs(app: Arc<App>) -> Result<(), TickError> {
    let (mut db, now_ms) = (app.store.connection().await?, app.now_ms());
    for (project, days) in projects::retentions(&db).await? {
        let (before, mut after) = (from_ms(now_ms - Table::Messages.retention_ms(days)), Uuid::nil());
        loop {
            let since = Instant::now();
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let last = runs::retention::remove_slice(&tx, project, after, before).await?;
            tx.commit().await.map_err(StoreError::from)?;
            match last {
                None => break,
                Some(last) => after = last,
            }
            pause_for_load(since).await;
        }
    }
    Ok(())
}

/// Removes dead letters past their retention.
pub async fn forget_dead_letters(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let before = app.now() - app.config.keep_dead_letters;
    for (project, _) in projects::retentions(&db).await? {
        dead_letters::forget(&db, project, before).await?;
    }
    Ok(())
}

/// Folds the message counts of past quarters, and removes those that no report reads.
pub async fn fold_counts(app: Arc<App>) -> Result<(), TickError> {
    let (db, now) = (app.store.connection().await?, app.now());
    for (project, days) in projects::retentions(&db).await? {
        counts::fold(&db, project, now - FOLD_WINDOW, now - STILL_COUNTED).await?;
        counts::forget(&db, project, from_ms(now.as_millisecond() - QUARTER_RETENTION_DAYS * DAY_MS)).await?;
        let oldest = from_ms(now.as_millisecond() - Table::Messages.retention_ms(days) - DAY_MS);
        counters::forget_empty(&db, project, oldest.to_zoned(TimeZone::UTC).date()).await?;
    }
    Ok(())
}
