//! Events that are older than their projects keep them, the clicks of that age, the ids that clients chose, and old in-app
//! messages. Messages and runs: see [`ledger`].

pub mod ledger;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use database::months;
use database::time_partitions::expired::{self, Expired};
use database::{Connection, StoreError};
use jiff::{SignedDuration, Timestamp};
use kernel::clock::from_ms;
use kernel::ids::{CLIENT_ID_PAST_MS, ProjectId};
use store_profiles::client_ids;
use store_profiles::events::retention;
use store_projects::{channels, projects};
use store_sending::campaigns::clicks;
use store_sending::{capped_sends, inbox};

use crate::App;
use crate::tick::TickError;

const EVENTS: &str = "events";
const DAY_MS: i64 = 86_400_000;
/// For how long partitions are there for what may still come: an event's id lies so far back when it is accepted, and
/// nothing waits for longer than 31 days to be applied.
const LATE_MS: i64 = CLIENT_ID_PAST_MS + 31 * DAY_MS;

/// Removes what is past its retention, unless another scheduler is at it.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    if !retention::begin(&db).await? {
        return Ok(());
    }
    let done = clear_events(&app, &mut db).await;
    retention::end(&db).await?;
    done
}

async fn clear_events(app: &App, db: &mut Connection) -> Result<(), TickError> {
    let now_ms = app.now_ms();
    let kept = projects::retentions(db).await?;
    let Some(longest) = kept.iter().map(|(_, days)| i64::from(*days)).max() else { return Ok(()) };
    let known: HashSet<ProjectId> = kept.iter().map(|(project, _)| *project).collect();
    // What fails for one holds up no other; of all that failed, the first is told.
    let mut done = remove_partitions(db, now_ms - (longest * DAY_MS).max(LATE_MS), &known).await;
    for (project, days) in kept {
        let before = from_ms(now_ms - i64::from(days) * DAY_MS);
        let cleared = clear_project(db, project, before).await;
        if let Err(error) = &cleared {
            tracing::warn!(%project, %error, "cannot remove what a project keeps no longer; trying again later");
        }
        done = done.and(cleared);
    }
    done
}

/// Removes a project's events from before a time, slice by slice.
async fn clear_project(db: &mut Connection, project: ProjectId, before: Timestamp) -> Result<(), TickError> {
    for month in months::of_table_before(db, EVENTS, before).await? {
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

/// Removes the partitions that end until then as a whole: first they are taken out of their table, and then they are counted
/// no more and are gone, in one transaction.
async fn remove_partitions(db: &mut Connection, until_ms: i64, known: &HashSet<ProjectId>) -> Result<(), TickError> {
    for partition in expired::expired(db, EVENTS, until_ms).await? {
        if !take_out(db, &partition).await? {
            break;
        }
    }
    for name in expired::taken_out(db, EVENTS).await? {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        retention::take_counts(&tx, &name, known).await?;
        expired::remove(&tx, &name).await?;
        tx.commit().await.map_err(StoreError::from)?;
        tracing::info!(name, "removed a partition past every retention");
    }
    Ok(())
}

/// Takes a partition out of its table; false where others read that for too long.
async fn take_out(db: &Connection, partition: &Expired) -> Result<bool, TickError> {
    match expired::take_out(db, partition).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_too_slow() || error.is_conflict() => {
            let name = partition.name();
            tracing::warn!(name, "a partition past every retention cannot be taken out now: its table is being read");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
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
