//! What a failure means, by what it was and by how far the conversation had come.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::provider::Outcome;

/// How far a conversation has come. Up to the final dot nothing was handed over; from then on nobody can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Finding the server, connecting, greeting, upgrading to TLS.
    Connect,
    Authenticate,
    /// `MAIL FROM`.
    Sender,
    /// `MAIL FROM` with parameters that only this mail needs.
    SenderOfMail,
    /// `RCPT TO` and `DATA`.
    Recipient,
    /// The text of the mail.
    Body,
    /// The line that ends it, and the answer to it.
    Dot,
}

impl Step {
    const ALL: [Self; 7] =
        [Self::Connect, Self::Authenticate, Self::Sender, Self::SenderOfMail, Self::Recipient, Self::Body, Self::Dot];

    /// Whether nothing was said yet but who sends.
    pub fn is_at_sender(self) -> bool {
        matches!(self, Self::Sender | Self::SenderOfMail)
    }
}

/// The step as seen from outside the conversation, for when it is cut off by the clock.
#[derive(Debug, Default)]
pub struct Progress(AtomicU8);

impl Progress {
    pub fn at(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    pub fn step(&self) -> Step {
        let reached = self.0.load(Ordering::Relaxed);
        Step::ALL.into_iter().find(|s| *s as u8 == reached).unwrap_or(Step::Dot)
    }
}

/// What went wrong, apart from when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server said no: code and words.
    Reply(u16, String),
    /// The certificate or the TLS handshake.
    Tls(String),
    /// The server cannot do what the settings or the mail ask for.
    Unable(String),
    /// The host has no address, or one that may not be called.
    Host(String),
    /// The connection: refused, broken, or speaking no SMTP.
    Broken(String),
    Timeout,
}

impl From<&lettre::transport::smtp::Error> for Failure {
    fn from(error: &lettre::transport::smtp::Error) -> Self {
        let words = || error.source().map_or_else(|| error.to_string(), ToString::to_string);
        if let Some(code) = error.status() {
            let code = u16::from(code);
            return Self::Reply(code, format!("{code} {}", words()));
        }
        if error.is_tls() || speaks_of_tls(error) {
            return Self::Tls(words());
        }
        if error.is_client() { Self::Unable(words()) } else { Self::Broken(words()) }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        if is_of_tls(error) { Self::Tls(error.to_string()) } else { Self::Broken(error.to_string()) }
    }
}

/// A failed handshake comes as an I/O error with the TLS library's own inside.
fn speaks_of_tls(error: &lettre::transport::smtp::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<rustls::Error>() || error.downcast_ref::<io::Error>().is_some_and(is_of_tls) {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

/// The server wants other credentials, or any at all (RFC 4954).
fn is_about_credentials(code: u16) -> bool {
    matches!(code, 530 | 534 | 535 | 538)
}

/// What to make of a failure at a step.
pub fn outcome(step: Step, failure: Failure) -> Outcome {
    match (failure, step) {
        (Failure::Reply(400..=499, words), Step::Connect | Step::Authenticate) => Outcome::unavailable(words),
        (Failure::Reply(400..=499, why), _) => Outcome::Throttled { after: None, why },
        (Failure::Reply(code, words), _) if is_about_credentials(code) => Outcome::Misconfigured(words),
        (Failure::Reply(_, words), Step::Connect | Step::Authenticate | Step::Sender) => Outcome::Misconfigured(words),
        // What is refused may be the parameters, and then any other mail still goes through.
        (Failure::Reply(_, words), Step::SenderOfMail | Step::Recipient | Step::Body | Step::Dot) => {
            Outcome::Rejected(words)
        }
        (Failure::Host(why), _) | (Failure::Tls(why) | Failure::Unable(why), Step::Connect | Step::Authenticate) => {
            Outcome::Misconfigured(why)
        }
        // The mail asks for what the server cannot do: an address or a text in Unicode.
        (Failure::Unable(why), Step::Sender | Step::SenderOfMail | Step::Recipient | Step::Body) => {
            Outcome::Rejected(why)
        }
        (Failure::Tls(why) | Failure::Unable(why) | Failure::Broken(why), Step::Dot) => Outcome::Ambiguous(why),
        (Failure::Timeout, Step::Dot) => Outcome::Ambiguous("no answer in time".to_owned()),
        (Failure::Tls(why) | Failure::Broken(why), _) => Outcome::unavailable(why),
        (Failure::Timeout, _) => Outcome::unavailable("no answer in time"),
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
    fn every_failure_at_every_step() {
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
            (Failure::Unable(String::new()), "mmxxxx?"),
            (Failure::Host(String::new()), "mmmmmmm"),
            (Failure::Broken(String::new()), "uuuuuu?"),
            (Failure::Timeout, "uuuuuu?"),
        ] {
            let found: String = Step::ALL.iter().map(|step| kind(&outcome(*step, failure.clone()))).collect();
            assert_eq!(found, kinds, "{failure:?}");
        }
    }

    #[test]
    fn progress_is_seen_from_outside() {
        let progress = Progress::default();
        assert_eq!(progress.step(), Step::Connect);
        for step in Step::ALL {
            progress.at(step);
            assert_eq!(progress.step(), step);
        }
    }
}
