//! Why a call got no response, and whether the server may have processed it.

use super::OutboundError;
use kernel::cause::{find, root_message};

/// A call without a response. The messages are shown to users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The policy forbids the address; nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// The server's certificate is not trusted, or the TLS handshake failed; nothing was sent.
    #[error("TLS: {0}")]
    Tls(String),
    /// Nothing was sent, or the server did not process it.
    #[error("{0}")]
    Unreachable(String),
    /// The request was sent, and its outcome is unknown.
    #[error("{0}")]
    Unanswered(String),
}

/// Classifies an error. `send_started` says whether sending had begun.
pub(super) fn failure(error: &hyper_util::client::legacy::Error, send_started: bool) -> CallError {
    let message = root_message(error);
    if let Some(OutboundError::Refused(..)) = find::<OutboundError>(error) {
        return CallError::Refused(message);
    }
    if error.is_connect() && find::<rustls::Error>(error).is_some() {
        return CallError::Tls(message);
    }
    if error.is_connect() || !send_started || find::<h2::Error>(error).is_some_and(was_not_processed) {
        return CallError::Unreachable(message);
    }
    CallError::Unanswered(message)
}

/// Returns whether the server refused the stream, or the stream came after its GOAWAY (RFC 9113, 6.8 and 8.7).
fn was_not_processed(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.reason() == Some(h2::Reason::REFUSED_STREAM)
            || (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR)))
}
