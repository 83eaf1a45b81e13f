//! The configuration that several programs share: one struct a concern, read once.

use std::net::SocketAddr;

use anyhow::Context;

use crate::env::{Env, EnvError};
use crate::tls;

/// `PUBLIC_BASE_URL`: how clients and people reach this installation, without a slash at the end.
pub fn public_base_url(env: &Env, default: &str) -> Result<String, EnvError> {
    const NAME: &str = "PUBLIC_BASE_URL";
    let url = env.text(NAME, default).trim_end_matches('/').to_owned();
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    // It stands in the headers and the links of mails.
    let is_plain = |b: u8| b.is_ascii_graphic() && !b"<>\"?#".contains(&b);
    if host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_plain)) {
        return Ok(url);
    }
    let problem = format!("{url:?} is no such address");
    Err(EnvError { name: NAME.to_owned(), problem, allowed: "an http:// or https:// address" })
}

/// Where Postgres is.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    pub url: String,
    /// Connections of this process at most.
    pub pool_size: usize,
}

impl DatabaseConfig {
    /// `DATABASE_URL` (default `postgres://rekindle@127.0.0.1:5432/rekindle`), `DATABASE_POOL_SIZE` (default 16).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            url: env.text("DATABASE_URL", "postgres://rekindle@127.0.0.1:5432/rekindle"),
            pool_size: env.bounded("DATABASE_POOL_SIZE", 16, 1..=500, "1 to 500")?,
        })
    }
}

/// Where NATS is, and the shape of the streams.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// Comma-separated addresses.
    pub url: String,
    /// A file of certificates (PEM) of authorities that are trusted in the place of the system's.
    pub ca_file: Option<String>,
    pub stream_prefix: String,
    /// Of the ingest stream; fixed when it is made.
    pub partitions: u16,
    pub replicas: usize,
    /// Bytes that each stream may hold.
    pub ingest_max_bytes: i64,
    pub send_max_bytes: i64,
    pub dead_max_bytes: i64,
}

impl BusConfig {
    /// `NATS_URL`, `NATS_CA_FILE` (none), `STREAM_PREFIX`, `INGEST_PARTITIONS` (8), `STREAM_REPLICAS` (1), `INGEST_MAX_BYTES` (4 GiB),
    /// `SEND_MAX_BYTES` (1 GiB), `DEAD_MAX_BYTES` (256 MiB).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let bytes = 1 << 20..=1 << 50;
        let allowed = "a number of bytes, at least 1048576";
        let stream_prefix = env.text("STREAM_PREFIX", "");
        if !stream_prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let (name, problem) = ("STREAM_PREFIX".to_owned(), format!("{stream_prefix:?} has other characters"));
            return Err(EnvError { name, problem, allowed: "letters, digits and _" });
        }
        let ca_file = env.get("NATS_CA_FILE").map(str::to_owned);
        if let Some(Err(problem)) = ca_file.as_deref().map(tls::authorities) {
            return Err(EnvError { name: "NATS_CA_FILE".to_owned(), problem, allowed: "a file of certificates (PEM)" });
        }
        let replicas = env.bounded("STREAM_REPLICAS", 1, 1..=5, "1, 3 or 5")?;
        if ![1, 3, 5].contains(&replicas) {
            let (name, problem) = ("STREAM_REPLICAS".to_owned(), format!("{replicas} is no odd number of servers"));
            return Err(EnvError { name, problem, allowed: "1, 3 or 5" });
        }
        Ok(Self {
            url: env.text("NATS_URL", "nats://127.0.0.1:4222"),
            ca_file,
            stream_prefix,
            partitions: env.bounded("INGEST_PARTITIONS", 8, 1..=256, "1 to 256")?,
            replicas,
            ingest_max_bytes: env.bounded("INGEST_MAX_BYTES", 4 << 30, bytes.clone(), allowed)?,
            send_max_bytes: env.bounded("SEND_MAX_BYTES", 1 << 30, bytes.clone(), allowed)?,
            dead_max_bytes: env.bounded("DEAD_MAX_BYTES", 256 << 20, bytes, allowed)?,
        })
    }

    pub fn servers(&self) -> anyhow::Result<Vec<async_nats::ServerAddr>> {
        self.url
            .split(',')
            .map(|u| u.trim().parse().with_context(|| format!("NATS_URL: {u:?} is no address")))
            .collect()
    }

    /// The addresses without credentials, for messages.
    pub fn url_shown(&self) -> String {
        self.url.split(',').map(|u| u.rsplit('@').next().unwrap_or(u)).collect::<Vec<_>>().join(",")
    }
}

/// Where a process answers `/healthz`, `/readyz` and `/metrics`.
#[derive(Clone, Copy, Debug)]
pub struct AdminConfig {
    pub addr: SocketAddr,
}

impl AdminConfig {
    /// `ADMIN_ADDR`, by default 127.0.0.1 and the program's own port.
    pub fn from_env(env: &Env, default_port: u16) -> Result<Self, EnvError> {
        let default = SocketAddr::from(([127, 0, 0, 1], default_port));
        Ok(Self { addr: env.parse("ADMIN_ADDR", default, "an address such as 127.0.0.1:9101")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_work_on_one_machine() {
        let bus = BusConfig::from_env(&Env::default()).unwrap();
        assert_eq!((bus.partitions, bus.servers().unwrap().len()), (8, 1));
        assert_eq!(DatabaseConfig::from_env(&Env::default()).unwrap().pool_size, 16);
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for (name, value) in
            [("INGEST_PARTITIONS", "0"), ("STREAM_PREFIX", "a.b"), ("INGEST_MAX_BYTES", "10"), ("STREAM_REPLICAS", "2")]
        {
            let error = BusConfig::from_env(&Env::from_pairs([(name, value)])).unwrap_err();
            assert_eq!(error.name, name);
        }
    }

    #[test]
    fn the_public_address_can_stand_in_a_header() {
        let read = |text: &str| public_base_url(&Env::from_pairs([("PUBLIC_BASE_URL", text)]), "http://127.0.0.1:8080");
        for (given, url) in [
            ("", "http://127.0.0.1:8080"),
            ("https://example.com/", "https://example.com"),
            ("http://[::1]:8080/a/b//", "http://[::1]:8080/a/b"),
        ] {
            assert_eq!(read(given).as_deref(), Ok(url));
        }
        for wrong in [
            "ftp://x",
            "example.com",
            "https://",
            "https://a b",
            "https://a>,<mailto:x@y.z",
            "https://a\r\nBcc: x@y.z",
            "https://a\"b",
            "https://a?b",
            "https://a#b",
            "https://ä",
        ] {
            assert_eq!(read(wrong).unwrap_err().name, "PUBLIC_BASE_URL", "{wrong}");
        }
    }

    #[test]
    fn shown_addresses_hold_no_password() {
        let env = Env::from_pairs([("NATS_URL", "nats://u:secret@a:1,nats://b:2")]);
        assert_eq!(BusConfig::from_env(&env).unwrap().url_shown(), "a:1,nats://b:2");
    }
}
