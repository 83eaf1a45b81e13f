//! Where a request's body ends. What says so twice may be read in one way by a proxy and in another here, and what follows
//! would then be somebody else's request.

use http::HeaderMap;
use http::header::TRANSFER_ENCODING;

/// Whether the body came in chunks. Such a request is its connection's last one (RFC 9112, 6.1): the HTTP library goes by the
/// chunks, and says nothing of a length that was beside them.
pub fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
}
