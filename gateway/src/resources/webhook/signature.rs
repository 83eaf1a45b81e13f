//! Verifies the sender of a webhook by the HMAC-SHA256 of its raw body with the project's webhook secret. No I/O.

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;

use crate::http::error::ApiError;

const MISSING: ApiError = ApiError::Unauthorized(
    "X-Signature is missing: send the hexadecimal HMAC-SHA256 of the raw body under the project's webhook secret",
);
const WRONG: ApiError = ApiError::Unauthorized(
    "X-Signature is not the hexadecimal HMAC-SHA256 of the raw body under the project's webhook secret",
);
const STALE: ApiError =
    ApiError::Unauthorized("X-Signature-Timestamp must be Unix seconds, at most 5 minutes off the server's time");

/// Maximum difference between a timestamp and the server's time, in seconds.
const TOLERANCE: i64 = 300;

/// The signature headers of a webhook.
#[derive(Debug)]
pub struct Signature<'a> {
    mac: Vec<u8>,
    /// As sent. The signature covers the timestamp, a dot and the body.
    pub timestamp: Option<&'a str>,
}

impl<'a> Signature<'a> {
    pub fn of(headers: &'a HeaderMap, now_ms: i64) -> Result<Self, ApiError> {
        let text = headers.get("x-signature").ok_or(MISSING)?.to_str().map_err(|_| WRONG)?.trim();
        let mac = hex::decode(text.strip_prefix("sha256=").unwrap_or(text)).map_err(|_| WRONG)?;
        let timestamp = match headers.get("x-signature-timestamp") {
            None => None,
            Some(value) => {
                let text = value.to_str().map_err(|_| STALE)?.trim();
                let seconds: i64 = text.parse().map_err(|_| STALE)?;
                // Saturating, since a header may contain any number.
                if seconds.saturating_sub(now_ms.div_euclid(1_000)).saturating_abs() > TOLERANCE {
                    return Err(STALE);
                }
                Some(text)
            }
        };
        Ok(Self { mac, timestamp })
    }

    /// Checks the signature against each of these secrets, in constant time. Fails with 401 if none matches.
    pub fn verify<'s>(&self, secrets: impl Iterator<Item = &'s str>, body: &[u8]) -> Result<(), ApiError> {
        for secret in secrets {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { continue };
            if let Some(timestamp) = self.timestamp {
                mac.update(timestamp.as_bytes());
                mac.update(b".");
            }
            mac.update(body);
            if mac.verify_slice(&self.mac).is_ok() {
                return Ok(());
            }
        }
        Err(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const BODY: &[u8] = b"The quick brown fox jumps over the lazy dog";
    /// The signature of `BODY` under the key "key": the widely published example.
    const MAC: &str = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    const NOW_MS: i64 = 1_790_000_000_500;

    fn headers(signature: Option<&str>, timestamp: Option<&str>) -> HeaderMap {
        let pairs = [("x-signature", signature), ("x-signature-timestamp", timestamp)];
        let given = pairs.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).unwrap())));
        given.map(|(name, value)| (name.parse().unwrap(), value)).collect()
    }

    fn check(signature: Option<&str>, timestamp: Option<&str>, secrets: &[&str], body: &[u8]) -> bool {
        let headers = headers(signature, timestamp);
        let signature = Signature::of(&headers, NOW_MS);
        signature.and_then(|s| s.verify(secrets.iter().copied(), body)).is_ok()
    }

    #[test]
    fn only_a_mac_of_the_body_with_an_accepted_secret_verifies() {
        let prefixed = format!("sha256={MAC}");
        assert!(check(Some(MAC), None, &["key"], BODY));
        assert!(check(Some(&prefixed), None, &["new", "key"], BODY));
        for (signature, secrets, body) in [
            (None, &["key"][..], BODY),
            (Some(""), &["key"], BODY),
            (Some("sha256="), &["key"], BODY),
            (Some(&MAC[..62]), &["key"], BODY),
            (Some("zz"), &["key"], BODY),
            (Some(MAC), &["other"], BODY),
            (Some(MAC), &[], BODY),
            (Some(MAC), &["key"], b"The quick brown fox jumps over the lazy dog."),
        ] {
            assert!(!check(signature, None, secrets, body), "{signature:?} {secrets:?}");
        }
    }

    #[test]
    fn timestamp_must_be_signed_and_recent() {
        let signed = |timestamp: &str| {
            let mac = Hmac::<Sha256>::new_from_slice(b"key").unwrap();
            let mac = mac.chain_update(timestamp).chain_update(b".").chain_update(BODY);
            hex::encode(mac.finalize().into_bytes())
        };
        for (timestamp, good) in [
            ("1790000000", true),
            ("1789999700", true),
            ("1790000300", true),
            ("1789999699", false),
            ("1790000301", false),
            ("soon", false),
            ("-9223372036854775808", false),
            ("9223372036854775807", false),
            ("1790000000.5", false),
        ] {
            assert_eq!(check(Some(&signed(timestamp)), Some(timestamp), &["key"], BODY), good, "{timestamp}");
        }
        // A signature of the body alone is invalid with a timestamp, and one that includes a timestamp is invalid
        // without it.
        assert!(!check(Some(MAC), Some("1790000000"), &["key"], BODY));
        assert!(!check(Some(&signed("1790000000")), None, &["key"], BODY));
    }
}
