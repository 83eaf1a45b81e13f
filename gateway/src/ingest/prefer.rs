//! `Prefer: wait=N` (RFC 7240): delays the response until the accepted items have been applied.

use std::time::Duration;

use tokio::time::Instant;

use super::applied::Position;
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::http::respond::Reply;

/// Maximum wait, in seconds.
const MAX_WAIT: u64 = 10;

/// The wait that a client asked for.
pub struct Wait(Option<u64>);

/// The wait that was applied, for the response headers.
pub struct AppliedWait(Option<u64>);

impl Wait {
    /// Reads the `Prefer` headers. Other preferences are ignored, as the standard requires.
    ///
    /// Fails with 422 if the number of seconds is invalid or too large.
    pub fn from_headers(request: &Request<'_>) -> Result<Self, ApiError> {
        for value in request.headers.get_all("prefer") {
            if let Some(seconds) = value.to_str().ok().and_then(wait_in) {
                let problem = || ApiError::invalid("Prefer", format!("wait must be 0 to {MAX_WAIT} seconds"));
                let seconds = seconds.parse().ok().filter(|s| *s <= MAX_WAIT).ok_or_else(problem)?;
                return Ok(Self(Some(seconds)));
            }
        }
        Ok(Self(None))
    }

    /// Returns the seconds that the client asked for, if any.
    pub fn seconds(&self) -> Option<u64> {
        self.0
    }

    /// Waits, if the client asked for it. On a timeout the items are accepted nevertheless.
    pub async fn until(self, app: &App, positions: &[Position]) -> AppliedWait {
        if let Some(seconds) = self.0 {
            app.ingest.applied.wait(&app.store, positions, Instant::now() + Duration::from_secs(seconds)).await;
        }
        AppliedWait(self.0)
    }
}

impl AppliedWait {
    pub fn add_header(self, reply: Reply) -> Reply {
        match self.0 {
            Some(seconds) => reply.with("preference-applied", format!("wait={seconds}")),
            None => reply,
        }
    }
}

/// Returns the value of `wait` in a list of preferences.
fn wait_in(header: &str) -> Option<&str> {
    header.split(',').find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_preference_is_found_among_others() {
        for (header, expected) in [
            ("wait=5", Some("5")),
            ("respond-async, WAIT = \"10\"; x=y", Some("10")),
            ("return=minimal", None),
            ("wait", None),
        ] {
            assert_eq!(wait_in(header), expected, "{header}");
        }
    }
}
