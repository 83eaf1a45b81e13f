//! The `iosPush…` fields of `PUT /channels`.

use http_client::BaseUrl;
use store_projects::channels::ChannelSettings;

use crate::jwt::SigningKey;

const FIELDS: [&str; 4] = ["iosPushKeyId", "iosPushTeamId", "iosPushPrivateKey", "iosPushBundleId"];

/// Settings for APNs: the app, the environment and the signing key.
pub struct ApnsConfig {
    pub base: BaseUrl,
    pub key_id: String,
    pub team_id: String,
    /// The key as configured; distinguishes two keys with the same ID.
    pub key_text: String,
    pub key: SigningKey,
    pub bundle_id: String,
}

impl ApnsConfig {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 5] {
        ["ios", self.base.as_str(), &self.team_id, &self.bundle_id, &self.key_text]
    }

    /// Returns `None` if not all fields are set; an error names the field. `base` replaces the vendor's base URLs.
    pub fn from_settings(settings: &ChannelSettings, base: Option<&BaseUrl>) -> Option<Result<Self, String>> {
        let text = |field| settings.text(field).or(settings.secret(field)).map(str::trim).filter(|t| !t.is_empty());
        let [key_id, team_id, key, bundle_id] = FIELDS.map(text);
        let (key_id, team_id, key, bundle_id) = (key_id?, team_id?, key?, bundle_id?);
        Some(Self::new([key_id, team_id, key, bundle_id], text("iosPushEnvironment"), base))
    }

    fn new(fields: [&str; 4], environment: Option<&str>, base: Option<&BaseUrl>) -> Result<Self, String> {
        let [key_id, team_id, key_text, bundle_id] = fields;
        for (field, value) in FIELDS.into_iter().zip(fields).filter(|(field, _)| *field != "iosPushPrivateKey") {
            if !value.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(format!("{field} contains characters that are not allowed"));
            }
        }
        let vendors = match environment.unwrap_or("production") {
            "production" => "https://api.push.apple.com",
            "sandbox" => "https://api.sandbox.push.apple.com",
            other => return Err(format!("iosPushEnvironment is {other:?}; allowed: production, sandbox")),
        };
        let base = base.cloned().map_or_else(|| vendors.parse(), Ok)?;
        let key = SigningKey::es256_from_pem(key_text).map_err(|e| format!("iosPushPrivateKey {e}"))?;
        let [key_id, team_id, key_text, bundle_id] = [key_id, team_id, key_text, bundle_id].map(str::to_owned);
        Ok(Self { base, key_id, team_id, key_text, key, bundle_id })
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use secrets::vapid::VapidKeys;
    use serde_json::json;

    use super::*;

    fn pem() -> String {
        let der = VapidKeys::generate().unwrap().private;
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
    }

    fn read(more: serde_json::Value, key: &str) -> Option<Result<ApnsConfig, String>> {
        let mut fields = json!({ "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": "DEF123GHIJ", "iosPushBundleId": "com.example.app" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let settings = ChannelSettings {
            settings: fields.as_object().unwrap().clone(),
            secrets: [("iosPushPrivateKey".to_owned(), key.to_owned())].into(),
            ..ChannelSettings::default()
        };
        ApnsConfig::from_settings(&settings, None)
    }

    #[test]
    fn environment_selects_the_url() {
        let base = |more| read(more, &pem()).unwrap().ok().unwrap().base.as_str().to_owned();
        assert_eq!(base(json!({})), "https://api.push.apple.com");
        assert_eq!(base(json!({ "iosPushEnvironment": "sandbox" })), "https://api.sandbox.push.apple.com");
        assert!(read(json!({ "iosPushKeyId": "" }), &pem()).is_none());
    }

    #[test]
    fn wrong_settings_are_named() {
        for (more, key, field) in [
            (json!({ "iosPushEnvironment": "staging" }), pem(), "iosPushEnvironment"),
            (json!({ "iosPushBundleId": "com.example app" }), pem(), "iosPushBundleId"),
            (json!({}), "no key".to_owned(), "iosPushPrivateKey"),
            (json!({}), pem().replace("PRIVATE", "EC PRIVATE"), "iosPushPrivateKey"),
        ] {
            let error = read(more, &key).unwrap().err().unwrap();
            assert!(error.contains(field), "{error}");
        }
    }
}
