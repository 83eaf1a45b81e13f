//! The ID that identifies a request in responses and logs.

use http::{HeaderMap, HeaderValue};

/// Returns the caller's `X-Request-Id` if it is 1 to 64 characters of `[A-Za-z0-9._-]`, or else a new ID.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    match headers.get("x-request-id") {
        Some(id) if is_valid(id.as_bytes()) => id.clone(),
        _ => fresh(),
    }
}

fn is_valid(id: &[u8]) -> bool {
    (1..=64).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
}

/// Returns a new ID of 32 hexadecimal digits.
pub fn fresh() -> HeaderValue {
    let mut text = [0; 32];
    // Neither call can fail: the buffer has the right length, and hexadecimal digits are a valid header value.
    let _ = hex::encode_to_slice(rand::random::<[u8; 16]>(), &mut text);
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_request_id_is_kept_and_any_other_replaced() {
        let answered = |id: &str| {
            let headers = HeaderMap::from_iter([("x-request-id".parse().unwrap(), HeaderValue::from_str(id).unwrap())]);
            of(&headers).to_str().unwrap().to_owned()
        };
        assert_eq!(answered("a.B_9-"), "a.B_9-");
        for unfit in ["", "a b", "a/b", &"x".repeat(65)] {
            let made = answered(unfit);
            assert!(made != unfit && made.len() == 32, "{unfit:?} gave {made:?}");
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
