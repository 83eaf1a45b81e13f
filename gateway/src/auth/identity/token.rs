//! User tokens: JSON Web Tokens (RFC 7519), signed with HS256 under a project's identity secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::Sha256;

use super::IdentityError;
use super::secret_cache::{SecretHash, secret_hash};

/// Maximum length of a token, in bytes.
pub const MAX_BYTES: usize = 4_096;
/// Tolerated clock skew to the server that signed the token, in seconds.
const LEEWAY: f64 = 60.0;
/// The latest expiry that is stored as is (the year 9000); later ones are capped.
const MAX_EXPIRY: f64 = 221_845_392_000.0;

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Extensions that the recipient must understand. None is supported.
    crit: Option<IgnoredAny>,
}

/// Times are seconds since the Unix epoch; fractions are allowed.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq)]
pub struct UserToken {
    pub user_id: String,
    /// When it stops being accepted, leeway included.
    pub until: Timestamp,
    /// The secret that the token is signed with.
    pub secret: SecretHash,
}

/// Verifies a token against the accepted secrets.
///
/// No claim is read before the signature is verified, and `alg` selects nothing: the only algorithm is HS256.
pub fn verify<'s>(
    secrets: impl IntoIterator<Item = &'s str>,
    token: &str,
    now: Timestamp,
) -> Result<UserToken, IdentityError> {
    if token.len() > MAX_BYTES {
        return Err(IdentityError::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(IdentityError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(IdentityError::Malformed)?;
    let header: Header = decode_part(header)?;
    if header.alg != "HS256" || header.crit.is_some() {
        return Err(IdentityError::UnsupportedAlgorithm);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| IdentityError::Malformed)?;
    let secret = secrets.into_iter().find(|secret| is_signature(secret, signed, &signature));
    let secret = secret_hash(secret.ok_or(IdentityError::WrongSignature)?);
    let claims: Claims = decode_part(claims)?;
    let now = now.as_millisecond() as f64 / 1_000.0;
    if now >= claims.exp + LEEWAY {
        return Err(IdentityError::Expired);
    }
    if [claims.nbf, claims.iat].into_iter().flatten().any(|from| from > now + LEEWAY) {
        return Err(IdentityError::NotYetValid);
    }
    let until =
        Timestamp::from_second((claims.exp + LEEWAY).min(MAX_EXPIRY) as i64).map_err(|_| IdentityError::Malformed)?;
    Ok(UserToken { user_id: claims.sub, until, secret })
}

/// Decodes a part as a JSON object. Non-canonical base64 is rejected, so that each part has exactly one encoding.
fn decode_part<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, IdentityError> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| IdentityError::Malformed)?;
    if json.first() != Some(&b'{') {
        return Err(IdentityError::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| IdentityError::Malformed)
}

fn is_signature(secret: &str, signed: &str, signature: &[u8]) -> bool {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mac| mac.chain_update(signed));
    mac.is_ok_and(|mac| mac.verify_slice(signature).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &str = "a secret";
    const NOW: i64 = 1_700_000_000;

    fn encoded(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Signs a token with exactly this header and these claims.
    fn signed(secret: &str, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&signed);
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    fn with(claims: &Value) -> String {
        signed(SECRET, r#"{"alg":"HS256","typ":"JWT"}"#, &claims.to_string())
    }

    fn verified(token: &str) -> Result<UserToken, IdentityError> {
        verify([SECRET], token, Timestamp::from_second(NOW).unwrap())
    }

    #[test]
    fn published_example_tokens_are_verified() {
        // RFC 7515, A.1. Its key is not text, so only the parts are parsed here; a signature is verified below.
        let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        assert!(decode_part::<serde_json::Map<String, Value>>(claims).is_ok());
        // The example of jwt.io for the secret `your-256-bit-secret`.
        let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(is_signature("your-256-bit-secret", signed, &signature));
        // It has no expiry.
        assert_eq!(
            verify(["your-256-bit-secret"], token, Timestamp::from_second(NOW).unwrap()),
            Err(IdentityError::Malformed)
        );
    }

    #[test]
    fn token_times_have_one_minute_of_leeway() {
        let times = |claims: Value| {
            let mut all = json!({"sub": "ann", "exp": NOW + 3_600});
            all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            verified(&with(&all)).map(|token| token.until.as_second())
        };
        for (claims, expected) in [
            (json!({}), Ok(NOW + 3_660)),
            (json!({"exp": NOW - 59}), Ok(NOW + 1)),
            (json!({"exp": NOW - 60}), Err(IdentityError::Expired)),
            (json!({"exp": -1e300}), Err(IdentityError::Expired)),
            (json!({"exp": NOW as f64 + 0.5}), Ok(NOW + 60)),
            (json!({"exp": 1e300}), Ok(MAX_EXPIRY as i64)),
            (json!({"nbf": NOW + 60}), Ok(NOW + 3_660)),
            (json!({"nbf": NOW + 61}), Err(IdentityError::NotYetValid)),
            (json!({"iat": NOW + 60}), Ok(NOW + 3_660)),
            (json!({"iat": NOW + 61}), Err(IdentityError::NotYetValid)),
            (json!({"nbf": null, "iat": NOW - 9}), Ok(NOW + 3_660)),
            (json!({"exp": null}), Err(IdentityError::Malformed)),
            (json!({"exp": "1900000000"}), Err(IdentityError::Malformed)),
            (json!({"nbf": "1"}), Err(IdentityError::Malformed)),
            (json!({"sub": 7}), Err(IdentityError::Malformed)),
            (json!({"sub": null}), Err(IdentityError::Malformed)),
        ] {
            assert_eq!(times(claims.clone()), expected, "{claims}");
        }
        for without in [json!({"sub": "ann"}), json!({"exp": NOW + 9}), json!({}), json!([])] {
            assert_eq!(verified(&with(&without)), Err(IdentityError::Malformed), "{without}");
        }
    }

    #[test]
    fn algorithms_other_than_hs256_are_refused() {
        let claims = json!({"sub": "ann", "exp": NOW + 9}).to_string();
        for alg in ["none", "None", "hs256", "HS384", "HS512", "RS256", "ES256", ""] {
            let token = signed(SECRET, &json!({"alg": alg}).to_string(), &claims);
            assert_eq!(verified(&token), Err(IdentityError::UnsupportedAlgorithm), "{alg}");
            let (unsigned, _) = token.rsplit_once('.').unwrap();
            assert!(verified(&format!("{unsigned}.")).is_err(), "{alg}");
        }
        for (header, refusal) in [
            (r#"{"alg":"HS256","crit":["exp"]}"#, IdentityError::UnsupportedAlgorithm),
            (r#"{"typ":"JWT"}"#, IdentityError::Malformed),
            (r#"{"alg":"none","alg":"HS256"}"#, IdentityError::Malformed),
            (r#"["HS256"]"#, IdentityError::Malformed),
        ] {
            assert_eq!(verified(&signed(SECRET, header, &claims)), Err(refusal), "{header}");
        }
        let (header, right) = (r#"{"alg":"HS256"}"#, signed(SECRET, r#"{"alg":"HS256"}"#, &claims));
        assert!(verified(&right).is_ok());
        assert_eq!(verified(&format!("{}..", encoded(header))), Err(IdentityError::WrongSignature));
        assert_eq!(verified(&signed("another", header, &claims)), Err(IdentityError::WrongSignature));
        assert_eq!(verified(&signed("", header, &claims)), Err(IdentityError::WrongSignature));
    }

    #[test]
    fn token_with_a_changed_character_is_refused() {
        let token = with(&json!({"sub": "ann", "exp": NOW + 9}));
        assert_eq!(verified(&token).unwrap().user_id, "ann");
        for at in 0..token.len() {
            for other in "ABab01-_.+/= \n".chars().filter(|c| !token[at..].starts_with(*c)) {
                let tampered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
                assert!(verified(&tampered).is_err(), "{tampered}");
            }
            assert!(verified(&format!("{}{}", &token[..at], &token[at + 1..])).is_err());
        }
        for around in [format!(" {token}"), format!("{token}."), format!("{token}="), format!("{token}.{token}")] {
            assert!(verified(&around).is_err(), "{around}");
        }
        for none in ["", ".", "..", "a.b.c"] {
            assert_eq!(verified(none), Err(IdentityError::Malformed));
        }
        let long = with(&json!({"sub": "a".repeat(MAX_BYTES), "exp": NOW + 9}));
        assert_eq!(verified(&long), Err(IdentityError::Malformed));
    }
}
