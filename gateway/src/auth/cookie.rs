//! The session cookie.

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;

/// Returns the cookie's name. Browsers accept the `__Host-` prefix only from this host over TLS, so no other subdomain
/// can plant a session.
fn name(secure: bool) -> &'static str {
    if secure { "__Host-session" } else { "session" }
}

/// Returns the value of the session cookie. Browsers send the cookie with the most specific path first, so the first one wins.
pub fn value(headers: &HeaderMap, secure: bool) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).into_iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    let wanted = name(secure);
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Returns a `Set-Cookie` value that stores the session for `max_age`.
pub fn set(value: &str, max_age: Duration, secure: bool) -> String {
    let attribute = if secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{attribute}", name(secure), max_age.as_secs())
}

/// Returns a `Set-Cookie` value that deletes the session.
pub fn clear(secure: bool) -> String {
    set("", Duration::ZERO, secure)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn session_cookie_is_found_among_other_cookies() {
        for (header, expected) in [
            ("session=abc", Some("abc")),
            ("a=1; session=abc; b=2", Some("abc")),
            ("a=1;session=abc", Some("abc")),
            ("xsession=abc", None),
            ("__Host-session=abc", None),
            ("session", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(header))]);
            assert_eq!(value(&headers, false), expected, "{header:?}");
        }
    }

    #[test]
    fn only_the_prefixed_cookie_is_read_over_tls() {
        let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("session=planted; __Host-session=own"))]);
        assert_eq!(value(&headers, true), Some("own"));
        let planted = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("session=planted"))]);
        assert_eq!(value(&planted, true), None);
    }

    #[test]
    fn session_cookie_is_http_only_and_same_site() {
        let cookie = set("v", Duration::from_mins(1), false);
        assert_eq!(cookie, "session=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax");
        let secure = set("v", Duration::from_mins(1), true);
        assert_eq!(secure, "__Host-session=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure");
        assert!(clear(false).contains("Max-Age=0"));
    }
}
