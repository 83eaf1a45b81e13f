//! Creates missing streams, and refuses an incompatible ingest stream.

use std::collections::HashMap;

use anyhow::Context;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType, Stream};

use super::{Bus, Names};
use crate::config::BusConfig;
use kernel::env::EnvError;

const PARTITIONS: &str = "rekindle-partitions";

/// The properties of the ingest stream that programs need.
#[derive(Clone, Debug)]
pub struct IngestStream {
    pub partitions: u16,
    /// When the stream was created, in Unix milliseconds: positions of another stream are invalid in this one.
    pub created_ms: i64,
}

/// Why the streams cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The broker and the configuration are incompatible; waiting does not help.
    #[error(transparent)]
    Incompatible(#[from] EnvError),
    /// The broker does not answer, or is not ready yet.
    #[error("{0:#}")]
    Unavailable(#[from] anyhow::Error),
}

/// Returns the configured streams: ingest, send and dead letters.
pub fn stream_configs(names: &Names, config: &BusConfig) -> [Config; 3] {
    let base = |name: String, subject: String, max_bytes: i64| Config {
        name,
        subjects: vec![subject],
        max_bytes,
        // A full stream refuses new messages and keeps those it accepted.
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: config.replicas,
        ..Config::default()
    };
    let metadata = HashMap::from([(PARTITIONS.to_owned(), config.partitions.to_string())]);
    let ingest = base(names.ingest_stream(), names.ingest_all(), config.ingest_max_bytes);
    let send = base(names.send_stream(), names.send_all(), config.send_max_bytes);
    let dead = base(names.dead_stream(), names.dead_all(), config.dead_max_bytes);
    [
        Config { metadata, ..ingest },
        Config { retention: RetentionPolicy::WorkQueue, ..send },
        // A full dead-letter stream drops its oldest messages: dead letters must never block other messages.
        Config { discard: DiscardPolicy::Old, ..dead },
    ]
}

/// Returns the number of partitions with which an ingest stream was created; `None` for a stream that another program
/// created.
pub fn partitions_of(stream: &Config) -> Option<u16> {
    stream.metadata.get(PARTITIONS).and_then(|number| number.parse().ok())
}

/// Returns when a stream was created, in Unix milliseconds.
pub fn created_ms(stream: &Info) -> i64 {
    (stream.created.unix_timestamp_nanos() / 1_000_000) as i64
}

/// Creates missing streams. Checks the ingest stream's number of partitions and the server's payload limit.
pub async fn ensure(bus: &Bus) -> Result<IngestStream, TopologyError> {
    let server = bus.client.server_info();
    if server.max_payload < 1_000_000 {
        return Err(TopologyError::Incompatible(EnvError {
            name: "NATS_URL".to_owned(),
            problem: format!("this server accepts messages of at most {} bytes", server.max_payload),
            allowed: "a server with a max_payload of at least 1 MB",
        }));
    }
    let [ingest, send, dead] = stream_configs(&bus.names, &bus.config);
    let mut ingest = get_or_create(bus, ingest).await?;
    get_or_create(bus, send).await?;
    get_or_create(bus, dead).await?;

    let (names, config) = (&bus.names, &bus.config);
    let info = ingest.info().await.context("reading the ingest stream's state")?;
    match partitions_of(&info.config) {
        Some(partitions) if partitions == config.partitions => {
            Ok(IngestStream { partitions, created_ms: created_ms(info) })
        }
        found => Err(TopologyError::Incompatible(EnvError {
            name: "INGEST_PARTITIONS".to_owned(),
            problem: format!(
                "{} does not match the stream {}, which has {} partitions",
                config.partitions,
                names.ingest_stream(),
                found.map_or("an unknown number of".to_owned(), |p| p.to_string())
            ),
            allowed: "the number with which the stream was created",
        })),
    }
}

async fn get_or_create(bus: &Bus, config: Config) -> anyhow::Result<Stream> {
    let name = config.name.clone();
    bus.jetstream.get_or_create_stream(config).await.with_context(|| format!("creating the stream {name}"))
}
