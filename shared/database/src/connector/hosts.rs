//! The hosts of a database URL, at most one of which accepts writes.

use std::error::Error as _;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_postgres::config::Host;
use tokio_postgres::{Config, Error};

/// How long a host may stay silent before the next one is tried concurrently: a host that vanished does not answer at
/// all.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// One configuration per host, with the URL's other settings.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    configs: Arc<[Config]>,
    /// The index of the host that was the primary at the last connection.
    last_primary: Arc<AtomicUsize>,
}

impl Hosts {
    pub(super) fn from_config(config: &Config) -> Self {
        let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = names.len().max(addresses.len());
        let fits = |length: usize| length == 0 || length == count;
        // Lists of different lengths are left to the client library, which reports the error.
        let can_be_split =
            count > 1 && fits(names.len()) && fits(addresses.len()) && (ports.len() <= 1 || fits(ports.len()));
        let configs = if can_be_split {
            let one = |nth: usize| {
                let mut one = without_hosts(config);
                match names.get(nth) {
                    Some(Host::Tcp(name)) => _ = one.host(name),
                    #[cfg(unix)]
                    Some(Host::Unix(path)) => _ = one.host_path(path),
                    None => {}
                }
                addresses.get(nth).inspect(|address| _ = one.hostaddr(**address));
                ports.get(nth).or(ports.first()).inspect(|port| _ = one.port(**port));
                one
            };
            (0..count).map(one).collect()
        } else {
            [config.clone()].into()
        };
        Self { configs, last_primary: Arc::default() }
    }

    /// Connects to the host that accepts writes. Tries the last primary first, and each further host once the previous
    /// attempt failed or stayed silent for [`ATTEMPT_DELAY`].
    pub(super) async fn connect<T, F>(&self, connect: impl Fn(Config) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (count, began) = (self.configs.len(), self.last_primary.load(Ordering::Relaxed));
        let mut attempts = FuturesUnordered::new();
        let mut others = (0..count).map(|nth| (began + nth) % count);
        let attempt = |nth: usize| {
            let result = connect(self.configs[nth].clone());
            async move { (nth, result.await) }
        };
        attempts.extend(others.next().map(&attempt));
        let mut failed: Option<Error> = None;
        loop {
            tokio::select! {
                result = attempts.next() => match result {
                    Some((nth, Ok(connected))) => {
                        self.last_primary.store(nth, Ordering::Relaxed);
                        return Ok(connected);
                    }
                    Some((_, Err(error))) => {
                        failed = Some(match failed {
                            Some(earlier) if informativeness(&earlier) >= informativeness(&error) => earlier,
                            _ => error,
                        });
                        attempts.extend(others.next().map(&attempt));
                    }
                    None => match failed {
                        Some(error) => return Err(error),
                        None => std::future::pending().await,
                    },
                },
                () = tokio::time::sleep(ATTEMPT_DELAY), if others.len() > 0 => {
                    attempts.extend(others.next().map(&attempt));
                }
            }
        }
    }
}

/// Ranks errors by how much they explain: a server's refusal above an unreachable host, and a read-only server, which
/// only needs a promotion, highest.
fn informativeness(error: &Error) -> u8 {
    match error {
        error if is_read_only(error) => 2,
        error if error.as_db_error().is_some() => 1,
        _ => 0,
    }
}

/// Returns whether the server accepted the session but is a standby or read-only.
pub fn is_read_only(error: &Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|e| e.kind() == ErrorKind::PermissionDenied && e.to_string().contains("does not allow writes"))
}

/// Copies a configuration without its hosts: the library cannot remove them.
fn without_hosts(from: &Config) -> Config {
    let mut config = Config::new();
    from.get_user().inspect(|user| _ = config.user(*user));
    from.get_password().inspect(|password| _ = config.password(*password));
    from.get_dbname().inspect(|name| _ = config.dbname(*name));
    from.get_options().inspect(|options| _ = config.options(*options));
    from.get_application_name().inspect(|name| _ = config.application_name(*name));
    from.get_connect_timeout().inspect(|time| _ = config.connect_timeout(**time));
    from.get_tcp_user_timeout().inspect(|time| _ = config.tcp_user_timeout(**time));
    from.get_keepalives_interval().inspect(|time| _ = config.keepalives_interval(*time));
    from.get_keepalives_retries().inspect(|count| _ = config.keepalives_retries(*count));
    config
        .ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .target_session_attrs(from.get_target_session_attrs())
        .channel_binding(from.get_channel_binding())
        .load_balance_hosts(from.get_load_balance_hosts());
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<Config> {
        Hosts::from_config(&url.parse().unwrap()).configs.to_vec()
    }

    #[test]
    fn each_host_keeps_its_port_and_the_shared_parameters() {
        let each = hosts("postgres://u:p%40w@one:5433,two,[::1]:5434/d?options=-c%20a%3Db&keepalives_idle=7");
        let same = |host: &str| format!("postgres://u:p%40w@{host}/d?options=-c%20a%3Db&keepalives_idle=7").parse();
        assert_eq!(each, [same("one:5433").unwrap(), same("two:5432").unwrap(), same("[::1]:5434").unwrap()]);
    }

    #[test]
    fn single_host_and_mismatched_lists_are_not_split() {
        for address in ["postgres://u@one/d", "host=one,two port=1,2,3 user=u"] {
            assert_eq!(hosts(address), [address.parse().unwrap()]);
        }
    }
}
