//! The project's keys, by which push services know it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::vapid::VapidKeys;

use crate::provider::jwt::SigningKey;

/// As whom push services are called.
pub struct WebPushConfig {
    pub key: SigningKey,
    /// Base64url, as browsers subscribed with.
    pub public: String,
    /// An address that push services can turn to: `mailto:` or `https:`.
    pub subject: Option<String>,
}

impl WebPushConfig {
    pub fn new(keys: &VapidKeys, subject: Option<&str>) -> Result<Self, String> {
        let key = SigningKey::es256_from_der(&keys.private).map_err(|e| format!("the project's VAPID key {e}"))?;
        Ok(Self { key, public: URL_SAFE_NO_PAD.encode(&keys.public), subject: subject.map(str::to_owned) })
    }
}
