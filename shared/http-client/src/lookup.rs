//! Resolves names to addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

/// Timeout of a lookup: a part of the connect timeout.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The future of a lookup.
pub(super) type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The resolver: the system's, or in tests one whose answers change.
#[derive(Clone, Copy)]
pub(super) struct Lookup(pub(super) fn(&str, u16) -> LookupFuture);

impl Default for Lookup {
    fn default() -> Self {
        Self(|host, port| {
            let host = host.to_owned();
            Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.map(|a| a.ip()).collect()) })
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

impl Lookup {
    /// Returns all addresses of a name, or the reason for the failure, within 5 s.
    pub(super) async fn of(self, host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
        within((self.0)(host, port), LOOKUP_TIMEOUT).await
    }
}

/// Limits a lookup's time. It may continue in the background: the system's resolver cannot be cancelled.
async fn within(lookup: impl Future<Output = io::Result<Vec<IpAddr>>>, limit: Duration) -> Result<Vec<IpAddr>, String> {
    match tokio::time::timeout(limit, lookup).await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs_f64())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lookup_times_out() {
        let silent = within(std::future::pending(), Duration::from_millis(10)).await;
        assert_eq!(silent, Err("no answer within 0.01 s".to_owned()));
        let none = within(async { Err(io::Error::other("no such host")) }, LOOKUP_TIMEOUT).await;
        assert_eq!(none, Err("no such host".to_owned()));
    }
}
