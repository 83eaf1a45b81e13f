//! Connection settings for NATS and the configuration of the streams, read once.

use anyhow::Context;
use kernel::env::{Env, EnvError};

/// Connection settings for NATS and the configuration of the streams.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// Comma-separated server URLs.
    pub url: String,
    /// A file of CA certificates (PEM) that are trusted instead of the system's.
    pub ca_file: Option<String>,
    pub stream_prefix: String,
    /// Partitions of the ingest stream; fixed when the stream is created.
    pub partitions: u16,
    pub replicas: usize,
    /// Maximum size of each stream, in bytes.
    pub ingest_max_bytes: i64,
    pub send_max_bytes: i64,
    pub dead_max_bytes: i64,
}

impl BusConfig {
    /// Reads `NATS_URL`, `NATS_CA_FILE` (none), `STREAM_PREFIX`, `INGEST_PARTITIONS` (8), `STREAM_REPLICAS` (1),
    /// `INGEST_MAX_BYTES` (4 GiB), `SEND_MAX_BYTES` (1 GiB) and `DEAD_MAX_BYTES` (256 MiB).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let bytes = 1 << 20..=1 << 50;
        let allowed = "a number of bytes, at least 1048576";
        let stream_prefix = env.text("STREAM_PREFIX", "");
        if !stream_prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let (name, problem) = ("STREAM_PREFIX".to_owned(), format!("{stream_prefix:?} contains other characters"));
            return Err(EnvError { name, problem, allowed: "letters, digits and _" });
        }
        let ca_file = env.get("NATS_CA_FILE").map(str::to_owned);
        if let Some(Err(problem)) = ca_file.as_deref().map(tls::read_ca_file) {
            return Err(EnvError { name: "NATS_CA_FILE".to_owned(), problem, allowed: "a file of certificates (PEM)" });
        }
        let replicas = env.bounded("STREAM_REPLICAS", 1, 1..=5, "1, 3 or 5")?;
        if ![1, 3, 5].contains(&replicas) {
            let (name, problem) = ("STREAM_REPLICAS".to_owned(), format!("{replicas} is not an odd number of servers"));
            return Err(EnvError { name, problem, allowed: "1, 3 or 5" });
        }
        let url = env.text("NATS_URL", "nats://127.0.0.1:4222");
        if addresses(&url).is_err() {
            // The value may contain a password, so the error does not repeat it.
            let (name, problem) = ("NATS_URL".to_owned(), "contains an invalid server address".to_owned());
            let allowed = "nats://user:password@host:port, several separated by commas; in a password, write / as %2F, # as %23, @ as %40, : as %3A";
            return Err(EnvError { name, problem, allowed });
        }
        Ok(Self {
            url,
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
        addresses(&self.url).context("NATS_URL")
    }

    /// Returns the URLs without credentials, for messages.
    pub fn redacted_url(&self) -> String {
        self.url.split(',').map(|u| u.rsplit('@').next().unwrap_or(u)).collect::<Vec<_>>().join(",")
    }
}

fn addresses(url: &str) -> std::io::Result<Vec<async_nats::ServerAddr>> {
    url.split(',').map(|address| address.trim().parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_work_on_one_machine() {
        let bus = BusConfig::from_env(&Env::default()).unwrap();
        assert_eq!((bus.partitions, bus.servers().unwrap().len()), (8, 1));
    }

    #[test]
    fn invalid_value_error_names_variable() {
        for (name, value) in
            [("INGEST_PARTITIONS", "0"), ("STREAM_PREFIX", "a.b"), ("INGEST_MAX_BYTES", "10"), ("STREAM_REPLICAS", "2")]
        {
            let error = BusConfig::from_env(&Env::from_pairs([(name, value)])).unwrap_err();
            assert_eq!(error.name, name);
        }
    }

    #[test]
    fn redacted_urls_contain_no_password() {
        let env = Env::from_pairs([("NATS_URL", "nats://u:secret@a:1,nats://b:2")]);
        assert_eq!(BusConfig::from_env(&env).unwrap().redacted_url(), "a:1,nats://b:2");
        for unreadable in ["nats://u:secret/x@a:1", "nats://b:2,nats://u:secret#x@a:1"] {
            let error = BusConfig::from_env(&Env::from_pairs([("NATS_URL", unreadable)])).unwrap_err();
            assert!(error.name == "NATS_URL" && !error.to_string().contains("secret"), "{error}");
        }
    }
}
