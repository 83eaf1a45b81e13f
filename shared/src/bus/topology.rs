//! The streams: made where they are missing, and refused where they are of another shape.

use std::collections::HashMap;

use anyhow::{Context, bail};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};

use super::Bus;

const PARTITIONS: &str = "rekindle-partitions";

/// What the programs need to know of the ingest stream.
#[derive(Clone, Debug)]
pub struct IngestStream {
    pub partitions: u16,
    /// When the stream was made, in Unix milliseconds: positions of another stream mean nothing in this one.
    pub created_ms: i64,
}

/// Makes the streams that are missing, and checks the ingest stream's number of partitions and the server's limits.
pub async fn ensure(bus: &Bus) -> anyhow::Result<IngestStream> {
    let server = bus.client.server_info();
    if server.max_payload < 1_000_000 {
        bail!("NATS refuses messages over {} bytes; set its max_payload to at least 1 MB", server.max_payload);
    }
    let names = &bus.names;
    let config = &bus.config;
    let base = |name: String, subject: String, max_bytes: i64| Config {
        name,
        subjects: vec![subject],
        max_bytes,
        // Full means that nothing more is accepted; what was accepted stays.
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: config.replicas,
        ..Config::default()
    };
    let metadata = HashMap::from([(PARTITIONS.to_owned(), config.partitions.to_string())]);
    let ingest = base(names.ingest_stream(), names.ingest_all(), config.ingest_max_bytes);
    let mut ingest = get_or_create(bus, Config { metadata, ..ingest }).await?;
    let send = base(names.send_stream(), names.send_all(), config.send_max_bytes);
    get_or_create(bus, Config { retention: RetentionPolicy::WorkQueue, ..send }).await?;
    // A full dead-letter stream drops its oldest: what cannot be applied must never hold up what can.
    let dead = base(names.dead_stream(), names.dead_all(), config.dead_max_bytes);
    get_or_create(bus, Config { discard: DiscardPolicy::Old, ..dead }).await?;

    let info = ingest.info().await.context("reading the ingest stream's state")?;
    let partitions = info.config.metadata.get(PARTITIONS).and_then(|p| p.parse::<u16>().ok());
    match partitions {
        Some(partitions) if partitions == config.partitions => {
            Ok(IngestStream { partitions, created_ms: (info.created.unix_timestamp_nanos() / 1_000_000) as i64 })
        }
        found => bail!(
            "the stream {} has {} partitions, INGEST_PARTITIONS says {}; the number is fixed when the stream is made",
            names.ingest_stream(),
            found.map_or("an unknown number of".to_owned(), |p| p.to_string()),
            config.partitions
        ),
    }
}

async fn get_or_create(bus: &Bus, config: Config) -> anyhow::Result<Stream> {
    let name = config.name.clone();
    bus.jetstream.get_or_create_stream(config).await.with_context(|| format!("making the stream {name}"))
}
