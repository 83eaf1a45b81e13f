//! Which addresses a name has.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

/// For finding a host: a share of what connecting to it may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What a lookup comes to.
pub(super) type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Who is asked: the system, but in tests of names that point elsewhere each time.
#[derive(Clone, Copy)]
pub(super) struct Lookup(pub(super) fn(&str, u16) -> Found);

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
    /// All addresses of a name, or why there are none, after 5 s at most.
    pub(super) async fn of(self, host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
        within((self.0)(host, port), LIMIT).await
    }
}

/// What a lookup finds within its time. It may go on for longer: the system's resolver cannot be called off.
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
    async fn a_name_that_nobody_answers_for_is_given_up() {
        let silent = within(std::future::pending(), Duration::from_millis(10)).await;
        assert_eq!(silent, Err("no answer within 0.01 s".to_owned()));
        let none = within(async { Err(io::Error::other("no such host")) }, LIMIT).await;
        assert_eq!(none, Err("no such host".to_owned()));
    }
}
