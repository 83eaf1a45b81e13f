//! A reader's position in a stream.

/// A message of a stream, after which a reader starts.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// When the stream was created, in Unix milliseconds.
    pub stream_created_ms: i64,
    pub seq: u64,
    /// When the broker stored the message, in Unix nanoseconds; 0 if unknown.
    pub stored_ns: i64,
}
