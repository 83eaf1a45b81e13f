//! Where a reader stands in a stream.

/// A message of a stream, behind which a reader begins.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// When the stream was made, in Unix milliseconds.
    pub stream_created_ms: i64,
    pub seq: u64,
    /// When the broker stored the message, in Unix nanoseconds; 0 where that is not known.
    pub stored_ns: i64,
}
