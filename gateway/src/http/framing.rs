//! Where a request's body ends. What says so twice may be read in one way by a proxy and in another here, and what follows
//! would then be somebody else's request.

use http::HeaderMap;
use http::header::TRANSFER_ENCODING;

/// Whether the body came in chunks. Such a request is its connection's last one, though RFC 9112 (6.1) asks for that only where a length
/// stands beside the chunks: a list of codings (`identity, chunked`) is read in one way here and in others by some proxies.
pub fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
}
