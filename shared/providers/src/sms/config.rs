//! The `sms…` fields of `PUT /channels`.

use http_client::BaseUrl;
use store_projects::channels::ChannelSettings;

/// Base URL, account and sender of an SMS service.
#[derive(Clone)]
pub struct SmsConfig {
    pub base: BaseUrl,
    pub account: String,
    pub token: String,
    /// A number, a short code or an alphanumeric sender ID.
    pub from: String,
}

impl SmsConfig {
    /// Returns what identifies the account. Includes the sender, because the vendor limits each sender.
    pub fn account(&self) -> [&str; 5] {
        ["sms", self.base.as_str(), &self.account, &self.from, &self.token]
    }

    /// Returns `None` if no field is set; an error names the field.
    pub fn from_settings(settings: &ChannelSettings, base: &BaseUrl) -> Option<Result<Self, String>> {
        let text = |field| settings.text(field).or(settings.secret(field)).map(str::trim).filter(|t| !t.is_empty());
        let fields = ["smsAccountId", "smsAuthToken", "smsFromNumber"].map(|field| (field, text(field)));
        fields.iter().any(|(_, value)| value.is_some()).then(|| Self::new(fields, base))
    }

    fn new(fields: [(&str, Option<&str>); 3], base: &BaseUrl) -> Result<Self, String> {
        let missing = fields.iter().find(|(_, value)| value.is_none()).map(|(field, _)| format!("{field} is missing"));
        let [account, token, from] = fields.map(|(_, value)| value.unwrap_or_default());
        missing.map_or(Ok(()), Err)?;
        // It becomes part of the URL.
        if !account.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err("smsAccountId contains characters that are not allowed".to_owned());
        }
        if !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("smsAuthToken contains characters that are not allowed".to_owned());
        }
        let [account, token, from] = [account, token, from].map(str::to_owned);
        Ok(Self { base: base.clone(), account, token, from })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(account: &str, token: &str, from: &str) -> Option<Result<SmsConfig, String>> {
        let settings = ChannelSettings {
            settings: json!({ "smsAccountId": account, "smsFromNumber": from }).as_object().cloned().unwrap(),
            secrets: [("smsAuthToken".to_owned(), token.to_owned())].into(),
            ..ChannelSettings::default()
        };
        SmsConfig::from_settings(&settings, &"https://api.example.com".parse().unwrap())
    }

    #[test]
    fn wrong_settings_are_named() {
        assert!(read("", "", " ").is_none());
        assert_eq!(read(" AC1 ", "t", "+15005550006").unwrap().ok().unwrap().account, "AC1");
        for (account, token, from, field) in [
            ("", "t", "+1", "smsAccountId is missing"),
            ("AC1", "", "+1", "smsAuthToken is missing"),
            ("AC1", "t", "", "smsFromNumber is missing"),
            ("AC1/../AC2", "t", "+1", "smsAccountId"),
            ("AC1", "a b", "+1", "smsAuthToken"),
        ] {
            let error = read(account, token, from).unwrap().err().unwrap();
            assert!(error.contains(field), "{error}");
        }
    }
}
