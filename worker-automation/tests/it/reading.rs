//! Reading a partition, whatever becomes of the broker.

use std::time::Duration;

use bytes::Bytes;
use shared::bus::consumer::{Deposed, PartitionReader};
use shared::bus::{Bus, PublishError, Publisher, topology};
use shared::config::BusConfig;
use shared::env::Env;
use testkit::{PrivateNats, eventually};

const WITHIN: Duration = Duration::from_secs(20);

async fn bus(nats: &PrivateNats) -> Bus {
    let url = nats.url();
    let sizes = ["INGEST_MAX_BYTES", "SEND_MAX_BYTES", "DEAD_MAX_BYTES"].map(|name| (name, "67108864"));
    let env = Env::from_pairs([("NATS_URL", url.as_str())].into_iter().chain(sizes));
    let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    bus
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was_after_the_broker_was_away() {
    let mut nats = PrivateNats::start().await;
    let bus = bus(&nats).await;
    let publisher = Publisher::new(bus.clone());
    let mut reader = PartitionReader::new(bus.clone(), 3, 7, 0);
    // What is empty was still on its way when the broker went.
    let mut next = async || loop {
        let delivered = tokio::time::timeout(WITHIN, reader.next()).await.unwrap()?;
        if !delivered.payload.is_empty() {
            return Ok((delivered.seq, delivered.payload));
        }
    };
    let (subject, other) = (bus.names.ingest(3), bus.names.ingest(4));
    for (subject, payload) in [(&subject, "1"), (&other, "2"), (&subject, "3")] {
        publisher.publish(subject.clone(), Bytes::from(payload)).await.unwrap();
    }
    assert_eq!(next().await, Ok((1, Bytes::from("1"))));
    for kill in [true, false] {
        if kill {
            nats.kill().await;
        } else {
            nats.stop().await;
        }
        eventually(WITHIN, async || match publisher.publish(subject.clone(), Bytes::new()).await {
            Err(PublishError::Disconnected) => Ok(()),
            other => Err(other),
        })
        .await;
        nats.start_again().await;
        eventually(WITHIN, || publisher.publish(subject.clone(), Bytes::from("more"))).await;
        if kill {
            assert_eq!(next().await, Ok((3, Bytes::from("3"))));
        }
        assert_eq!(next().await.map(|(_, payload)| payload), Ok(Bytes::from("more")));
    }
    let mut newer = PartitionReader::new(bus, 3, 8, 0);
    assert_eq!(newer.next().await.map(|d| d.seq), Ok(1));
    assert_eq!(next().await, Err(Deposed(3)));
}
