//! What delivery is to be told: as lasting as what caused it.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use prost::Message as _;
use serde_json::json;
use shared::bus::topology;
use shared::store::ingest_partitions::{self, Advance};
use uuid::Uuid;
use worker_automation::item::Item;
use worker_automation::record::{Batch, Mode, Recorder};

use crate::fixture::{Fixture, track};

const WITHIN: Duration = Duration::from_secs(20);

async fn welcome(f: &Fixture) {
    f.automation("signed_up", "always", &[json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(5)})]).await;
}

/// The message of the ledger is what delivery is told of, and the outbox is empty.
async fn is_handed_over(f: &Fixture) {
    let chunks = f.sent(1).await;
    let told: Vec<_> = chunks.iter().flat_map(|c| &c.refs).map(|r| Uuid::from_slice(&r.message_id).unwrap()).collect();
    let message: Uuid = f.text("SELECT id::text FROM message").await.unwrap().parse().unwrap();
    assert_eq!(told, [message]);
    f.eventually("the outbox is empty", "SELECT count(*) FROM outbox", 0).await;
}

#[tokio::test]
async fn what_a_dead_worker_committed_is_handed_over_by_the_next() {
    let f = Fixture::without_worker().await;
    welcome(&f).await;
    let db = f.store.connection().await.unwrap();
    let lease = ingest_partitions::acquire(&db, Uuid::from_u128(1), 1, 60_000).await.unwrap()[0];
    let event = track(&f, "u1", "signed_up", json!({}));
    f.publish_to(lease.partition.unsigned_abs(), vec![event.clone()]).await;
    // It commits, and dies before it publishes anything.
    let recorder = Recorder::new(f.store.clone(), f.clock.clone(), f.bus.names.clone(), 1_000);
    let batch = Batch {
        items: vec![Item::decode(event.encode_to_vec().into(), lease.partition, 1).unwrap()],
        steps: vec![Advance { partition: lease.partition, epoch: lease.epoch, from: 0, to: 1, to_ns: 0 }],
    };
    recorder.record(&batch, &HashSet::new(), Mode::Commit).await.unwrap();
    f.execute("UPDATE ingest_partition SET lease_until = clock_timestamp() - interval '1 second'").await;

    let next = f.start_worker();
    is_handed_over(&f).await;
    next.stop_now().await;
    f.stop().await;
}

#[tokio::test]
async fn what_the_broker_did_not_take_is_published_until_it_does() {
    let f = Fixture::start().await;
    // Whoever records has made sure of the streams before.
    f.publish(vec![track(&f, "u0", "opened", json!({}))]).await;
    f.eventually("it records", "SELECT count(*) FROM events", 1).await;
    welcome(&f).await;
    f.bus.jetstream.delete_stream(f.bus.names.send_stream()).await.unwrap();
    let tries = f.bus.client.subscribe(f.bus.names.send_all()).await.unwrap();
    f.publish(vec![track(&f, "u1", "signed_up", json!({}))]).await;
    let twice = tokio::time::timeout(WITHIN, tries.take(2).collect::<Vec<_>>()).await.expect("it is tried again");
    assert_eq!(twice[0].payload, twice[1].payload);
    topology::ensure(&f.bus).await.unwrap();
    is_handed_over(&f).await;
    f.stop().await;
}
