//! Where a key stands in the headers.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The key of `x-api-key`, else of `Authorization: Bearer`. The scheme is compared without regard to case.
pub fn key(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get("x-api-key") {
        return value.to_str().ok().map(str::trim).filter(|k| !k.is_empty());
    }
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim()).filter(|k| !k.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn both_headers_are_read() {
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
