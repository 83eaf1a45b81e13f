//! Whether a stream still holds what was read of it. A broker can lose its end: by a power failure what was acknowledged and not
//! synced, by an older copy of its disk all that came since. What comes next is then stored under sequences that were used before.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{ConsumerError, RawMessageError, RawMessageErrorKind, Stream};
use wire::position::Position;

/// What a stream holds under a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The message that was read.
    Same,
    /// Another one: the sequence was used twice.
    Another,
    /// None: it was removed, or the stream lost its end and has not come that far again.
    Nothing,
}

/// Looks for the message of a position. The stream's leader answers: another server of a cluster may be behind.
pub async fn find(stream: &Stream, position: Position) -> Result<Found, RawMessageError> {
    match stream.get_raw_message(position.seq).await {
        Ok(message) if message.time.unix_timestamp_nanos() == i128::from(position.stored_ns) => Ok(Found::Same),
        Ok(_) => Ok(Found::Another),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}

/// Where the stream lost its end, behind which message to read on; none where it did not.
pub async fn lost_behind(stream: &Stream, last: Position) -> Result<Option<u64>, String> {
    let newer = behind_which_is_newer(stream, last).await.map_err(|e| e.to_string())?;
    if newer >= last.seq {
        return Ok(None);
    }
    // The times are those of whoever led the stream, and a server that answers about them may be behind: the message itself says more.
    match find(stream, last).await.map_err(|e| e.to_string())? {
        Found::Same => Ok(None),
        Found::Another | Found::Nothing => Ok(Some(newer)),
    }
}

/// The last sequence of the stream before the first message that is newer than the one read last. Where it is smaller than that one's own,
/// that one's was used twice.
async fn behind_which_is_newer(stream: &Stream, last: Position) -> Result<u64, ConsumerError> {
    let state = &stream.cached_info().state;
    let younger_ns = state.last_timestamp.unix_timestamp_nanos() - i128::from(last.stored_ns);
    if last.stored_ns == 0 || younger_ns <= 0 {
        return Ok(state.last_sequence);
    }
    let after = Duration::from_nanos(u64::try_from(younger_ns - 1).unwrap_or(u64::MAX));
    last_before(stream, DeliverPolicy::ByStartTime { start_time: state.last_timestamp - after }).await
}

/// The last sequence of a stream before the place where a policy begins, of a time for example.
pub async fn last_before(stream: &Stream, place: DeliverPolicy) -> Result<u64, ConsumerError> {
    // A consumer that starts there knows it. It has a name, as users may only make consumers that have one.
    let config = pull::Config {
        name: Some(format!("seek_{:016x}", rand::random::<u64>())),
        deliver_policy: place,
        ack_policy: AckPolicy::None,
        memory_storage: true,
        inactive_threshold: Duration::from_secs(5),
        ..pull::Config::default()
    };
    let consumer: PullConsumer = stream.create_consumer(config).await?;
    let found = consumer.cached_info();
    // Without this it would go by itself in some seconds.
    if let Err(error) = stream.delete_consumer(&found.name).await {
        tracing::debug!(%error, "cannot remove a consumer");
    }
    Ok(found.delivered.stream_sequence)
}
