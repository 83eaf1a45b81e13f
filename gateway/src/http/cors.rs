//! Cross-origin requests: any origin, without credentials, where public keys may call; none anywhere else.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::http::respond::Reply;
use crate::router::Access;
use crate::routes;

const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-api-key, x-user-token, x-user-hash, authorization, content-type, content-encoding, idempotency-key, if-match, traceparent",
);
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-Request-Id, ETag");
const ONE_DAY: HeaderValue = HeaderValue::from_static("86400");

/// Lets any origin read an answer.
pub fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
}

/// The methods of an address that public keys may call.
fn open_methods(path: &str) -> Vec<&'static str> {
    let all = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let open = |m: &Method| routes::access_of(m, path) == Some(Access::Public);
    all.iter().zip(["GET", "POST", "PUT", "DELETE"]).filter(|(m, _)| open(m)).map(|(_, name)| name).collect()
}

/// Whether public keys may call an address by some method.
pub fn is_open(path: &str) -> bool {
    !open_methods(path).is_empty()
}

/// The answer to `OPTIONS`: what the address takes, and to browsers, what other origins may ask for.
pub fn preflight(path: &str, allow: &str) -> Reply {
    let mut reply = Reply::empty(StatusCode::NO_CONTENT);
    if let Ok(allow) = HeaderValue::from_str(allow) {
        reply.headers.insert(ALLOW, allow);
    }
    let methods = open_methods(path);
    if let (false, Ok(methods)) = (methods.is_empty(), HeaderValue::from_str(&methods.join(", "))) {
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
    fn only_what_public_keys_may_call_is_open() {
        for (path, methods) in [
            ("/api/v1/events", Some("POST")),
            ("/api/v1/events/batch", Some("POST")),
            ("/api/v1/users/identify", Some("POST")),
            ("/api/v1/push-tokens", Some("GET, POST, DELETE")),
            ("/api/v1/feed", Some("GET")),
            ("/api/v1/inbox/stream", Some("GET")),
            ("/api/v1/users", None),
            ("/api/v1/templates", None),
            ("/api/v1/channels", None),
        ] {
            let reply = preflight(path, "X");
            let allowed = reply.headers.get(ACCESS_CONTROL_ALLOW_METHODS).map(|v| v.to_str().unwrap());
            assert_eq!((allowed, is_open(path)), (methods, methods.is_some()), "{path}");
            assert_eq!(reply.headers.contains_key(ACCESS_CONTROL_MAX_AGE), methods.is_some());
        }
    }
}
