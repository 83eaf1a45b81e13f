//! Tests for `Prefer: wait=N`.

use std::time::Instant;

use database::ingest_partitions;

use crate::setup::{fixture, secs};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

#[tokio::test]
async fn response_waits_until_items_are_applied() {
    let f = fixture().await;
    let db = f.store.connection().await.unwrap();
    let stream = &f.gateway.app.ingest.stream;
    ingest_partitions::ensure(&db, stream.partitions, stream.created_ms).await.unwrap();

    let waiting = f.gateway.call("POST", "/events", &f.tenant.public).header("prefer", "wait=1");
    let since = Instant::now();
    let response = waiting.send(EVENT).await;
    assert_eq!((response.status, response.header("preference-applied")), (202, Some("wait=1")));
    assert!(since.elapsed() >= secs(1));

    let applied = async {
        let call = f.gateway.call("POST", "/events", &f.tenant.public).header("prefer", "respond-async, wait=10");
        call.send(EVENT).await
    };
    let apply = async {
        // The second event has sequence 2.
        testkit::eventually_true("both are in the stream", secs(5), async || f.gateway.stored().await.len() == 2).await;
        db.execute("UPDATE ingest_partition SET applied_seq = 2", &[]).await.unwrap();
    };
    let since = Instant::now();
    let (response, ()) = tokio::join!(applied, apply);
    assert_eq!(response.status, 202);
    assert!(since.elapsed() < secs(8), "{:?}", since.elapsed());

    let wrong = f.gateway.call("POST", "/events", &f.tenant.public).header("prefer", "wait=11");
    wrong.send(EVENT).await.error(422);
    let none = f.gateway.post("/events", &f.tenant.public, EVENT).await;
    assert_eq!(none.header("preference-applied"), None);
}
