//! The project's VAPID keys, which identify it to push services.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::vapid::VapidKeys;

use crate::jwt::SigningKey;

/// The identity under which push services are called.
pub struct WebPushConfig {
    pub key: SigningKey,
    /// Base64url; browsers subscribed with this key.
    pub public: String,
    /// Contact for push services: `mailto:` or `https:`.
    pub subject: Option<String>,
}

impl WebPushConfig {
    pub fn new(keys: &VapidKeys, subject: Option<&str>) -> Result<Self, String> {
        let key = SigningKey::es256_from_der(&keys.private).map_err(|e| format!("the project's VAPID key {e}"))?;
        Ok(Self { key, public: URL_SAFE_NO_PAD.encode(&keys.public), subject: subject.map(str::to_owned) })
    }
}
