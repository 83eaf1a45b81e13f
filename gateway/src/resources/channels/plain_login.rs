//! Detects settings that would send a password without TLS.

use domain::message::Channel;
use http_client::OutboundPolicy;
use store_projects::channels::ChannelSettings;

use super::input::Change;
use crate::http::error::ApiError;

/// Default port for SMTP without TLS.
const PORT: u16 = 25;

/// A server that would receive a user name and password without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainLogin {
    host: String,
    port: u16,
}

impl PlainLogin {
    /// Returns `None` if there is no password to send, or the connection uses TLS.
    pub fn of(settings: &ChannelSettings) -> Option<Self> {
        let is_plain = settings.text("smtpSecurity") == Some("none");
        let logs_in = settings.text("smtpUsername").is_some() && settings.secret("smtpPassword").is_some();
        let host = settings.text("smtpHost").filter(|_| is_plain && logs_in)?;
        let port = settings.settings.get("smtpPort").and_then(|port| port.as_u64()?.try_into().ok());
        Some(Self { host: host.to_owned(), port: port.unwrap_or(PORT) })
    }

    /// Whether the changes concern the mail server, and so require a check for a password sent without TLS.
    pub fn is_affected_by(changes: &[Change]) -> bool {
        changes.iter().any(|change| change.channel == Channel::Email && change.name().starts_with("smtp"))
    }

    /// Rejects the server unless the operator has exempted its address.
    pub async fn vet(&self, outbound: &OutboundPolicy) -> Result<(), ApiError> {
        match outbound.allows_plain(&self.host, self.port).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(ApiError::invalid(
                "smtpSecurity",
                "must be starttls or tls if smtpUsername and smtpPassword are set; none is allowed only for addresses that OUTBOUND_ALLOW exempts",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::env::Env;
    use serde_json::{Value, json};

    use super::*;

    fn settings(more: &Value, password: bool) -> ChannelSettings {
        let mut shown = json!({"smtpHost": "127.0.0.1", "smtpUsername": "u", "smtpSecurity": "none"});
        shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ChannelSettings {
            settings: shown.as_object().unwrap().clone(),
            secrets: password.then(|| ("smtpPassword".to_owned(), "p".to_owned())).into_iter().collect(),
            ..ChannelSettings::default()
        }
    }

    #[test]
    fn only_a_password_without_tls_is_a_plain_login() {
        let found = PlainLogin::of(&settings(&json!({}), true)).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("127.0.0.1", PORT));
        assert_eq!(PlainLogin::of(&settings(&json!({"smtpPort": 2525}), true)).unwrap().port, 2525);
        for (more, password) in [
            (json!({}), false),
            (json!({"smtpSecurity": "starttls"}), true),
            (json!({"smtpSecurity": "tls"}), true),
            (json!({"smtpSecurity": null}), true),
            (json!({"smtpUsername": null}), true),
            (json!({"smtpHost": null}), true),
        ] {
            assert_eq!(PlainLogin::of(&settings(&more, password)), None, "{more}");
        }
    }

    #[tokio::test]
    async fn only_exempted_servers_get_a_password_without_tls() {
        let exempting = OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8")])).unwrap();
        for (host, policy, allowed) in [
            ("127.0.0.1", &exempting, true),
            ("8.8.8.8", &exempting, false),
            ("127.0.0.1", &OutboundPolicy::default(), false),
            ("no-such-host.invalid", &exempting, false),
        ] {
            let vetted = PlainLogin { host: host.to_owned(), port: PORT }.vet(policy).await;
            let fields = vetted.map_err(|e| e.details().iter().map(|p| p.field.clone()).collect::<Vec<_>>());
            assert_eq!(fields, if allowed { Ok(()) } else { Err(vec!["smtpSecurity".to_owned()]) }, "{host}");
        }
    }
}
