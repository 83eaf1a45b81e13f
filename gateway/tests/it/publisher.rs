//! Publishing to a real broker: every outcome is classified, including lost connections.

use bus::{Bus, PublishError, Publisher, topology};
use bytes::Bytes;
use testkit::{PrivateNats, TestNats, eventually};

use crate::setup::{MB, bus_config, secs};

#[tokio::test]
async fn rejections_are_classified() {
    let nats = TestNats::create().await;
    let bus = Bus::connect(&bus_config(nats.url(), nats.prefix(), MB), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    let (publisher, subject) = (Publisher::new(bus.clone()), bus.names.ingest(0));
    assert_eq!(publisher.publish(subject.clone(), Bytes::from_static(b"1")).await, Ok(1));

    let once = || publisher.publish_once(subject.clone(), "an id", Bytes::from_static(b"2"));
    assert_eq!((once().await, once().await), (Ok(2), Ok(2)));

    let nowhere = publisher.publish(format!("{}nowhere", nats.prefix()), Bytes::new()).await;
    assert_eq!(nowhere, Err(PublishError::Refused("no stream accepts this subject".to_owned())));

    let most = bus.client.server_info().max_payload;
    let too_large = publisher.publish(subject.clone(), Bytes::from(vec![0; most + 1])).await;
    assert_eq!(too_large, Err(PublishError::TooLarge));

    let half = Bytes::from(vec![0; 600_000]);
    let many = vec![(subject.clone().into(), half.clone()), (bus.names.ingest(1).into(), half)];
    assert_eq!(publisher.publish_all(many).await, [Ok(3), Err(PublishError::Full)]);
}

#[tokio::test]
async fn concurrent_publishes_keep_their_order() {
    let nats = TestNats::create().await;
    let bus = Bus::connect(&bus_config(nats.url(), nats.prefix(), 64 * MB), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    let publisher = Publisher::new(bus.clone());
    let messages = (0..1_000_u16).map(|n| (bus.names.ingest(n % 4).into(), Bytes::new())).collect();
    let expected: Vec<_> = (1..=1_000).map(Ok).collect();
    assert_eq!(publisher.publish_all(messages).await, expected);
}

#[tokio::test]
async fn publishing_recovers_after_a_broker_outage() {
    let mut nats = PrivateNats::start().await;
    let bus = Bus::connect(&bus_config(&nats.url(), "", 64 * MB), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    let (publisher, subject) = (Publisher::new(bus.clone()), bus.names.ingest(0));
    let publish = || publisher.publish(subject.clone(), Bytes::new());
    publish().await.unwrap();
    nats.stop().await;
    eventually(secs(5), async || match publish().await {
        Err(PublishError::Disconnected) => Ok(()),
        other => Err(other),
    })
    .await;
    nats.start_again().await;
    eventually(secs(10), publish).await;
}
