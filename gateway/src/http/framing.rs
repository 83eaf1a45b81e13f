//! Message framing. A proxy may find the end of a request's body elsewhere than the gateway if the request specifies it
//! twice. The bytes that follow would then become another client's request (request smuggling).

use http::HeaderMap;
use http::header::TRANSFER_ENCODING;

/// Returns whether the body is chunked. Such a request is the last one of its connection.
///
/// RFC 9112 (6.1) requires that only if `Content-Length` is also present, but some proxies interpret a list of codings
/// (`identity, chunked`) differently.
pub fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
}
