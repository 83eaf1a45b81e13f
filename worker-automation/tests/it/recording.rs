//! Events: recorded once, counted exactly, and invalid ones moved to dead letters.

use kernel::ids::{self, EventId, IdSpace, derived_event_id};
use prost::Message as _;
use serde_json::json;
use store_sending::dead_letters::{self, DeadFilter, DeadItem};
use wire::event::{IngestBatch, IngestItem, VERSION, id_bytes};

use crate::fixture::{Fixture, identify, track};

#[tokio::test]
async fn duplicate_event_is_recorded_once() {
    let f = Fixture::start().await;
    let own = track(&f, "u1", "bought", json!({"total": 9.5}));
    let mut derived = track(&f, "u1", "bought", json!({}));
    derived.dedupe_id = id_bytes(derived_event_id(f.project, IdSpace::SecretKey, "order-1"));
    let mut again = derived.clone();
    again.id = id_bytes(ids::fresh(f.now_ms()));
    // Repeats within one message, in the next one, and both at once.
    let own = IngestItem { anonymous_id: Some("a1".into()), ..own };
    f.publish(vec![own.clone(), own.clone(), derived.clone(), again.clone()]).await;
    f.publish(vec![own.clone(), derived]).await;
    f.applied().await;
    f.publish(vec![again, own]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events").await, 2);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM event_count WHERE name = 'bought'").await, 2);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM client_id WHERE event_id IS NOT NULL").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE anonymous_id = 'a1'").await, 1);
    f.stop().await;
}

/// A backend's event with a UUIDv7 gets a row ID derived from it. A public key's event with that ID is a different
/// event.
#[tokio::test]
async fn public_key_event_does_not_suppress_backend_event_with_same_id() {
    let f = Fixture::start().await;
    let public = track(&f, "u1", "bought", json!({}));
    let own = public.row_id().unwrap();
    let mut secret = track(&f, "u1", "bought", json!({}));
    secret.id = id_bytes(ids::own_row_id(f.project, IdSpace::SecretKey, own));
    secret.dedupe_id = id_bytes(own);
    f.publish(vec![public.clone(), secret.clone(), public.clone(), secret.clone()]).await;
    f.applied().await;
    f.publish(vec![secret, public]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE coalesce(client_id, id) = id").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM client_id").await, 0);
    f.stop().await;
}

/// The row ID of a backend's event can be computed from its UUIDv7.
#[tokio::test]
async fn public_key_event_with_a_backend_row_id_does_not_suppress_the_backend_event() {
    let f = Fixture::start().await;
    let own = ids::fresh(f.now_ms());
    let event = |space, id: uuid::Uuid, name| {
        let ids = EventId::new(f.project, space, Some(&id.to_string()), f.now_ms());
        let dedupe_id = ids.derived.map(id_bytes).unwrap_or_default();
        IngestItem { id: id_bytes(ids.row), dedupe_id, ..track(&f, "u1", name, json!({})) }
    };
    let row = ids::own_row_id(f.project, IdSpace::SecretKey, own);
    let (first, backends) = (event(IdSpace::PublicKey, row, "first"), event(IdSpace::SecretKey, own, "bought"));
    f.publish(vec![first.clone()]).await;
    f.applied().await;
    f.publish(vec![backends.clone(), first.clone()]).await;
    f.applied().await;
    f.publish(vec![first, backends]).await;
    f.applied().await;
    for name in ["first", "bought"] {
        assert_eq!(f.number(&format!("SELECT count(*) FROM events WHERE name = '{name}'")).await, 1, "{name}");
    }
    assert_eq!(f.number(&format!("SELECT count(*) FROM events WHERE name = 'bought' AND id = '{row}'")).await, 1);
    assert_eq!(f.number("SELECT count(*) FROM client_id").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn duplicate_profile_update_does_not_restore_an_older_value() {
    let f = Fixture::start().await;
    let mut first = identify(&f, Some("u1"), None, json!({"plan": "a"}));
    first.dedupe_id = first.id.clone();
    let mut second = identify(&f, Some("u1"), None, json!({"plan": "b"}));
    second.dedupe_id = second.id.clone();
    f.publish(vec![first.clone(), second, first.clone()]).await;
    f.applied().await;
    f.publish(vec![first]).await;
    f.applied().await;
    assert_eq!(f.text("SELECT properties->>'plan' FROM users").await.as_deref(), Some("b"));
    f.stop().await;
}

#[tokio::test]
async fn invalid_items_are_dead_lettered_and_others_recorded() {
    let f = Fixture::start().await;
    let mut items: Vec<_> = (0..20).map(|i| track(&f, &format!("u{i}"), "ok", json!({"i": i}))).collect();
    // The gateway would reject these, so here the database must.
    items.insert(7, f.raw_track("u7", "bad", r#"{"a": "\u0000"}"#));
    items.insert(13, f.raw_track("u13", "bad", "{not json"));
    f.publish(items).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'ok'").await, 20);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'bad'").await, 0);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM event_count").await, 20);
    let reasons = f.dead_letters().await;
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.contains("22P0")), "{reasons:?}");
    f.stop().await;
}

#[tokio::test]
async fn undecodable_message_is_dead_lettered() {
    let f = Fixture::start().await;
    f.publish_raw(0, b"\xff\xff\xff not protobuf".to_vec()).await;
    f.publish(vec![track(&f, "u1", "after", json!({}))]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    assert_eq!(f.dead_letters().await.len(), 1);
    f.stop().await;
}

#[tokio::test]
async fn oversized_profile_update_is_skipped_and_blocks_nothing() {
    let f = Fixture::start().await;
    let keys =
        |from: usize| -> serde_json::Map<_, _> { (from..from + 200).map(|i| (format!("k{i}"), json!(i))).collect() };
    f.publish(vec![
        identify(&f, Some("u1"), None, json!(keys(0))),
        identify(&f, Some("u1"), Some("a1"), json!(keys(200))),
        track(&f, "u1", "after", json!({})),
    ])
    .await;
    f.applied().await;
    let size = "SELECT count(*) FROM users u, jsonb_object_keys(u.properties) WHERE u.external_id = 'u1'";
    assert_eq!(f.number(size).await, 200);
    assert_eq!(f.number("SELECT count(*) FROM users WHERE merged_into IS NOT NULL").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    assert_eq!(f.dead_letters().await.len(), 0);
    f.stop().await;
}

#[tokio::test]
async fn events_count_on_the_day_of_their_projects_timezone() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "u", "before", json!({}))]).await;
    f.applied().await;
    // At any time one of the two zones has another date than UTC.
    for (zone, name) in [("Pacific/Kiritimati", "east"), ("Pacific/Niue", "west")] {
        f.execute(&format!(
            "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'project'; \
             INSERT INTO project (project_id, name, timezone, secrets, created_at, updated_at, changed_seq) \
             SELECT '{}', 'p', '{zone}', '', now(), now(), seq FROM change WHERE topic = 'project' \
             ON CONFLICT (project_id) DO UPDATE SET timezone = excluded.timezone; COMMIT",
            f.project
        ))
        .await;
        f.publish(vec![track(&f, "u", name, json!({}))]).await;
        f.applied().await;
        let sql = format!(
            "SELECT count(*) FROM event_count WHERE name = '{name}' AND day = (now() AT TIME ZONE '{zone}')::date"
        );
        assert_eq!(f.number(&sql).await, 1, "{zone}");
    }
    let sql = "SELECT count(*) FROM event_count WHERE name = 'before' AND day = (now() AT TIME ZONE 'UTC')::date";
    assert_eq!(f.number(sql).await, 1);
    f.stop().await;
}

#[tokio::test]
async fn items_of_deleted_projects_are_dropped_without_dead_letters() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "u1", "before", json!({}))]).await;
    f.applied().await;
    f.execute(&format!(
        "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'project'; \
         INSERT INTO project_removal VALUES ('{}', 'Shop', now(), now()); COMMIT",
        f.project
    ))
    .await;
    let poison = f.raw_track("u1", "bad", "{not json");
    f.publish(vec![track(&f, "u1", "after", json!({})), identify(&f, Some("u2"), None, json!({})), poison]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM users").await, 1);
    assert_eq!(f.dead_letters().await, [""; 0]);
    f.stop().await;
}

#[tokio::test]
async fn replayed_dead_item_is_recorded_once() {
    let f = Fixture::start().await;
    let item = track(&f, "u1", "bought", json!({}));
    let partition = item.user_key().unwrap().partition(f.project, 8);
    let payload = IngestBatch { version: VERSION, items: vec![item] }.encode_to_vec();
    let now = f.clock.now();
    let dead = DeadItem {
        project: f.project,
        id: ids::fresh(now.as_millisecond()),
        user_id: None,
        name: "event bought".into(),
        channel: None,
        message_id: None,
        reason: "not_recorded: simulated failure".into(),
        partition: partition as i16,
        subject: f.bus.names.ingest(partition),
        payload,
        created_at: now,
        died_at: now,
    };
    for _ in 0..2 {
        let mut db = f.store.connection().await.unwrap();
        dead_letters::store(&db, &dead).await.unwrap();
        let tx = db.transaction().await.unwrap();
        let replayed = dead_letters::replay(&tx, f.project, &DeadFilter::default(), 10, now).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(replayed.items, 1);
        f.eventually("the outbox is empty", "SELECT count(*) FROM outbox", 0).await;
        f.applied().await;
        assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    }
    f.stop().await;
}
