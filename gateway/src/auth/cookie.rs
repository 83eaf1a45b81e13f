//! The session's cookie.

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;

const NAME: &str = "session";

/// The value of the session's cookie; where there are several, browsers send the one of the closest path first.
pub fn value(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).into_iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

/// A `Set-Cookie` that makes browsers keep the session.
pub fn set(value: &str, lasts: Duration, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}", lasts.as_secs())
}

/// A `Set-Cookie` that makes browsers forget the session.
pub fn removed(secure: bool) -> String {
    set("", Duration::ZERO, secure)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_sessions_value_is_found_among_others() {
        for (header, expected) in [
            ("session=abc", Some("abc")),
            ("a=1; session=abc; b=2", Some("abc")),
            ("a=1;session=abc", Some("abc")),
            ("xsession=abc", None),
            ("session", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(header))]);
            assert_eq!(value(&headers), expected, "{header:?}");
        }
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_it() {
        let cookie = set("v", Duration::from_mins(1), false);
        assert_eq!(cookie, "session=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax");
        assert!(set("v", Duration::from_mins(1), true).ends_with("; Secure"));
        assert!(removed(false).contains("Max-Age=0"));
    }
}
