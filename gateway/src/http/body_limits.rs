//! What a request may be at most.

use std::time::Duration;

/// Bytes of a body, also after decompression.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long all of a body may take to arrive.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);
