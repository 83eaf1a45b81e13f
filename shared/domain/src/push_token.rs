//! Push tokens: their identity, and the contents of a browser's subscription (Push API, RFC 8030, RFC 8291).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use kernel::ids::ProjectId;

/// The platform of a push token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    Ios,
    Android,
    Web,
}

impl Platform {
    pub const ALL: [Self; 3] = [Self::Ios, Self::Android, Self::Web];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ios => "IOS",
            Self::Android => "ANDROID",
            Self::Web => "WEB",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == text)
    }
}

/// Returns the ID of a token in a project, so that a device has one row.
///
/// The endpoint identifies a web subscription, given alone or in JSON of any form.
pub fn id(project: ProjectId, token: &str) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(project.0.as_bytes());
    hash.update(identity(token).as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[derive(Deserialize)]
struct Endpoint {
    endpoint: String,
}

fn identity(token: &str) -> Cow<'_, str> {
    let subscription = token.trim_start().starts_with('{').then(|| serde_json::from_str::<Endpoint>(token).ok());
    subscription.flatten().map_or(Cow::Borrowed(token), |s| Cow::Owned(s.endpoint))
}

/// The push subscription of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The HTTPS URL of the push service.
    pub endpoint: String,
    /// The browser's public key, an uncompressed point of P-256.
    pub p256dh: [u8; 65],
    /// The shared secret.
    pub auth: [u8; 16],
}

#[derive(Deserialize)]
struct Json {
    endpoint: String,
    keys: Keys,
}

#[derive(Deserialize)]
struct Keys {
    p256dh: String,
    auth: String,
}

/// Base64url with or without padding: browsers use both.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const ENDPOINT_MAX: usize = 2_048;

impl Subscription {
    /// Parses the JSON of a subscription. The error describes what is wrong with it.
    pub fn parse(token: &str) -> Result<Self, &'static str> {
        let json: Json = serde_json::from_str(token).map_err(
            |_| "must be the JSON of a subscription: {\"endpoint\": …, \"keys\": {\"p256dh\": …, \"auth\": …}}",
        )?;
        if !is_https(&json.endpoint) {
            return Err("the subscription's endpoint must be an https address of at most 2048 characters");
        }
        let p256dh = decoded(&json.keys.p256dh)
            .filter(|key: &[u8; 65]| key[0] == 4)
            .ok_or("the subscription's keys.p256dh must be an uncompressed P-256 point, 65 bytes in base64url")?;
        let auth = decoded(&json.keys.auth).ok_or("the subscription's keys.auth must be 16 bytes in base64url")?;
        Ok(Self { endpoint: json.endpoint, p256dh, auth })
    }

    /// Returns the stored form, the same for all forms that browsers send.
    pub fn to_json(&self) -> String {
        let keys = json!({ "p256dh": BASE64URL.encode(self.p256dh), "auth": BASE64URL.encode(self.auth) });
        json!({ "endpoint": self.endpoint, "keys": keys }).to_string()
    }
}

fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    BASE64URL.decode(text).ok()?.try_into().ok()
}

fn is_https(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    endpoint.len() <= ENDPOINT_MAX
        && !host.is_empty()
        && !host.contains('@')
        && endpoint.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(1));

    fn subscription(endpoint: &str, p256dh: &str, auth: &str) -> String {
        json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": p256dh, "auth": auth}}).to_string()
    }

    fn point() -> String {
        let mut point = [7; 65];
        point[0] = 4;
        BASE64URL.encode(point)
    }

    #[test]
    fn endpoint_identifies_subscription() {
        let one = subscription("https://push.example/1", "a", "b");
        let other = r#"  {"keys":{"auth":"c","p256dh":"d"},"endpoint":"https://push.example/1"}"#;
        assert_eq!(id(PROJECT, &one), id(PROJECT, other));
        assert_eq!(id(PROJECT, &one), id(PROJECT, "https://push.example/1"));
        assert_ne!(id(PROJECT, &one), id(PROJECT, "https://push.example/2"));
        assert_ne!(id(PROJECT, "t"), id(ProjectId(Uuid::from_u128(2)), "t"));
        assert_ne!(id(PROJECT, "{"), id(PROJECT, "{}"));
    }

    #[test]
    fn subscription_has_one_stored_form() {
        let padded = format!("{}==", BASE64URL.encode([9; 16]));
        let read = Subscription::parse(&subscription("https://push.example/1", &point(), &padded)).unwrap();
        assert_eq!((read.auth, read.p256dh[0]), ([9; 16], 4));
        assert_eq!(Subscription::parse(&read.to_json()).unwrap(), read);
        assert!(!read.to_json().contains('=') && !read.to_json().contains("expirationTime"));
    }

    #[test]
    fn invalid_subscription_is_refused() {
        let (point, auth) = (point(), BASE64URL.encode([9; 16]));
        for (token, why) in [
            ("token".to_owned(), "JSON of a subscription"),
            (json!({"endpoint": "https://a/"}).to_string(), "JSON of a subscription"),
            (subscription("http://push.example/1", &point, &auth), "https"),
            (subscription("https:///1", &point, &auth), "https"),
            (subscription("https://a@b/1", &point, &auth), "https"),
            (subscription("https://a/ 1", &point, &auth), "https"),
            (subscription(&format!("https://a/{}", "x".repeat(2_048)), &point, &auth), "https"),
            (subscription("https://a/1", &auth, &auth), "p256dh"),
            (subscription("https://a/1", &BASE64URL.encode([2; 65]), &auth), "p256dh"),
            (subscription("https://a/1", &point, "x"), "auth"),
            (subscription("https://a/1", &point, &point), "auth"),
        ] {
            let error = Subscription::parse(&token).unwrap_err();
            assert!(error.contains(why), "{token}: {error}");
        }
    }

    #[test]
    fn names_round_trip() {
        assert!(Platform::ALL.iter().all(|p| Platform::parse(p.as_str()) == Some(*p)));
    }
}
