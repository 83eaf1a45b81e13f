//! Cross-origin requests: any origin, without credentials, on routes that public keys may call; no origin elsewhere.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::http::respond::Reply;

const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-api-key, x-user-token, x-user-hash, authorization, content-type, content-encoding, idempotency-key, if-match, traceparent",
);
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-Request-Id, ETag");
const ONE_DAY: HeaderValue = HeaderValue::from_static("86400");

/// Allows any origin to read a response.
pub fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
}

/// Returns the response to `OPTIONS`.
///
/// `allow` lists all methods of the path, and `open_methods` those that browsers may call from other origins.
pub fn preflight(open_methods: &[&str], allow: &str) -> Reply {
    let mut reply = Reply::empty(StatusCode::NO_CONTENT);
    if let Ok(allow) = HeaderValue::from_str(allow) {
        reply.headers.insert(ALLOW, allow);
    }
    if let (false, Ok(methods)) = (open_methods.is_empty(), HeaderValue::from_str(&open_methods.join(", "))) {
        reply.headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        reply.headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        reply.headers.insert(ACCESS_CONTROL_MAX_AGE, ONE_DAY);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preflight_allows_only_open_methods() {
        let reply = preflight(&["GET", "POST"], "GET, POST, PUT");
        assert_eq!(reply.headers[ALLOW], "GET, POST, PUT");
        assert_eq!(reply.headers[ACCESS_CONTROL_ALLOW_METHODS], "GET, POST");
        assert!(reply.headers.contains_key(ACCESS_CONTROL_MAX_AGE));
        let reply = preflight(&[], "PUT");
        assert_eq!(reply.headers.keys().collect::<Vec<_>>(), [ALLOW]);
    }
}
