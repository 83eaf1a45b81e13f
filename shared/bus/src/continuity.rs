//! Checks whether a stream still holds the messages that were read.
//!
//! A broker can lose the end of a stream: after a power failure the messages that were acknowledged but not synced,
//! after restoring an older copy of its disk all later ones. New messages are then stored under sequences that were
//! used before.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{ConsumerError, RawMessageError, RawMessageErrorKind, Stream};
use wire::position::Position;

/// The message that a stream holds under a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionCheck {
    /// The message that was read.
    Same,
    /// Another message: the sequence was reused.
    Reused,
    /// None: it was removed, or the stream lost its end and has not reached that sequence again.
    Missing,
}

/// Looks up the message at a position. The stream's leader answers: another server of the cluster may be behind.
pub async fn check_position(stream: &Stream, position: Position) -> Result<PositionCheck, RawMessageError> {
    match stream.get_raw_message(position.seq).await {
        Ok(message) if message.time.unix_timestamp_nanos() == i128::from(position.stored_ns) => Ok(PositionCheck::Same),
        Ok(_) => Ok(PositionCheck::Reused),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(PositionCheck::Missing),
        Err(error) => Err(error),
    }
}

/// Returns the sequence after which to continue reading if the stream lost its end, otherwise `None`.
pub async fn truncated_after(stream: &Stream, last: Position) -> Result<Option<u64>, String> {
    let newer = last_not_newer(stream, last).await.map_err(|e| e.to_string())?;
    if newer >= last.seq {
        return Ok(None);
    }
    // The timestamps come from the leader at that time, and the server that answers about them may be behind. The
    // message itself is conclusive.
    match check_position(stream, last).await.map_err(|e| e.to_string())? {
        PositionCheck::Same => Ok(None),
        PositionCheck::Reused | PositionCheck::Missing => Ok(Some(newer)),
    }
}

/// Returns the last sequence before the first message that is newer than the last one read. If it is below the latter's
/// sequence, that sequence was reused.
async fn last_not_newer(stream: &Stream, last: Position) -> Result<u64, ConsumerError> {
    let state = &stream.cached_info().state;
    let younger_ns = state.last_timestamp.unix_timestamp_nanos() - i128::from(last.stored_ns);
    if last.stored_ns == 0 || younger_ns <= 0 {
        return Ok(state.last_sequence);
    }
    let after = Duration::from_nanos(u64::try_from(younger_ns - 1).unwrap_or(u64::MAX));
    last_before(stream, DeliverPolicy::ByStartTime { start_time: state.last_timestamp - after }).await
}

/// Returns the last sequence of a stream before the start of a deliver policy, such as a time.
pub async fn last_before(stream: &Stream, start: DeliverPolicy) -> Result<u64, ConsumerError> {
    // A consumer that starts there reports it. It is named because the broker's permissions allow only named consumers.
    let config = pull::Config {
        name: Some(format!("seek_{:016x}", rand::random::<u64>())),
        deliver_policy: start,
        ack_policy: AckPolicy::None,
        memory_storage: true,
        inactive_threshold: Duration::from_secs(5),
        ..pull::Config::default()
    };
    let consumer: PullConsumer = stream.create_consumer(config).await?;
    let found = consumer.cached_info();
    // Otherwise it would be removed after its inactivity threshold.
    if let Err(error) = stream.delete_consumer(&found.name).await {
        tracing::debug!(%error, "cannot remove a consumer");
    }
    Ok(found.delivered.stream_sequence)
}
