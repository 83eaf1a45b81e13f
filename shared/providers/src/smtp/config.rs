//! Settings of an SMTP server, from `PUT /channels`.

use lettre::Address;
use lettre::message::Mailbox;
use runtime::system_mail::{SystemMail, SystemSecurity};
use serde_json::Value;
use store_projects::channels::ChannelSettings;

use crate::address;

/// How the connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    None,
    /// Plain at first; nothing is sent before the upgrade.
    StartTls,
    Tls,
}

/// Address and credentials of a mail server.
#[derive(Clone, Debug, PartialEq)]
pub struct SmtpConfig {
    /// A host name or an address; certificates are checked against it.
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// User name and password.
    pub credentials: Option<(String, String)>,
    pub from: Mailbox,
}

impl SmtpConfig {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 4] {
        let (username, password) = self.credentials.as_ref().map_or(("", ""), |(name, word)| (name, word));
        ["smtp", &self.host, username, password]
    }

    /// Reads the settings; an error names the field.
    pub fn from_settings(settings: &ChannelSettings) -> Result<Self, String> {
        let text = |field| settings.text(field).map(str::trim).filter(|t| !t.is_empty());
        let host = text("smtpHost").ok_or("smtpHost is missing")?.to_owned();
        let security = match text("smtpSecurity").unwrap_or("starttls").to_ascii_lowercase().as_str() {
            "none" => Security::None,
            "starttls" => Security::StartTls,
            "tls" => Security::Tls,
            other => return Err(format!("smtpSecurity is {other:?}; allowed: none, starttls, tls")),
        };
        let port = match settings.settings.get("smtpPort") {
            None | Some(Value::Null) => match security {
                Security::None => 25,
                Security::StartTls => 587,
                Security::Tls => 465,
            },
            Some(port) => number(port).filter(|p| *p > 0).ok_or_else(|| format!("smtpPort is {port}, not a port"))?,
        };
        let credentials = match (text("smtpUsername"), settings.secret("smtpPassword")) {
            (Some(username), Some(password)) => Some((username.to_owned(), password.to_owned())),
            (Some(_), None) => return Err("smtpPassword is missing".to_owned()),
            (None, _) => None,
        };
        Ok(Self { host, port, security, credentials, from: address::sender(settings)? })
    }
}

impl TryFrom<&SystemMail> for SmtpConfig {
    type Error = String;

    fn try_from(mail: &SystemMail) -> Result<Self, String> {
        let email: Address =
            mail.from_email.parse().map_err(|e| format!("SYSTEM_MAIL_FROM is not an email address: {e}"))?;
        let security = match mail.security {
            SystemSecurity::None => Security::None,
            SystemSecurity::StartTls => Security::StartTls,
            SystemSecurity::Tls => Security::Tls,
        };
        Ok(Self {
            host: mail.host.clone(),
            port: mail.port,
            security,
            credentials: mail.credentials.clone(),
            from: Mailbox::new(mail.from_name.as_deref().and_then(address::display_name), email),
        })
    }
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64().and_then(|n| u16::try_from(n).ok()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(fields: Value, password: Option<&str>) -> ChannelSettings {
        let mut whole = json!({ "emailProvider": "SMTP", "smtpHost": "mail.example.com", "mailproviderFromEmail": "shop@example.com" });
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        ChannelSettings {
            settings: whole.as_object().unwrap().clone(),
            secrets: password.map(|p| ("smtpPassword".to_owned(), p.to_owned())).into_iter().collect(),
            ..ChannelSettings::default()
        }
    }

    fn read(fields: Value) -> Result<SmtpConfig, String> {
        SmtpConfig::from_settings(&settings(fields, None))
    }

    #[test]
    fn the_port_follows_the_security() {
        let port = |fields| read(fields).map(|c| c.port);
        assert_eq!(port(json!({})), Ok(587));
        assert_eq!(port(json!({ "smtpSecurity": "none" })), Ok(25));
        assert_eq!(port(json!({ "smtpSecurity": "tls" })), Ok(465));
        assert_eq!(port(json!({ "smtpSecurity": "tls", "smtpPort": 2465 })), Ok(2465));
        assert_eq!(port(json!({ "smtpPort": "2525" })), Ok(2525));
    }

    #[test]
    fn account_is_identified_by_its_password() {
        let with =
            |password| SmtpConfig::from_settings(&settings(json!({ "smtpUsername": "u" }), Some(password))).unwrap();
        assert_eq!(with("right").account(), with("right").account());
        assert_ne!(with("right").account(), with("wrong").account());
    }

    #[test]
    fn credentials_come_in_pairs() {
        let both = SmtpConfig::from_settings(&settings(json!({ "smtpUsername": "u" }), Some("p"))).unwrap();
        assert_eq!(both.credentials, Some(("u".to_owned(), "p".to_owned())));
        assert_eq!(SmtpConfig::from_settings(&settings(json!({}), Some("p"))).unwrap().credentials, None);
        assert!(read(json!({ "smtpUsername": "u" })).unwrap_err().contains("smtpPassword"));
    }

    #[test]
    fn wrong_settings_are_named() {
        for (field, value) in [
            ("smtpHost", json!("")),
            ("smtpSecurity", json!("ssl")),
            ("smtpPort", json!(70_000)),
            ("smtpPort", json!(0)),
            ("mailproviderFromEmail", json!("no-address")),
            ("mailproviderFromEmail", json!("a@example.com\r\nBcc: b@example.com")),
        ] {
            let error = read(json!({ (field): value })).unwrap_err();
            assert!(error.contains(field), "{field}: {error}");
        }
    }

    #[test]
    fn sender_name_is_cleaned() {
        let from = read(json!({ "emailFromName": "The\r\nShop" })).unwrap().from;
        assert_eq!(from.name.as_deref(), Some("The Shop"));
    }
}
