//! Removal of messages, ended runs, dead letters and counts that are past their retention.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use database::months;
use database::time_partitions::expired;
use database::{Connection, StoreError};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use store_profiles::events::counters;
use store_projects::projects;
use store_sending::messages::{counts, retention};
use store_sending::{dead_letters, runs};
use uuid::Uuid;

use super::{DAY_MS, breathe, take_out};
use crate::App;
use crate::tick::TickError;

const MESSAGES: &str = "message";
/// Days for which messages and runs are kept whatever the project says. Nothing waits for longer to be applied, and what
/// comes twice within that time is recognized by its row: without the row it would be sent again.
const KEPT_AT_LEAST: i64 = 31;
/// Days for which messages are counted by quarters of an hour, more than any report looks back.
const QUARTERS_KEPT: i64 = 100;
/// Quarters younger than this may still be counted.
const COUNTED: SignedDuration = SignedDuration::from_hours(1);
/// How far back counts are folded. Earlier passes folded the older ones; if no scheduler ran for longer, they stay unfolded
/// until they are removed.
const FOLDED: SignedDuration = SignedDuration::from_hours(8 * 24);

fn kept_ms(days: u32) -> i64 {
    i64::from(days).max(KEPT_AT_LEAST) * DAY_MS
}

/// Removes messages past their retention, unless another scheduler is removing some.
pub async fn clear_messages(app: Arc<App>) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    if !retention::begin(&db).await? {
        return Ok(());
    }
    let done = clear(&app, &mut db).await;
    retention::end(&db).await?;
    done
}

async fn clear(app: &App, db: &mut Connection) -> Result<(), TickError> {
    let now_ms = app.now_ms();
    let kept = projects::retentions(db).await?;
    let Some(longest) = kept.iter().map(|(_, days)| kept_ms(*days)).max() else { return Ok(()) };
    let known: HashSet<ProjectId> = kept.iter().map(|(project, _)| *project).collect();
    // One project's failure holds up no other; the first is returned.
    let mut done = remove_partitions(db, now_ms - longest, &known).await;
    for (project, days) in kept {
        let cleared = clear_project(db, project, from_ms(now_ms - kept_ms(days))).await;
        if let Err(error) = &cleared {
            tracing::warn!(%project, %error, "messages past their retention could not be removed; trying again later");
        }
        done = done.and(cleared);
    }
    done
}

/// Drops the partitions that end by then, except those with messages that can still be sent or of a sending that has not
/// ended: their other messages are removed in slices.
async fn remove_partitions(db: &mut Connection, until_ms: i64, known: &HashSet<ProjectId>) -> Result<(), TickError> {
    for partition in expired::expired(db, MESSAGES, until_ms).await? {
        if !partition.is_pending() {
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let is_over = retention::is_over(&tx, &partition).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if !is_over {
                continue;
            }
        }
        if !take_out(db, &partition).await? {
            break;
        }
    }
    for name in expired::taken_out(db, MESSAGES).await? {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        retention::take_counts(&tx, &name, known).await?;
        expired::remove(&tx, &name).await?;
        tx.commit().await.map_err(StoreError::from)?;
        tracing::info!(name, "removed a partition past every retention");
    }
    Ok(())
}

async fn clear_project(db: &mut Connection, project: ProjectId, before: Timestamp) -> Result<(), TickError> {
    for month in months::of_table_before(db, MESSAGES, before).await? {
        loop {
            let since = Instant::now();
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let removed = retention::remove_slice(&tx, project, month, before).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if removed < retention::SLICE {
                break;
            }
            breathe(since).await;
        }
    }
    Ok(())
}

/// Removes runs that ended longer ago than their projects keep them, slice by slice.
pub async fn clear_runs(app: Arc<App>) -> Result<(), TickError> {
    let (mut db, now_ms) = (app.store.connection().await?, app.now_ms());
    for (project, days) in projects::retentions(&db).await? {
        let (before, mut after) = (from_ms(now_ms - kept_ms(days)), Uuid::nil());
        loop {
            let since = Instant::now();
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let last = runs::retention::remove_slice(&tx, project, after, before).await?;
            tx.commit().await.map_err(StoreError::from)?;
            match last {
                None => break,
                Some(last) => after = last,
            }
            breathe(since).await;
        }
    }
    Ok(())
}

/// Removes items that could not be recorded and were not published again in time.
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
        counts::fold(&db, project, now - FOLDED, now - COUNTED).await?;
        counts::forget(&db, project, from_ms(now.as_millisecond() - QUARTERS_KEPT * DAY_MS)).await?;
        let oldest = from_ms(now.as_millisecond() - kept_ms(days) - DAY_MS);
        counters::forget_empty(&db, project, oldest.to_zoned(TimeZone::UTC).date()).await?;
    }
    Ok(())
}
