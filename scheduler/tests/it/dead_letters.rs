//! Dead letters are moved from the stream to the database, and replayed from there.

use bus::dead_letter;
use database::filter::PageStart;
use jiff::SignedDuration;
use kernel::clock::Clock;
use kernel::ids::UserKey;
use prost::Message as _;
use scheduler::maintenance::dead_letters::collect;
use store_sending::dead_letters::{self, DeadFilter, DeadLetterKind, Replayed};
use store_sending::erasures::{self, Erased};
use testkit::eventually_true;
use uuid::Uuid;
use wire::event::{Body, EncodedBatch, IngestItem, Track, VERSION, id_bytes};

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn dead_item_is_stored_once_and_can_be_replayed() {
    let fixture = Fixture::new().await;
    let app = fixture.app().await;
    let item = IngestItem {
        project_id: id_bytes(fixture.project.0),
        id: id_bytes(Uuid::from_u128(2)),
        user_id: Some("ann".into()),
        received_ms: fixture.clock.now_ms(),
        body: Some(Body::Track(Track { name: "bought".into(), ..Track::default() })),
        ..IngestItem::default()
    };
    let payload = EncodedBatch { version: VERSION, items: vec![item.encode_to_vec().into()] }.encode_to_vec();
    dead_letter::publish(&fixture.bus, "ingest", "item", "refused (22P05)", payload.clone().into()).await.unwrap();
    dead_letter::publish(&fixture.bus, "ingest", "message 7", "not protobuf", vec![255].into()).await.unwrap();
    collect(app.clone()).await.unwrap();
    collect(app.clone()).await.unwrap();
    assert_eq!(in_stream(&fixture).await, 1, "only the letter of an unknown project");

    let mut db = fixture.store.connection().await.unwrap();
    let all = DeadFilter::default();
    let found = dead_letters::list(&mut db, fixture.project, &all, &PageStart::Offset(0), 10).await.unwrap();
    assert_eq!(found.len(), 1);
    let key = UserKey::External("ann");
    assert_eq!((found[0].kind, found[0].name.as_deref()), (DeadLetterKind::Item, Some("event bought")));
    assert_eq!(
        (found[0].user_id, found[0].reason.as_str()),
        (Some(key.internal_id(fixture.project)), "not_recorded: refused (22P05)")
    );

    let tx = db.transaction().await.unwrap();
    let replayed = dead_letters::replay(&tx, fixture.project, &all, 10, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(replayed, Replayed { items: 1, ..Replayed::default() });
    let row = db.query_one("SELECT partition, subject, payload FROM outbox", &[]).await.unwrap();
    let partition = key.partition(fixture.project, app.ingest_stream.partitions);
    assert_eq!(
        (row.get::<_, i16>(0) as u16, row.get::<_, &str>(1)),
        (partition, fixture.bus.names.ingest(partition).as_str())
    );
    assert_eq!(row.get::<_, &[u8]>(2), payload);
    // Dead letters are never replayed automatically.
    collect(app).await.unwrap();
    assert_eq!(dead_letters::total(&db, fixture.project, &all).await.unwrap().count, 0);
}

#[tokio::test]
async fn letter_of_unknown_project_is_deleted_within_a_day() {
    let mut fixture = Fixture::new().await;
    for _ in 0..3 {
        dead_letter::publish(&fixture.bus, "ingest", "message 7", "not protobuf", vec![255].into()).await.unwrap();
    }
    let now = fixture.clock.now();
    for (hours, left) in [(22, 3), (24, 0)] {
        fixture.clock = Clock::manual(now + SignedDuration::from_hours(hours));
        collect(fixture.app().await).await.unwrap();
        // Acknowledgements are asynchronous.
        eventually_true("all letters are acknowledged", SOON, async || {
            let stream = fixture.bus.jetstream.get_stream(fixture.bus.names.dead_stream()).await.unwrap();
            let taken_over = stream.consumer_info(fixture.bus.names.dead_consumer()).await.unwrap();
            taken_over.ack_floor.stream_sequence == 3
        })
        .await;
        assert_eq!(in_stream(&fixture).await, left, "after {hours} h");
    }
}

#[tokio::test]
async fn nothing_is_kept_for_a_deleted_project() {
    let fixture = Fixture::new().await;
    let item = IngestItem {
        project_id: id_bytes(fixture.project.0),
        id: id_bytes(Uuid::from_u128(2)),
        user_id: Some("ann".into()),
        body: Some(Body::Track(Track::default())),
        ..IngestItem::default()
    };
    let payload = EncodedBatch { version: VERSION, items: vec![item.encode_to_vec().into()] }.encode_to_vec();
    dead_letter::publish(&fixture.bus, "ingest", "item", "why", payload.into()).await.unwrap();
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO project_removal VALUES ($1, 'Shop', now(), now())";
    db.execute(sql, &[&fixture.project]).await.unwrap();
    collect(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM dead_item").await, 0);
    assert_eq!(in_stream(&fixture).await, 0);
}

#[tokio::test]
async fn nothing_accepted_before_an_erasure_is_kept() {
    let fixture = Fixture::new().await;
    let at = fixture.clock.now();
    let user = UserKey::External("ann").internal_id(fixture.project);
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    erasures::record(&tx, fixture.project, &[user], erased, false).await.unwrap();
    tx.commit().await.unwrap();
    for (id, received_ms) in [(2, at.as_millisecond()), (3, at.as_millisecond() + 1)] {
        let item = IngestItem {
            project_id: id_bytes(fixture.project.0),
            id: id_bytes(Uuid::from_u128(id)),
            user_id: Some("ann".into()),
            received_ms,
            body: Some(Body::Track(Track { name: format!("event{id}"), ..Track::default() })),
            ..IngestItem::default()
        };
        let payload = EncodedBatch { version: VERSION, items: vec![item.encode_to_vec().into()] }.encode_to_vec();
        dead_letter::publish(&fixture.bus, "ingest", "item", "why", payload.into()).await.unwrap();
    }
    collect(fixture.app().await).await.unwrap();
    let kept = db.query("SELECT name FROM dead_item", &[]).await.unwrap();
    let kept: Vec<String> = kept.iter().map(|row| row.get(0)).collect();
    assert_eq!(kept, ["event event3"]);
    assert_eq!(in_stream(&fixture).await, 0);
}

async fn in_stream(fixture: &Fixture) -> u64 {
    let stream = fixture.bus.jetstream.get_stream(fixture.bus.names.dead_stream()).await.unwrap();
    stream.get_info().await.unwrap().state.messages
}
