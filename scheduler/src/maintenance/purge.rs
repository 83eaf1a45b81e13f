//! Removes applied and acknowledged messages from the streams.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{Info, Stream};
use bus::continuity::{PositionCheck, check_position, last_before};
use bus::topology;
use database::ingest_partitions;
use domain::message::{Channel, Lane};
use jiff::{SignedDuration, Timestamp};
use store_sending::erasures;
use wire::position::Position;

use crate::App;
use crate::maintenance::erasures::UNSEARCHABLE_RETENTION;
use crate::tick::TickError;

/// Entries accepted before an erasure may be published this much later: an import counts as accepted when its request
/// began.
const MAX_PUBLISH_DELAY: SignedDuration = SignedDuration::from_hours(1);

/// Removes applied messages from the ingest stream: those older than the configured retention, and those that may hold
/// data of users erased nearly a day ago. If the stream is filled above its threshold, removes all applied messages.
///
/// Always removes all readiness probes but the last; they are never read. First recreates streams that the broker has
/// lost, so that publishers and readers continue on their own.
pub async fn purge(app: Arc<App>) -> Result<(), TickError> {
    let names = &app.bus.names;
    topology::ensure(&app.bus).await.map_err(broker)?;
    let mut stream = app.bus.jetstream.get_stream(names.ingest_stream()).await.map_err(broker)?;
    stream.purge().keep(1).filter(names.ingest_canary()).await.map_err(broker)?;
    let info = stream.info().await.map_err(broker)?.clone();
    let Some(last) = last_removable(&app, &stream, &info).await? else { return Ok(()) };
    let created_ms = topology::created_ms(&info);
    let positions = ingest_partitions::positions(&app.store.connection().await?, created_ms).await?;
    let mut removed = 0;
    // Purges each partition separately: otherwise an idle one would block all others.
    for (partition, position) in positions {
        let Ok(partition) = u16::try_from(partition) else { continue };
        let applied = position.seq;
        if !holds_position(&stream, position).await? {
            continue;
        }
        // The end of the purge is exclusive.
        let purge = stream.purge().sequence(applied.min(last).saturating_add(1)).filter(names.ingest(partition));
        removed += purge.await.map_err(broker)?.purged;
    }
    if removed > 0 {
        tracing::info!(removed, "removed applied messages from the ingest stream");
    }
    Ok(())
}

/// Returns whether the stream still holds the last applied message.
///
/// If not, the message was removed with all before it, or the stream lost its last messages and may have reused their
/// sequence numbers for messages that have not been applied.
async fn holds_position(stream: &Stream, position: Position) -> Result<bool, TickError> {
    // The time of a rewound position is unknown; it was set to a message that the stream holds.
    Ok(position.stored_ns == 0 || check_position(stream, position).await.map_err(broker)? == PositionCheck::Same)
}

/// Returns the last sequence that may be removed if applied; `None` if nothing needs to be removed.
async fn last_removable(app: &App, stream: &Stream, info: &Info) -> Result<Option<u64>, TickError> {
    let max_bytes = u64::try_from(info.config.max_bytes).unwrap_or(0);
    if info.state.messages == 0 {
        return Ok(None);
    }
    if is_full(info.state.bytes, max_bytes, app.config.purge_above_percent) {
        return Ok(Some(info.state.last_sequence));
    }
    let db = app.store.connection().await?;
    let erased =
        erasures::latest_until(&db, app.now() - UNSEARCHABLE_RETENTION).await?.map(|at| at + MAX_PUBLISH_DELAY);
    let before = erased.unwrap_or(Timestamp::MIN).max(app.now() - app.config.keep_ingest);
    let first_ms = (info.state.first_timestamp.unix_timestamp_nanos() / 1_000_000) as i64;
    let too_old = Duration::from_millis((before.as_millisecond() - first_ms).max(0).unsigned_abs());
    if too_old.is_zero() {
        return Ok(None);
    }
    let start_time = info.state.first_timestamp + too_old;
    Ok(Some(last_before(stream, DeliverPolicy::ByStartTime { start_time }).await.map_err(broker)?))
}

/// Removes acknowledged messages from the send stream.
///
/// The server does that on each acknowledgement. But a single server forgets removals that it could not write, for
/// example on a full disk, and would keep those messages forever.
pub async fn purge_acknowledged(app: Arc<App>) -> Result<(), TickError> {
    let names = &app.bus.names;
    let stream = app.bus.jetstream.get_stream(names.send_stream()).await.map_err(broker)?;
    let state = stream.cached_info().state.clone();
    if state.messages == 0 {
        return Ok(());
    }
    let mut removed = 0;
    for channel in Channel::ALL {
        // Earlier versions published references to recorded messages. No worker reads these lanes any more.
        for lane in [Lane::Automation, Lane::Campaign] {
            let purge = stream.purge().filter(names.send_lane(channel, lane));
            removed += purge.await.map_err(broker)?.purged;
        }
        let reader = match stream.consumer_info(names.send_consumer(channel)).await {
            Ok(reader) => reader,
            // No worker has read this channel yet.
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => continue,
            Err(error) => return Err(broker(error)),
        };
        let acknowledged = reader.ack_floor.stream_sequence;
        // A floor ahead of the stream means that the stream lost its last messages; the next ones are new.
        if !(state.first_sequence..=state.last_sequence).contains(&acknowledged) {
            continue;
        }
        // The end of the purge is exclusive.
        let purge = stream.purge().sequence(acknowledged + 1).filter(reader.config.filter_subject);
        removed += purge.await.map_err(broker)?.purged;
    }
    if removed > 0 {
        tracing::info!(removed, "removed acknowledged messages from the send stream");
    }
    Ok(())
}

fn broker(error: impl std::fmt::Display) -> TickError {
    TickError::Broker(error.to_string())
}

/// Returns whether at least `percent` of a stream's maximum bytes are used. A stream without a maximum is never full.
fn is_full(bytes: u64, max_bytes: u64, percent: u64) -> bool {
    max_bytes > 0 && u128::from(bytes) * 100 >= u128::from(max_bytes) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_full_from_a_share_of_its_maximum() {
        assert!(is_full(70, 100, 70) && !is_full(69, 100, 70));
        assert!(!is_full(u64::MAX, 0, 70));
        assert!(is_full(u64::MAX, u64::MAX, 100));
    }
}
