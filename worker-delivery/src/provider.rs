//! Those who carry messages on. One folder a provider, all with the same rooms: `client`, `config`, `error`.

pub mod apns;
pub mod gateway;
pub mod http;
mod jwt;
pub mod mail_http;
pub mod push;
pub mod push_mailbox;
pub mod push_provider;
pub mod sms;
pub mod smtp;
pub mod stub;
pub mod web_push;

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use lettre::message::Mailbox;
use shared::clock::Clock;
use shared::outbound::HttpClient;
use uuid::Uuid;

use crate::config::Addresses;
use crate::limits::Limits;

/// What providers are made with, beside their settings.
#[derive(Clone)]
pub struct Outside {
    pub http: HttpClient,
    pub addresses: Addresses,
    pub clock: Clock,
    pub apns_tokens: apns::Tokens,
    pub limits: Limits,
}

/// What came of one call to a provider. The texts are for people: the provider's words where it said any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider has the message, under this id.
    Accepted(String),
    /// Not now; `after` is the provider's own wish.
    Throttled { after: Option<Duration>, why: String },
    /// The provider cannot be reached or does not work; it did not take the message.
    Unavailable { after: Option<Duration>, why: String },
    /// This message never.
    Rejected(String),
    /// Nothing goes through with these settings.
    Misconfigured(String),
    /// The message went out whole, and no answer came back.
    Ambiguous(String),
    /// The address is no more.
    Gone(String),
    /// No call was made: the provider has just failed again and again, or asked for a pause.
    Held { after: Duration, why: String },
    /// No call was made: the account takes no more just now.
    Limited { after: Duration, why: String },
}

impl Outcome {
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { after: None, why: why.into() }
    }

    /// As tests and results name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Accepted(_) => "accepted",
            Self::Throttled { .. } => "throttled",
            Self::Unavailable { .. } => "unavailable",
            Self::Rejected(_) => "rejected",
            Self::Misconfigured(_) => "misconfigured",
            Self::Ambiguous(_) => "ambiguous",
            Self::Gone(_) => "gone",
            Self::Held { .. } => "held",
            Self::Limited { .. } => "limited",
        }
    }

    /// What was said; of an acceptance, the id.
    pub fn words(&self) -> &str {
        match self {
            Self::Accepted(text)
            | Self::Rejected(text)
            | Self::Misconfigured(text)
            | Self::Ambiguous(text)
            | Self::Gone(text) => text,
            Self::Throttled { why, .. }
            | Self::Unavailable { why, .. }
            | Self::Held { why, .. }
            | Self::Limited { why, .. } => why,
        }
    }
}

/// The reason of what is too large to be sent.
pub const TOO_LARGE: &str = "payload_too_large";

/// Carries one kind of parcel, by one call each, bounded in time.
pub trait Provider: Send + Sync + 'static {
    type Parcel: Sync;

    /// As the ledger calls it.
    fn name(&self) -> &'static str;

    /// Whether a message that is sent again under its id is recognised, so that nobody gets it twice.
    fn repeats_safely(&self) -> bool {
        false
    }

    fn send(&self, parcel: &Self::Parcel) -> impl Future<Output = Outcome> + Send;

    /// Lets go of what has been idle for long.
    fn reap(&self) {}
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
    /// Where one click takes its reader off the list.
    pub unsubscribe: Option<String>,
}

/// The headers by which mail programs offer one click to unsubscribe (RFC 8058).
pub fn one_click(url: &str) -> [(&'static str, String); 2] {
    [("List-Unsubscribe", format!("<{url}>")), ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned())]
}

/// Who carries a project's mail.
pub enum MailProvider {
    Smtp(Box<smtp::Client>),
    Http(Box<mail_http::Client>),
    Stub(stub::Stub<Email>),
}

impl Provider for MailProvider {
    type Parcel = Email;

    fn name(&self) -> &'static str {
        match self {
            Self::Smtp(_) => "smtp",
            Self::Http(_) => "mailprovider",
            Self::Stub(_) => "stub",
        }
    }

    fn repeats_safely(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    async fn send(&self, email: &Email) -> Outcome {
        match self {
            Self::Smtp(client) => client.send(email).await,
            Self::Http(client) => client.send(email).await,
            Self::Stub(stub) => stub.send(email),
        }
    }

    fn reap(&self) {
        if let Self::Smtp(client) = self {
            client.reap();
        }
    }
}
