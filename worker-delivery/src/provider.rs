//! Those who carry messages on. One folder a provider, all with the same rooms: `client`, `config`, `error`.

pub mod smtp;
pub mod stub;

use std::time::Duration;

use jiff::Timestamp;
use lettre::message::Mailbox;
use shared::store::channels::ChannelSettings;
use uuid::Uuid;

use crate::config::DeliveryConfig;

/// What came of one call to a provider. The texts are for people: the provider's words where it said any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider has the message, under this id.
    Accepted(String),
    /// Not now; `after` is the provider's own wish.
    Retry { after: Option<Duration>, why: String },
    /// This message never.
    Rejected(String),
    /// Nothing goes through with these settings.
    Misconfigured(String),
    /// The message went out whole, and no answer came back.
    Ambiguous(String),
    /// The address is no more.
    Gone(String),
}

/// A mail ready to go.
#[derive(Clone, Debug, PartialEq)]
pub struct Email {
    /// The same at every attempt: the Message-ID is made of it.
    pub id: Uuid,
    pub to: Mailbox,
    /// One line.
    pub subject: String,
    pub html: String,
    pub text: String,
    pub date: Timestamp,
}

/// Who carries a project's mail.
pub enum MailProvider {
    Smtp(smtp::Client),
    Stub(stub::Stub),
}

/// Why a channel's settings name no provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProvider {
    NotConfigured,
    Misconfigured(String),
}

impl MailProvider {
    pub fn from_settings(settings: &ChannelSettings, config: &DeliveryConfig) -> Result<Self, NoProvider> {
        let provider = settings.text("emailProvider").unwrap_or("");
        match provider.to_ascii_uppercase().as_str() {
            "SMTP" => {}
            "" if settings.text("smtpHost").is_some() => {}
            "" => return Err(NoProvider::NotConfigured),
            other => return Err(NoProvider::Misconfigured(format!("the emailProvider {other:?} is not supported"))),
        }
        let smtp = smtp::SmtpConfig::from_settings(settings).map_err(NoProvider::Misconfigured)?;
        Ok(Self::Smtp(smtp::Client::new(smtp, config.outbound.clone())))
    }

    /// As the ledger calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Smtp(_) => "smtp",
            Self::Stub(_) => "stub",
        }
    }

    /// One call, bounded in time.
    pub async fn send(&self, email: &Email) -> Outcome {
        match self {
            Self::Smtp(client) => client.send(email).await,
            Self::Stub(stub) => stub.send(email),
        }
    }
}
