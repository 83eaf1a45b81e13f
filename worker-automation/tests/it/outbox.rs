//! Work that a commit leaves to other programs: queued messages with a hint to delivery, and items in the outbox.

use std::collections::HashSet;
use std::time::Duration;

use bus::{topology, wake};
use database::ingest_partitions::{self, Advance};
use domain::message::{Channel, Lane, Queue};
use futures_util::StreamExt;
use prost::Message as _;
use serde_json::{Value, json};
use uuid::Uuid;
use worker_automation::ingest::batch::Batch;
use worker_automation::ingest::item::Item;
use worker_automation::record::transaction::{Mode, Recorder};

use crate::fixture::{Fixture, track};

const WITHIN: Duration = Duration::from_secs(20);

async fn welcome(f: &Fixture, step: Value) {
    f.automation("signed_up", "always", &[step]).await;
}

#[tokio::test]
async fn new_messages_are_queued_once_and_delivery_is_notified() {
    let f = Fixture::start().await;
    welcome(&f, json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(5)})).await;
    let mut hints = f.bus.client.subscribe(f.bus.names.send_due(Channel::Email)).await.unwrap();
    f.bus.client.flush().await.unwrap();
    let event = track(&f, "u1", "signed_up", json!({}));
    f.publish(vec![event.clone()]).await;
    let hint = tokio::time::timeout(WITHIN, hints.next()).await.expect("a hint").unwrap();
    let queue = Queue { project: f.project, channel: Channel::Email, lane: Lane::Automation };
    assert_eq!(wake::queues(Channel::Email, &hint.payload), [queue]);
    f.publish(vec![event]).await;
    f.applied().await;
    assert_eq!(f.queued().await, f.text("SELECT id::text FROM message").await.as_slice());
    // The broker gets only the hint.
    assert_eq!(f.number("SELECT count(*) FROM outbox").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn outbox_rows_of_a_crashed_worker_are_published_by_the_next() {
    let f = Fixture::without_worker().await;
    welcome(&f, json!({"type": "TRACK_EVENT", "event": "welcomed"})).await;
    let db = f.store.connection().await.unwrap();
    let lease = ingest_partitions::acquire(&db, Uuid::from_u128(1), 1, 60_000).await.unwrap()[0];
    let event = track(&f, "u1", "signed_up", json!({}));
    f.publish_to(lease.partition.unsigned_abs(), vec![event.clone()]).await;
    // Simulates a worker that commits, and dies before it publishes.
    let recorder = Recorder::new(f.store.clone(), f.clock.clone(), f.bus.names.clone(), 1_000);
    let batch = Batch {
        items: vec![Item::decode(event.encode_to_vec().into(), lease.partition, 1).unwrap()],
        steps: vec![Advance { partition: lease.partition, epoch: lease.epoch, from: 0, to: 1, to_ns: 0 }],
    };
    recorder.record(&batch, &HashSet::new(), Mode::Commit).await.unwrap();
    f.execute("UPDATE ingest_partition SET lease_until = clock_timestamp() - interval '1 second'").await;

    let next = f.start_worker();
    f.eventually("the tracked event is recorded", "SELECT count(*) FROM events WHERE name = 'welcomed'", 1).await;
    f.eventually("the outbox is empty", "SELECT count(*) FROM outbox", 0).await;
    next.stop_now().await;
    f.stop().await;
}

#[tokio::test]
async fn rejected_outbox_row_is_retried_until_stored() {
    let f = Fixture::start().await;
    // A worker checks the streams before it records.
    f.publish(vec![track(&f, "u0", "opened", json!({}))]).await;
    f.eventually("the event is recorded", "SELECT count(*) FROM events", 1).await;
    f.bus.jetstream.delete_stream(f.bus.names.send_stream()).await.unwrap();
    let tries = f.bus.client.subscribe(f.bus.names.send_all()).await.unwrap();
    f.bus.client.flush().await.unwrap();
    f.execute(&format!(
        "INSERT INTO outbox (partition, id, subject, payload, created_at) VALUES (0, gen_random_uuid(), '{}', 'x', now() - interval '1 minute')",
        f.bus.names.send(Channel::Email)
    ))
    .await;
    let twice = tokio::time::timeout(WITHIN, tries.take(2).collect::<Vec<_>>()).await.expect("the publish is retried");
    assert_eq!(twice[0].payload, twice[1].payload);
    topology::ensure(&f.bus).await.unwrap();
    f.eventually("the outbox is empty", "SELECT count(*) FROM outbox", 0).await;
    let mut stream = f.bus.jetstream.get_stream(f.bus.names.send_stream()).await.unwrap();
    assert_eq!(stream.info().await.unwrap().state.messages, 1);
    f.stop().await;
}
