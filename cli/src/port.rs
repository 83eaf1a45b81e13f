//! Chooses the gateway's port. Pure.

use anyhow::{Context, Result, bail};

use crate::args::RequestedPort;

/// The gateway's default port.
pub const DEFAULT: u16 = 8080;
const MAX_TRIES: u16 = 200;

/// The chosen port, and why it differs from the expected one, if it does.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    pub port: u16,
    pub note: Option<String>,
}

/// Chooses the gateway's port.
///
/// `before` is the port of an earlier start. `free` returns whether this system can use a port; a port that its own
/// gateway holds counts as free.
///
/// Returns an error if the requested port is taken.
pub fn choose(requested: RequestedPort, before: Option<u16>, free: impl Fn(u16) -> bool) -> Result<Choice> {
    let expected = match requested {
        RequestedPort::Exactly(port) if free(port) => return Ok(Choice { port, note: None }),
        RequestedPort::Exactly(port) => {
            bail!("port {port} is taken by another program: choose another port with PORT=...")
        }
        RequestedPort::Any => before.unwrap_or(DEFAULT),
    };
    let candidates = std::iter::once(expected).chain(DEFAULT..DEFAULT + MAX_TRIES);
    let port = candidates.into_iter().find(|p| free(*p)).context("no free port found for the gateway: set PORT=...")?;
    let note = (port != expected).then(|| format!("port {expected} is taken by another program; using {port}"));
    Ok(Choice { port, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_port_is_chosen_unless_taken() {
        assert_eq!(choose(RequestedPort::Any, None, |_| true).unwrap(), Choice { port: 8080, note: None });
        let next = choose(RequestedPort::Any, None, |p| p > 8081).unwrap();
        assert_eq!(next.port, 8082);
        assert!(next.note.unwrap().contains("8080"));
    }

    #[test]
    fn earlier_port_is_kept_while_it_is_free() {
        assert_eq!(choose(RequestedPort::Any, Some(9000), |_| true).unwrap(), Choice { port: 9000, note: None });
        assert_eq!(choose(RequestedPort::Any, Some(9000), |p| p != 9000).unwrap().port, 8080);
    }

    #[test]
    fn requested_port_is_used_or_an_error() {
        assert_eq!(choose(RequestedPort::Exactly(1234), Some(9000), |_| true).unwrap().port, 1234);
        let error = choose(RequestedPort::Exactly(1234), None, |_| false).unwrap_err().to_string();
        assert!(error.contains("1234"), "{error}");
        assert!(choose(RequestedPort::Any, None, |_| false).is_err());
    }
}
