//! Observes waiting work.

use database::{Connection, StoreError, ingest_partitions, time_partitions};
use jiff::{SignedDuration, Timestamp};
use store_sending::send_chunks::ready;
use store_sending::{outbox, timers};

use super::{CHUNKS_SECONDS, COUNTED, OUTBOX_SECONDS, Seen, TIMERS_SECONDS};

/// Observes waiting work. `now` is the database's time.
pub async fn at(db: &Connection, now: Timestamp) -> Result<Seen, StoreError> {
    let before = |seconds| now - SignedDuration::from_secs(seconds);
    let (partitions, orphaned) = ingest_partitions::orphaned(db).await?;
    Ok(Seen {
        partitions,
        orphaned,
        outbox: outbox::waiting(db, before(OUTBOX_SECONDS), COUNTED).await?,
        timers: timers::due::overdue(db, before(TIMERS_SECONDS), COUNTED).await?,
        chunks: ready::overdue(db, before(CHUNKS_SECONDS), COUNTED).await?,
        days_ahead: time_partitions::days_ahead(db, now.as_millisecond()).await?,
    })
}
