//! Seeing what waits.

use jiff::{SignedDuration, Timestamp};
use shared::store::{Connection, StoreError, ingest_partitions, messages, outbox, time_partitions, timers};

use super::{COUNTED, MESSAGES_SECONDS, OUTBOX_SECONDS, Seen, TIMERS_SECONDS};

/// `now`: the database's.
pub async fn at(db: &Connection, now: Timestamp) -> Result<Seen, StoreError> {
    let before = |seconds| now - SignedDuration::from_secs(seconds);
    let (partitions, orphaned) = ingest_partitions::orphaned(db).await?;
    Ok(Seen {
        partitions,
        orphaned,
        outbox: outbox::waiting(db, before(OUTBOX_SECONDS), COUNTED).await?,
        timers: timers::due::overdue(db, before(TIMERS_SECONDS), COUNTED).await?,
        messages: messages::due::overdue(db, before(MESSAGES_SECONDS), COUNTED).await?,
        days_ahead: time_partitions::days_ahead(db, now.as_millisecond()).await?,
    })
}
