//! Limits of request bodies.

use std::time::Duration;

/// Maximum size of a body in bytes, also after decompression.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum time for the whole body to arrive.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);
