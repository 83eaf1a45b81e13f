//! Reads a partition in spite of broker failures.

use std::time::Duration;

use bus::config::BusConfig;
use bus::consumer::{PartitionReader, ReadError};
use bus::continuity::{PositionCheck, check_position};
use bus::{Bus, PublishError, Publisher, topology};
use bytes::Bytes;
use kernel::env::Env;
use testkit::{PrivateNats, eventually};
use wire::position::Position;

const WITHIN: Duration = Duration::from_secs(20);

async fn bus(nats: &PrivateNats) -> Bus {
    let url = nats.url();
    let sizes = ["INGEST_MAX_BYTES", "SEND_MAX_BYTES", "DEAD_MAX_BYTES"].map(|name| (name, "67108864"));
    let env = Env::from_pairs([("NATS_URL", url.as_str())].into_iter().chain(sizes));
    let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    bus
}

async fn start(bus: &Bus) -> Position {
    let stream_created_ms = topology::ensure(bus).await.unwrap().created_ms;
    Position { stream_created_ms, seq: 0, stored_ns: 0 }
}

#[tokio::test]
async fn reader_resumes_after_a_broker_outage() {
    let mut nats = PrivateNats::start().await;
    let bus = bus(&nats).await;
    let publisher = Publisher::new(bus.clone());
    let start = start(&bus).await;
    let mut reader = PartitionReader::new(bus.clone(), 3, 7, start);
    // An empty payload was in flight when the broker went down.
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
    let mut newer = PartitionReader::new(bus, 3, 8, start);
    assert_eq!(newer.next().await.map(|d| d.seq), Ok(1));
    assert_eq!(next().await, Err(ReadError::Deposed(3)));
}

/// A power failure loses what the broker had not synced, and an older copy of its disk everything newer.
#[tokio::test]
async fn reader_detects_lost_messages_and_returns_the_resume_position() {
    let mut nats = PrivateNats::start().await;
    let bus = bus(&nats).await;
    let publisher = Publisher::new(bus.clone());
    let mut reader = PartitionReader::new(bus.clone(), 3, 7, start(&bus).await);
    let subject = bus.names.ingest(3);
    let publish = async |payload: &'static str| {
        eventually(WITHIN, || publisher.publish(subject.clone(), Bytes::from(payload))).await
    };
    let mut next = async || tokio::time::timeout(WITHIN, reader.next()).await.unwrap();
    publish("1").await;
    publish("2").await;
    nats.stop().await;
    let copy = nats.copy_data();
    nats.start_again().await;
    assert_eq!((publish("lost").await, publish("lost").await), (3, 4));
    let mut last = None;
    for seq in 1..=4 {
        last = Some(next().await.unwrap());
        assert_eq!(last.as_ref().map(|read| read.seq), Some(seq));
        let read = Position { seq, stored_ns: last.as_ref().map_or(0, |read| read.stored_ns), ..start(&bus).await };
        let stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await.unwrap();
        assert_eq!(check_position(&stream, read).await.unwrap(), PositionCheck::Same);
    }

    nats.stop().await;
    nats.start_with_data(&copy).await;
    // More messages than were lost, so the last sequence does not reveal the loss.
    for seq in 3..=5 {
        assert_eq!(publish("new").await, seq);
    }
    assert_eq!(next().await.unwrap_err(), ReadError::StreamTruncated(2));
    let stored_ns = last.unwrap().stored_ns;
    let after = Position { seq: 4, stored_ns, ..start(&bus).await };
    let stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await.unwrap();
    assert_eq!(check_position(&stream, after).await.unwrap(), PositionCheck::Reused);
    assert_eq!(check_position(&stream, Position { seq: 9, ..after }).await.unwrap(), PositionCheck::Missing);
    assert_eq!(PartitionReader::new(bus, 3, 8, after).next().await.unwrap_err(), ReadError::StreamTruncated(2));
}
