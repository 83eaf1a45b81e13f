//! Maps SMTP failures to outcomes, by the failure and the step that the session had reached.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::Outcome;

/// The step that a session has reached. Before the final dot the server has accepted nothing; after it, whether it has is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Resolving the host, connecting, greeting, upgrading to TLS.
    Connect,
    Authenticate,
    /// `MAIL FROM`.
    Sender,
    /// `MAIL FROM` with parameters that only this mail needs.
    SenderWithParameters,
    /// `RCPT TO` and `DATA`.
    Recipient,
    /// The content of the mail.
    Body,
    /// The line that ends the mail, and the response to it.
    Dot,
}

impl Step {
    const ALL: [Self; 7] = [
        Self::Connect,
        Self::Authenticate,
        Self::Sender,
        Self::SenderWithParameters,
        Self::Recipient,
        Self::Body,
        Self::Dot,
    ];

    /// Whether the session has reached `MAIL FROM`, but not the recipient.
    pub fn is_at_sender(self) -> bool {
        matches!(self, Self::Sender | Self::SenderWithParameters)
    }
}

/// The step as seen from outside of the session, for when the time limit ends it.
#[derive(Debug, Default)]
pub struct Progress(AtomicU8);

impl Progress {
    pub fn reach(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    pub fn step(&self) -> Step {
        let reached = self.0.load(Ordering::Relaxed);
        Step::ALL.into_iter().find(|s| *s as u8 == reached).unwrap_or(Step::Dot)
    }
}

/// What failed, apart from the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server refused: code and text.
    Reply(u16, String),
    /// The certificate or the TLS handshake.
    Tls(String),
    /// The server lacks a capability that the settings or the mail need.
    Unsupported(String),
    /// The host has no address, or one that must not be called.
    Host(String),
    /// The connection was refused, was broken, or does not speak SMTP.
    Broken(String),
    Timeout,
}

impl From<&lettre::transport::smtp::Error> for Failure {
    fn from(error: &lettre::transport::smtp::Error) -> Self {
        let text = || error.source().map_or_else(|| error.to_string(), ToString::to_string);
        if let Some(code) = error.status() {
            let code = u16::from(code);
            return Self::Reply(code, format!("{code} {}", text()));
        }
        if error.is_tls() || contains_tls_error(error) {
            return Self::Tls(text());
        }
        if error.is_client() { Self::Unsupported(text()) } else { Self::Broken(text()) }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        if is_tls_error(error) { Self::Tls(error.to_string()) } else { Self::Broken(error.to_string()) }
    }
}

/// Whether an error is a failed handshake: an I/O error that contains the TLS library's own.
fn contains_tls_error(error: &lettre::transport::smtp::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<rustls::Error>() || error.downcast_ref::<io::Error>().is_some_and(is_tls_error) {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_tls_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

/// Whether the server requires other credentials, or any at all (RFC 4954).
fn is_about_credentials(code: u16) -> bool {
    matches!(code, 530 | 534 | 535 | 538)
}

/// Returns the outcome of a failure at a step.
pub fn outcome(step: Step, failure: Failure) -> Outcome {
    match (failure, step) {
        (Failure::Reply(400..=499, text), Step::Connect | Step::Authenticate) => Outcome::unavailable(text),
        (Failure::Reply(400..=499, why), _) => Outcome::Throttled { after: None, why },
        (Failure::Reply(code, text), _) if is_about_credentials(code) => Outcome::Misconfigured(text),
        (Failure::Reply(_, text), Step::Connect | Step::Authenticate | Step::Sender) => Outcome::Misconfigured(text),
        // The server may have refused only this mail's parameters; other mails may still be accepted.
        (Failure::Reply(_, text), Step::SenderWithParameters | Step::Recipient | Step::Body | Step::Dot) => {
            Outcome::Rejected(text)
        }
        (Failure::Host(why), _)
        | (Failure::Tls(why) | Failure::Unsupported(why), Step::Connect | Step::Authenticate) => {
            Outcome::Misconfigured(why)
        }
        // The mail needs a capability that the server lacks: an address or a text in Unicode.
        (Failure::Unsupported(why), Step::Sender | Step::SenderWithParameters | Step::Recipient | Step::Body) => {
            Outcome::Rejected(why)
        }
        (Failure::Tls(why) | Failure::Unsupported(why) | Failure::Broken(why), Step::Dot) => Outcome::Ambiguous(why),
        (Failure::Timeout, Step::Dot) => Outcome::Ambiguous("no response in time".to_owned()),
        (Failure::Tls(why) | Failure::Broken(why), _) => Outcome::unavailable(why),
        (Failure::Timeout, _) => Outcome::unavailable("no response in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(outcome: &Outcome) -> char {
        match outcome {
            Outcome::Accepted(_) => 'a',
            Outcome::Throttled { .. } => 't',
            Outcome::Unavailable { .. } => 'u',
            Outcome::Held { .. } => 'h',
            Outcome::Limited { .. } => 'l',
            Outcome::Rejected(_) => 'x',
            Outcome::Misconfigured(_) => 'm',
            Outcome::Ambiguous(_) => '?',
            Outcome::Gone(_) => 'g',
        }
    }

    #[test]
    fn failures_map_to_outcomes_by_step() {
        let reply = |code| Failure::Reply(code, String::new());
        // By step: connect, authenticate, sender, sender of a mail with parameters, recipient, body, dot.
        for (failure, kinds) in [
            (reply(421), "uuttttt"),
            (reply(454), "uuttttt"),
            (reply(530), "mmmmmmm"),
            (reply(535), "mmmmmmm"),
            (reply(550), "mmmxxxx"),
            (reply(554), "mmmxxxx"),
            (Failure::Tls(String::new()), "mmuuuu?"),
            (Failure::Unsupported(String::new()), "mmxxxx?"),
            (Failure::Host(String::new()), "mmmmmmm"),
            (Failure::Broken(String::new()), "uuuuuu?"),
            (Failure::Timeout, "uuuuuu?"),
        ] {
            let found: String = Step::ALL.iter().map(|step| kind(&outcome(*step, failure.clone()))).collect();
            assert_eq!(found, kinds, "{failure:?}");
        }
    }

    #[test]
    fn progress_is_visible_to_the_caller() {
        let progress = Progress::default();
        assert_eq!(progress.step(), Step::Connect);
        for step in Step::ALL {
            progress.reach(step);
            assert_eq!(progress.step(), step);
        }
    }
}
