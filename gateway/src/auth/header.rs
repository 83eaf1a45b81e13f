//! Reads API keys from headers.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Returns the key from `x-api-key` or else from `Authorization: Bearer`. The scheme is case-insensitive.
pub fn key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
    text("x-api-key").or_else(|| {
        let (scheme, key) = text(AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn key_is_read_from_either_header() {
        for (name, value, expected) in [
            ("x-api-key", "k1", Some("k1")),
            ("x-api-key", "  k1 ", Some("k1")),
            ("x-api-key", "", None),
            ("authorization", "Bearer k1", Some("k1")),
            ("authorization", "bEARER   k1", Some("k1")),
            ("authorization", "Basic k1", None),
            ("authorization", "k1", None),
            ("authorization", "Bearer ", None),
            ("cookie", "k1", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            assert_eq!(key(&headers), expected, "{name}: {value:?}");
        }
    }
}
