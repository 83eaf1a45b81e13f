//! Observes waiting work.

use database::{Connection, StoreError, ingest_partitions, time_partitions};
use jiff::{SignedDuration, Timestamp};
use store_sending::send_chunks::ready;
use store_sending::{outbox, timers};

use super::{CHUNKS_SECONDS, MAX_COUNT, OUTBOX_SECONDS, TIMERS_SECONDS, WorkState};

/// Observes waiting work. `now` is the database's time.
pub async fn at(db: &Connection, now: Timestamp) -> Result<WorkState, StoreError> {
    let before = |seconds| now - SignedDuration::from_secs(seconds);
    let (partitions, orphaned) = ingest_partitions::orphaned(db).await?;
    Ok(WorkState {
        partitions,
        orphaned,
        outbox: outbox::count_waiting(db, before(OUTBOX_SECONDS), MAX_COUNT).await?,
        timers: timers::due::overdue(db, before(TIMERS_SECONDS), MAX_COUNT).await?,
        chunks: ready::overdue(db, before(CHUNKS_SECONDS), MAX_COUNT).await?,
        days_ahead: time_partitions::days_ahead(db, now.as_millisecond()).await?,
    })
}
