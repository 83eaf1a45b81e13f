//! `pushProviderAppId` and `pushProviderRestKey`: the customer's own app, or the operator's shared one.

use http_client::BaseUrl;
use store_projects::channels::ChannelSettings;

/// An app at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderApp {
    pub id: String,
    pub rest_key: String,
}

/// Base URL of the provider, and the app to send for.
#[derive(Clone)]
pub struct OneSignalConfig {
    pub base: BaseUrl,
    pub app: ProviderApp,
}

impl OneSignalConfig {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 4] {
        ["pushprovider", self.base.as_str(), &self.app.id, &self.app.rest_key]
    }

    /// Returns `None` if neither the settings nor the operator name an app; an error names the field.
    pub fn from_settings(
        settings: &ChannelSettings,
        shared: Option<&ProviderApp>,
        base: &BaseUrl,
    ) -> Option<Result<Self, String>> {
        let text = |field| settings.text(field).or(settings.secret(field)).map(str::trim).filter(|t| !t.is_empty());
        let app = match (text("pushProviderAppId"), text("pushProviderRestKey")) {
            (None, None) => Ok(shared?.clone()),
            (Some(id), Some(rest_key)) => ProviderApp::new(id, rest_key),
            (None, Some(_)) => Err("pushProviderAppId is missing".to_owned()),
            (Some(_), None) => Err("pushProviderRestKey is missing".to_owned()),
        };
        Some(app.map(|app| Self { base: base.clone(), app }))
    }
}

impl ProviderApp {
    pub fn new(id: &str, rest_key: &str) -> Result<Self, String> {
        if !rest_key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("pushProviderRestKey contains characters that are not allowed in a key".to_owned());
        }
        Ok(Self { id: id.to_owned(), rest_key: rest_key.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(id: &str, key: &str, shared: Option<&ProviderApp>) -> Option<Result<ProviderApp, String>> {
        let settings = ChannelSettings {
            settings: json!({ "pushProviderAppId": id }).as_object().cloned().unwrap(),
            secrets: [("pushProviderRestKey".to_owned(), key.to_owned())].into(),
            ..ChannelSettings::default()
        };
        let config = OneSignalConfig::from_settings(&settings, shared, &"https://api.example.com".parse().unwrap());
        config.map(|config| config.map(|c| c.app))
    }

    #[test]
    fn own_app_takes_precedence_over_the_shared_one() {
        let shared = ProviderApp::new("shared", "k0").unwrap();
        assert_eq!(read("", "", None), None);
        assert_eq!(read("", "", Some(&shared)), Some(Ok(shared.clone())));
        assert_eq!(read("own", " k1 ", Some(&shared)).unwrap().unwrap().rest_key, "k1");
        // Incomplete settings do not fall back to the shared app.
        for (id, key, field) in
            [("own", "", "pushProviderRestKey"), ("", "k", "pushProviderAppId"), ("own", "a b", "pushProviderRestKey")]
        {
            assert!(read(id, key, Some(&shared)).unwrap().unwrap_err().contains(field));
        }
    }
}
