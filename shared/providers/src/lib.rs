//! Clients of email, push and SMS providers, one module each. They make calls and classify the outcome; they keep no messages.

pub mod address;
pub mod apns;
pub mod fcm;
pub mod http;
mod jwt;
pub mod onesignal;
pub mod push;
pub mod push_carrier;
pub mod push_mailbox;
pub mod resend;
pub mod sms;
pub mod smtp;
pub mod stub;
pub mod web_push;

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use lettre::message::Mailbox;
use uuid::Uuid;

/// Outcome of one call to a provider. The texts are human-readable, and quote the provider where possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider accepted the message, with this ID.
    Accepted(String),
    /// Temporarily refused; `after` is the provider's `Retry-After`.
    Throttled { after: Option<Duration>, why: String },
    /// The provider is unreachable or failing; it did not accept the message.
    Unavailable { after: Option<Duration>, why: String },
    /// Permanently refused.
    Rejected(String),
    /// Every call fails with these settings.
    Misconfigured(String),
    /// The call was sent completely, but no response arrived.
    Ambiguous(String),
    /// The address no longer exists.
    Gone(String),
    /// No call was made: the provider failed repeatedly, or requested a pause.
    Held { after: Duration, why: String },
    /// No call was made: the account's rate limit is reached, or all sessions are in use.
    Limited { after: Duration, why: String },
}

impl Outcome {
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { after: None, why: why.into() }
    }

    /// Name in status reasons, results and metrics.
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

    /// The text of the outcome; of an acceptance, the ID.
    pub fn text(&self) -> &str {
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

/// Status reason of a message that is too large.
pub const TOO_LARGE: &str = "payload_too_large";

/// Sends one kind of payload, with one call each and a time limit.
pub trait Provider: Send + Sync + 'static {
    type Payload: Sync;

    /// Name in the ledger.
    fn name(&self) -> &'static str;

    /// The provider deduplicates by message ID, so a repeated call is safe.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Waits for a session, if the provider limits them; the permit is held during [`Self::send`]. An error is the outcome.
    fn permit(
        &self,
        _is_urgent: bool,
    ) -> impl Future<Output = Result<Option<smtp::SessionPermit<'_>>, Outcome>> + Send {
        std::future::ready(Ok(None))
    }

    fn send(&self, payload: &Self::Payload) -> impl Future<Output = Outcome> + Send;

    /// Closes idle connections.
    fn reap(&self) {}
}

/// A mail ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Email {
    /// The same at every attempt; the Message-ID contains it.
    pub id: Uuid,
    pub to: Mailbox,
    /// One line.
    pub subject: String,
    pub html: String,
    pub text: String,
    pub date: Timestamp,
    /// One-click unsubscribe link.
    pub unsubscribe: Option<String>,
}

/// Returns the headers for one-click unsubscription (RFC 8058).
pub fn one_click(url: &str) -> [(&'static str, String); 2] {
    [("List-Unsubscribe", format!("<{url}>")), ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned())]
}

/// Mail provider of a project.
pub enum MailProvider {
    Smtp(Box<smtp::Client>),
    Http(Box<resend::Client>),
    Stub(stub::Stub<Email>),
}

impl Provider for MailProvider {
    type Payload = Email;

    fn name(&self) -> &'static str {
        match self {
            Self::Smtp(_) => "smtp",
            Self::Http(_) => "mailprovider",
            Self::Stub(_) => "stub",
        }
    }

    fn is_idempotent(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    async fn permit(&self, is_urgent: bool) -> Result<Option<smtp::SessionPermit<'_>>, Outcome> {
        match self {
            Self::Smtp(client) => client.permit(is_urgent).await.map(Some),
            Self::Http(_) | Self::Stub(_) => Ok(None),
        }
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
