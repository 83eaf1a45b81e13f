//! Why there was no answer, and whether the other side may have acted all the same.

use super::OutboundError;
use kernel::cause::{find, words};

/// A call without an answer. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The address may not be called; nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// The other side is not who it should be; nothing was sent.
    #[error("TLS: {0}")]
    Tls(String),
    /// Nothing was sent, or what was sent was not acted upon.
    #[error("{0}")]
    Unreachable(String),
    /// The request was on its way, and nobody knows what became of it.
    #[error("{0}")]
    Unanswered(String),
}

/// `begun`: the request was on its way.
pub(super) fn failure(error: &hyper_util::client::legacy::Error, begun: bool) -> CallError {
    let words = words(error);
    if let Some(OutboundError::Refused(..)) = find::<OutboundError>(error) {
        return CallError::Refused(words);
    }
    if error.is_connect() && find::<rustls::Error>(error).is_some() {
        return CallError::Tls(words);
    }
    if error.is_connect() || !begun || find::<h2::Error>(error).is_some_and(was_not_acted_upon) {
        return CallError::Unreachable(words);
    }
    CallError::Unanswered(words)
}

/// A stream that the server refused, or one that came after it had said that it was leaving (RFC 9113, 6.8 and 8.7).
fn was_not_acted_upon(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.reason() == Some(h2::Reason::REFUSED_STREAM)
            || (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR)))
}
