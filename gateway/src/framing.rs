//! Where a request's body ends. What says so twice may be read in one way by a proxy and in another here, so that what
//! follows would be somebody else's request (RFC 9112, 6.1).

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

use crate::error::ApiError;

/// Refuses a length beside chunks.
pub fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    if is_chunked(headers) && headers.contains_key(CONTENT_LENGTH) {
        return Err(ApiError::BadRequest("Content-Length and Transfer-Encoding exclude each other".to_owned()));
    }
    Ok(())
}

/// Whether the body came in chunks. Such a request is its connection's last one: the HTTP library reads the chunks, and of a
/// length that came behind `Transfer-Encoding` it tells nothing.
pub fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
}
