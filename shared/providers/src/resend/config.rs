//! Settings of a mail service, from `PUT /channels`.

use http_client::BaseUrl;
use lettre::message::Mailbox;
use store_projects::channels::ChannelSettings;

use crate::address;

/// Base URL and credentials of a mail service.
#[derive(Clone)]
pub struct MailHttpConfig {
    pub base: BaseUrl,
    pub api_key: String,
    pub from: Mailbox,
}

impl MailHttpConfig {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 3] {
        ["mailprovider", self.base.as_str(), &self.api_key]
    }

    /// Reads the settings; an error names the field.
    pub fn from_settings(settings: &ChannelSettings, base: &BaseUrl) -> Result<Self, String> {
        let api_key = settings.secret("mailproviderApiKey").map(str::trim).filter(|k| !k.is_empty());
        let api_key = api_key.ok_or("mailproviderApiKey is missing")?;
        if !api_key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("mailproviderApiKey contains characters that are not allowed in a key".to_owned());
        }
        Ok(Self { base: base.clone(), api_key: api_key.to_owned(), from: address::sender(settings)? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(key: Option<&str>, from: &str) -> Result<MailHttpConfig, String> {
        let settings = ChannelSettings {
            settings: json!({ "mailproviderFromEmail": from }).as_object().cloned().unwrap(),
            secrets: key.map(|k| ("mailproviderApiKey".to_owned(), k.to_owned())).into_iter().collect(),
            ..ChannelSettings::default()
        };
        MailHttpConfig::from_settings(&settings, &"https://api.example.com".parse().unwrap())
    }

    #[test]
    fn wrong_settings_are_named() {
        assert_eq!(read(Some(" re_1 "), "shop@example.com").ok().unwrap().api_key, "re_1");
        for (key, from, field) in [
            (None, "shop@example.com", "mailproviderApiKey"),
            (Some("a b"), "shop@example.com", "mailproviderApiKey"),
            (Some("re_1"), "", "mailproviderFromEmail"),
            (Some("re_1"), "shop", "mailproviderFromEmail"),
        ] {
            let error = read(key, from).err().unwrap();
            assert!(error.contains(field), "{error}");
        }
    }
}
