//! The rest of what erased people leave behind: more rows than go at once.

use std::sync::Arc;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use shared::clock::from_ms;
use shared::event::{Body, IngestBatch, IngestItem, uuid};
use shared::store::erasures::{self, Erased};
use shared::store::events::counters;
use shared::store::messages::insert;
use shared::store::users::record::PersonKey;
use shared::store::{Connection, StoreError, dead_letters, projects, push_tokens};

use crate::App;
use crate::tick::TickError;

/// For how long an erasure is remembered: nothing accepted before it waits for longer, not even for a restored database.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long copies stay that cannot be searched for one user's data, such as entries of a stream. An erasure leaves nothing after
/// 24 hours.
pub const UNSEARCHABLE_KEPT: SignedDuration = SignedDuration::from_hours(23);

/// How long the log keeps an erasure; shorter than `REMEMBERED`, so that every entry still has its row in the database.
const LOGGED: SignedDuration = SignedDuration::from_hours(29 * 24);

/// Removes slice after slice until nothing is left of anyone.
pub async fn finish(app: Arc<App>) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    loop {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let Some((person, erased)) = erasures::next_incomplete(&tx).await? else { return Ok(()) };
        tx.commit().await.map_err(StoreError::from)?;
        if !finish_one(&mut db, person, erased).await? {
            return Ok(());
        }
    }
}

/// Removes what is left of one id, month by month: a transaction locks the partitions of one month. False where another
/// scheduler is removing it.
async fn finish_one(db: &mut Connection, person: PersonKey, erased: Erased) -> Result<bool, TickError> {
    let (project, id) = person;
    let months = erasures::months(&*db).await?;
    for (nth, month) in months.iter().enumerate() {
        loop {
            let tx = db.transaction().await.map_err(StoreError::from)?;
            match erasures::lock_incomplete(&tx, person).await? {
                None => return Ok(false),
                // Erased again meanwhile: start over from the first month.
                Some(now) if now != erased => return Ok(true),
                Some(_) => {}
            }
            let times = (erased.accepted, Some(erased.applied));
            let removed = erasures::remove_slice(&tx, project, &[id], times, *month).await?;
            counters::take(&tx, project, &removed.events).await?;
            insert::count(&tx, project, insert::any_lane(), -removed.messages).await?;
            if !removed.left && nth + 1 == months.len() {
                erasures::mark_complete(&tx, person).await?;
            }
            tx.commit().await.map_err(StoreError::from)?;
            if !removed.left {
                break;
            }
        }
    }
    Ok(true)
}

/// Forgets erasures of long ago, and the tokens that were taken away by then.
pub async fn forget(app: Arc<App>) -> Result<(), TickError> {
    let (db, before) = (app.store.connection().await?, app.now() - REMEMBERED);
    erasures::forget(&db, before).await?;
    push_tokens::forget(&db, before).await?;
    Ok(())
}

/// Removes dead letters that name no user: an erasure could not find them.
pub async fn forget_unnamed(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    dead_letters::forget_unnamed(&db, app.now() - UNSEARCHABLE_KEPT).await?;
    Ok(())
}

/// Repeats the erasures of the log that the database does not know, because it was restored from an older backup.
pub async fn repeat_unknown(app: Arc<App>) -> Result<(), TickError> {
    let (names, since) = (&app.bus.names, app.now() - LOGGED);
    let stream = app.bus.jetstream.get_stream(names.ingest_stream()).await.map_err(broker)?;
    // The end of the entries that are too old, as far as no younger one comes before them.
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
            tracing::info!(sequence = entry.sequence, "repeated an erasure that a restored database did not know");
        }
    }
    if let Some(end) = past {
        stream.purge().sequence(end).filter(log).await.map_err(broker)?;
    }
    Ok(())
}

/// The ids that an entry of the log erases, and when that was accepted.
fn erased_by(payload: &Bytes) -> (Vec<PersonKey>, Timestamp) {
    let items = IngestBatch::decode_checked(payload.clone()).map(|batch| batch.items).unwrap_or_default();
    let key = |item: &IngestItem| match &item.body {
        Some(Body::Erase(erase)) => Some((item.project().ok()?, uuid("user_id", &erase.user_id).ok()?)),
        _ => None,
    };
    let accepted_ms = items.iter().map(|item| item.received_ms).max().unwrap_or(0);
    (items.iter().filter_map(key).collect(), from_ms(accepted_ms))
}

/// Whether these erasures were carried out, or concern no project.
async fn is_known(app: &App, erased: &[PersonKey], accepted: Timestamp) -> Result<bool, TickError> {
    let db = app.store.connection().await?;
    let found = erasures::of(&db, erased).await?;
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
