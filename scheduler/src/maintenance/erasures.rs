//! Removes rows of erased users that the recording transaction left: those of older months, and those beyond one slice
//! of a month.

use std::sync::Arc;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use database::months::Month;
use database::{Connection, StoreError};
use jiff::{SignedDuration, Timestamp};
use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use store_profiles::events::counters;
use store_profiles::push_tokens;
use store_profiles::users::record::ProjectUserId;
use store_projects::projects;
use store_sending::dead_letters;
use store_sending::erasures::{self, Erased};
use store_sending::messages::insert;
use uuid::Uuid;
use wire::event::{Body, IngestBatch, IngestItem, uuid};

use crate::App;
use crate::tick::TickError;

/// How long an erasure is stored: nothing accepted before it takes longer to be applied, not even after restoring a
/// database.
const RECORD_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long copies are kept that cannot be searched for one user's data, such as stream entries. An erasure must be
/// complete after 24 hours.
pub const UNSEARCHABLE_RETENTION: SignedDuration = SignedDuration::from_hours(23);

/// How long the log keeps an erasure. Shorter than [`RECORD_RETENTION`], so that every entry still has its row in the
/// database.
const LOG_RETENTION: SignedDuration = SignedDuration::from_hours(29 * 24);

/// Finishes erasures until none is left.
pub async fn finish(app: Arc<App>) -> Result<(), TickError> {
    while finish_batches(&app).await? > 0 {}
    Ok(())
}

/// Finishes one batch of each project's erasures, so that a project with many of them delays no other. Returns how many
/// it finished.
///
/// Skips projects whose erasures another scheduler is finishing. A project's failure does not stop the others; returns
/// the first error.
pub async fn finish_batches(app: &App) -> Result<u64, TickError> {
    let mut db = app.store.connection().await?;
    let (mut finished, mut failed) = (0, None);
    for project in erasures::incomplete_projects(&db).await? {
        if !erasures::begin(&db, project).await? {
            continue;
        }
        let batch = finish_batch(&mut db, project).await;
        erasures::end(&db, project).await?;
        match batch {
            Ok(batch) => finished += batch,
            // A project's failure does not stop the others.
            Err(error) => {
                tracing::warn!(%project, %error, "data of erased users cannot be removed; retrying later");
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(finished), Err)
}

/// Removes the rows that a project's oldest incomplete erasures left, month by month.
///
/// Each transaction locks the partitions of only one month, and months without rows of an ID are skipped.
async fn finish_batch(db: &mut Connection, project: ProjectId) -> Result<u64, TickError> {
    let incomplete = erasures::incomplete(&*db, project).await?;
    let ids: Vec<Uuid> = incomplete.iter().map(|(id, _)| *id).collect();
    for month in erasures::months(&*db).await? {
        let with_rows = erasures::with_rows(&*db, project, &ids, month).await?;
        for (id, erased) in incomplete.iter().filter(|(id, _)| with_rows.contains(id)) {
            remove(db, (project, *id), *erased, month).await?;
        }
    }
    Ok(erasures::mark_complete(&*db, project, &incomplete).await?)
}

/// Removes an ID's rows in a month, slice by slice.
async fn remove(
    db: &mut Connection,
    (project, id): ProjectUserId,
    erased: Erased,
    month: Month,
) -> Result<(), TickError> {
    let times = (erased.accepted, Some(erased.applied));
    loop {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let removed = erasures::remove_slice(&tx, project, &[id], times, month).await?;
        counters::subtract(&tx, project, &removed.events).await?;
        insert::count(&tx, project, insert::any_lane(), -removed.messages).await?;
        tx.commit().await.map_err(StoreError::from)?;
        if !removed.has_more {
            return Ok(());
        }
    }
}

/// Deletes the records of old erasures and of push tokens removed by then.
pub async fn forget(app: Arc<App>) -> Result<(), TickError> {
    let (db, before) = (app.store.connection().await?, app.now() - RECORD_RETENTION);
    erasures::forget(&db, before).await?;
    push_tokens::forget(&db, before).await?;
    Ok(())
}

/// Removes dead letters that name no user: an erasure could not find them.
pub async fn forget_unnamed(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    dead_letters::forget_without_user(&db, app.now() - UNSEARCHABLE_RETENTION).await?;
    Ok(())
}

/// Repeats the erasures of the log that the database does not know, because it was restored from an older backup.
pub async fn repeat_unknown(app: Arc<App>) -> Result<(), TickError> {
    let (names, since) = (&app.bus.names, app.now() - LOG_RETENTION);
    let stream = app.bus.jetstream.get_stream(names.ingest_stream()).await.map_err(broker)?;
    // Sequence up to which to purge: all entries before the first recent one are too old.
    let (log, mut next, mut past, mut has_recent) = (names.ingest_erasures(), 1, None, false);
    loop {
        let entry = match stream.get_first_raw_message_by_subject(&log, next).await {
            Ok(entry) => entry,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => break,
            Err(error) => return Err(broker(error)),
        };
        next = entry.sequence + 1;
        let (erased, accepted) = erased_by(&entry.payload);
        if accepted < since {
            past = if has_recent { past } else { Some(next) };
            continue;
        }
        has_recent = true;
        if !is_known(&app, &erased, accepted).await? {
            app.publisher.publish(names.ingest(0), entry.payload).await.map_err(broker)?;
            tracing::info!(
                sequence = entry.sequence,
                "repeated an erasure that was missing from the restored database"
            );
        }
    }
    if let Some(end) = past {
        stream.purge().sequence(end).filter(log).await.map_err(broker)?;
    }
    Ok(())
}

/// Returns the IDs that a log entry erases, and when the erasure was accepted.
fn erased_by(payload: &Bytes) -> (Vec<ProjectUserId>, Timestamp) {
    let items = IngestBatch::decode_checked(payload.clone()).map(|batch| batch.items).unwrap_or_default();
    let key = |item: &IngestItem| match &item.body {
        Some(Body::Erase(erase)) => Some((item.project().ok()?, uuid("user_id", &erase.user_id).ok()?)),
        _ => None,
    };
    let accepted_ms = items.iter().map(|item| item.received_ms).max().unwrap_or(0);
    (items.iter().filter_map(key).collect(), from_ms(accepted_ms))
}

/// Returns whether these erasures were applied, or concern projects that no longer exist.
async fn is_known(app: &App, erased: &[ProjectUserId], accepted: Timestamp) -> Result<bool, TickError> {
    let db = app.store.connection().await?;
    let found = erasures::erased_at(&db, erased).await?;
    for key in erased {
        let is_done = found.get(key).is_some_and(|at| accepted <= *at);
        if !is_done && projects::get(&db, key.0).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn broker(error: impl std::fmt::Display) -> TickError {
    TickError::Broker(error.to_string())
}
