//! Erases users: in the order of their items, under all their IDs, and permanently.

use std::time::Duration;

use database::months::Month;
use kernel::ids::{self, UserKey};
use serde_json::json;
use testkit::eventually_true;
use wire::event::{Body, Erase, IngestItem, RegisterToken, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, timer, track};

pub fn erase(f: &Fixture, user: &str) -> IngestItem {
    let id = UserKey::External(user).internal_id(f.project);
    IngestItem { body: Some(Body::Erase(Erase { user_id: id_bytes(id) })), ..track(f, user, "", json!({})) }
}

/// A removed token leaves a row without user and token.
const DEVICES: &str = "push_token WHERE user_id IS NOT NULL OR token IS NOT NULL";

/// Returns the number of rows with one of the user's IDs, by table.
async fn left(f: &Fixture) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in ["users", "user_search", "events", "run", "timer", "message", DEVICES, "client_id"] {
        counts.push(f.number(&format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

#[tokio::test]
async fn erasure_removes_all_user_data_and_the_user_may_return() {
    let f = Fixture::start().await;
    let template = "00000000-0000-7000-8000-000000000009";
    let steps = [
        json!({"type": "SEND_EMAIL", "templateId": template}),
        json!({"type": "WAIT", "delay": 3600}),
        json!({"type": "SEND_EMAIL", "templateId": template}),
    ];
    f.automation("bought", "always", &steps).await;
    let mut named = track(&f, "u1", "bought", json!({"card": 1}));
    named.dedupe_id = id_bytes(ids::derived_event_id(f.project, ids::IdSpace::SecretKey, "order-1"));
    let token = RegisterToken { platform: "IOS".into(), token: "ab".repeat(32) };
    let token = IngestItem { body: Some(Body::RegisterToken(token)), ..track(&f, "u1", "", json!({})) };
    f.publish(vec![anonymous_track(&f, "a1", "viewed")]).await;
    f.applied().await;
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({"email": "u1@example.com"})), named, token]).await;
    f.applied().await;
    assert_eq!(left(&f).await, [2, 1, 2, 1, 1, 1, 1, 1]);

    // Items before and after the erasure in one message: those after it create a new user.
    let before = track(&f, "u1", "before", json!({}));
    let erasure = erase(&f, "u1");
    let after = track(&f, "u1", "after", json!({}));
    f.publish(vec![before, erasure, after]).await;
    f.applied().await;
    assert_eq!(left(&f).await, [1, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(f.text("SELECT name FROM events").await.as_deref(), Some("after"));
    assert_eq!(f.text("SELECT properties::text FROM users").await.as_deref(), Some("{}"));
    assert_eq!(f.text("SELECT replace(text, chr(1), '|') FROM user_search").await.as_deref(), Some("|u1"));
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 1);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM event_count").await, 1);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM message_count").await, 0);

    // Repeated erasures do not decrement the counts again.
    f.publish(vec![erase(&f, "u1"), erase(&f, "u1")]).await;
    f.applied().await;
    assert_eq!(left(&f).await, [0; 8]);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 0);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM event_count").await, 0);
    f.stop().await;
}

#[tokio::test]
async fn items_accepted_before_an_erasure_are_dropped_and_later_ones_stay() {
    let f = Fixture::start().await;
    f.publish(vec![
        identify(&f, Some("u1"), Some("a1"), json!({"plan": "pro"})),
        track(&f, "other", "viewed", json!({})),
    ])
    .await;
    f.applied().await;
    // The items use other partitions than the user's own, so the stream does not determine their order.
    let late = anonymous_track(&f, "a1", "late");
    let token = RegisterToken { platform: "IOS".into(), token: "ab".repeat(32) };
    let late_token = IngestItem { body: Some(Body::RegisterToken(token)), ..track(&f, "u1", "", json!({})) };
    let erasure = erase(&f, "u1");
    let early = anonymous_track(&f, "a1", "since");
    f.publish(vec![early]).await;
    f.applied().await;
    f.publish(vec![erasure]).await;
    f.applied().await;
    f.publish(vec![late]).await;
    f.publish_to(0, vec![late_token]).await;
    f.applied().await;
    let a1 = UserKey::Anonymous("a1").internal_id(f.project);
    // The event `since` was recorded for the known user, because the IDs were merged then.
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'late'").await, 0);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'since'").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM push_token").await, 0);
    let without_user = "SELECT count(*) FROM events e WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = e.user_id)";
    assert_eq!(f.number(without_user).await, 0);
    assert_eq!(f.number("SELECT count(*) FROM users WHERE properties <> '{}'").await, 0);

    f.publish(vec![anonymous_track(&f, "a1", "later"), track(&f, "other", "viewed", json!({}))]).await;
    f.applied().await;
    let own = format!(
        "SELECT count(*) FROM events e JOIN users u ON u.id = e.user_id WHERE u.id = '{a1}' AND e.name = 'later'"
    );
    assert_eq!(f.number(&own).await, 1);
    assert_eq!(f.number("SELECT count(*) FROM users WHERE merged_into IS NOT NULL").await, 0);
    let users = f.number("SELECT count(*) FROM users").await;
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, users);
    assert_eq!(
        f.number("SELECT sum(count)::bigint FROM event_count").await,
        f.number("SELECT count(*) FROM events").await
    );
    f.stop().await;
}

/// A timer carries the scheduler's time, and an erasure the gateway's: the order in which they are applied says nothing
/// about the order in which they were accepted.
#[tokio::test]
async fn event_tracked_by_a_run_does_not_recreate_an_erased_user() {
    let f = Fixture::start().await;
    let steps = [json!({"type": "WAIT", "delay": 60}), json!({"type": "TRACK_EVENT", "event": "waited"})];
    f.automation("signed_up", "always", &steps).await;
    f.publish(vec![track(&f, "u1", "signed_up", json!({})), track(&f, "u2", "signed_up", json!({}))]).await;
    f.applied().await;
    let run_of = async |user: &str| {
        let sql =
            format!("SELECT r.id::text FROM run r JOIN users u ON u.id = r.user_id WHERE u.external_id = '{user}'");
        f.text(&sql).await.unwrap().parse::<uuid::Uuid>().unwrap()
    };
    let (first, second) = (run_of("u1").await, run_of("u2").await);
    let erasure = erase(&f, "u1");
    f.publish_to(3, vec![timer(&f, first, 1), timer(&f, second, 1), erasure]).await;
    f.eventually("both runs have ended", "SELECT count(*) FROM run WHERE ended_at IS NULL", 0).await;
    f.eventually("the tracked events are published", "SELECT count(*) FROM outbox", 0).await;
    f.applied().await;
    let recorded = "SELECT string_agg(u.external_id || ':' || e.name, ' ') FROM events e LEFT JOIN users u ON u.id = e.user_id \
                    WHERE e.name = 'waited'";
    assert_eq!(f.text(recorded).await.as_deref(), Some("u2:waited"));
    assert_eq!(f.text("SELECT string_agg(external_id, ' ') FROM users").await.as_deref(), Some("u2"));
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 1);
    assert!(f.dead_letters().await.is_empty());
    f.stop().await;
}

#[tokio::test]
async fn event_tracked_by_a_run_belongs_to_its_user() {
    let f = Fixture::start().await;
    let steps = [json!({"type": "WAIT", "delay": 60}), json!({"type": "TRACK_EVENT", "event": "waited"})];
    f.automation("signed_up", "always", &steps).await;
    let own = UserKey::External("u1").internal_id(f.project).to_string();
    // Published one by one, because the two use different partitions.
    f.publish(vec![track(&f, "u1", "signed_up", json!({}))]).await;
    f.applied().await;
    f.publish(vec![track(&f, &own, "named", json!({}))]).await;
    f.applied().await;
    let run = f.text("SELECT id::text FROM run").await.unwrap().parse::<uuid::Uuid>().unwrap();
    f.publish_to(3, vec![track(&f, &own, "named again", json!({})), timer(&f, run, 1)]).await;
    f.eventually("the event was tracked", "SELECT count(*) FROM events WHERE name = 'waited'", 1).await;
    let whose = "SELECT string_agg(e.name || ':' || u.external_id, ' ' ORDER BY e.name) FROM events e \
                 JOIN users u ON u.id = e.user_id WHERE e.name IN ('waited', 'named again')";
    assert_eq!(f.text(whose).await, Some(format!("named again:{own} waited:u1")));
    f.stop().await;
}

#[tokio::test]
async fn erasure_removes_unproven_events_with_the_users_anonymous_id() {
    let f = Fixture::start().await;
    f.publish(vec![anonymous_track(&f, "a1", "viewed")]).await;
    f.applied().await;
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({})), identify(&f, Some("u2"), Some("a2"), json!({}))])
        .await;
    f.applied().await;
    let without_proof = |anonymous: &str| {
        let item = anonymous_track(&f, anonymous, "late");
        IngestItem { unproven: true, received_ms: item.received_ms + 3_600_000, ..item }
    };
    f.publish(vec![without_proof("a1"), without_proof("a2")]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'late'").await, 2);
    let erasure = erase(&f, "u1");
    f.publish(vec![IngestItem { received_ms: erasure.received_ms + 7_200_000, ..erasure }]).await;
    f.applied().await;
    assert_eq!(f.text("SELECT string_agg(anonymous_id, ' ') FROM events").await.as_deref(), Some("a2"));
    f.stop().await;
}

#[tokio::test]
async fn redelivered_erasure_keeps_a_returned_user() {
    let f = Fixture::start().await;
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({"plan": "old"}))]).await;
    f.applied().await;
    let erasure = erase(&f, "u1");
    let later = |item: IngestItem| IngestItem { received_ms: erasure.received_ms + 1_000, ..item };
    f.publish(vec![erasure.clone(), later(identify(&f, Some("u1"), None, json!({"plan": "new"})))]).await;
    f.applied().await;
    let again = IngestItem { id: id_bytes(uuid::Uuid::from_u128(7)), user_id: None, ..erasure };
    f.publish_to(3, vec![again]).await;
    f.applied().await;
    assert_eq!(f.text("SELECT properties->>'plan' FROM users").await.as_deref(), Some("new"));
    assert!(f.dead_letters().await.is_empty());
    f.stop().await;
}

#[tokio::test]
async fn erasure_is_complete_immediately_without_older_rows() {
    let f = Fixture::start().await;
    let old_ms = f.clock.now_ms() - 200 * 86_400_000;
    let month = Month::at(old_ms);
    for table in ["events", "message"] {
        let (from, to) = (month.first_id(), month.end_id());
        f.execute(&format!("CREATE TABLE {table}_old PARTITION OF {table} FOR VALUES FROM ('{from}') TO ('{to}')"))
            .await;
    }
    let names = ["recent", "old", "mailed"];
    f.publish(names.map(|name| track(&f, name, "viewed", json!({}))).into()).await;
    f.applied().await;
    let [_, old, mailed] = names.map(|name| UserKey::External(name).internal_id(f.project));
    let [event, message] = [1, 2].map(|n| ids::timed(old_ms, [n; 10]));
    let (project, at) = (f.project, format!("to_timestamp({old_ms} / 1000.0)"));
    f.execute(&format!(
        "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
         VALUES ('{project}', '{event}', 'viewed', '{old}', '{{}}', {at}, {at})"
    ))
    .await;
    // A direct message can be older than its user.
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, attempt, created_at, updated_at) \
         VALUES ('{project}', '{message}', '{mailed}', 'EMAIL', 'direct', 'failed', 1, {at}, {at})"
    ))
    .await;
    f.publish(names.map(|name| erase(&f, name)).into()).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM erasure").await, 3);
    let mut expected = [old, mailed].map(|id| id.to_string());
    expected.sort();
    let left = "SELECT string_agg(user_id::text, ' ' ORDER BY user_id) FROM erasure WHERE has_left";
    assert_eq!(f.text(left).await, Some(expected.join(" ")));
    f.stop().await;
}

/// A worker that settles a message locks it, and then its row for the frequency cap.
#[tokio::test]
async fn erasure_lock_order_prevents_deadlock_with_delivery() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "u1", "viewed", json!({}))]).await;
    f.applied().await;
    let (project, user) = (f.project, UserKey::External("u1").internal_id(f.project));
    let message = ids::fresh(f.clock.now_ms());
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
         VALUES ('{project}', '{message}', '{user}', 'EMAIL', 'automation', 'queued', now(), now()); \
         INSERT INTO capped_send (project_id, message_id, attempt, user_id, at) VALUES ('{project}', '{message}', 1, '{user}', now())"
    ))
    .await;
    let mut db = f.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    // The wait of this transaction is checked first, so a deadlock fails it.
    tx.batch_execute("SET LOCAL deadlock_timeout = '10ms'").await.unwrap();
    tx.query("SELECT FROM message WHERE id = $1 FOR UPDATE", &[&message]).await.unwrap();
    f.publish(vec![erase(&f, "u1")]).await;
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    eventually_true("the erasure waits for the message", Duration::from_secs(20), async || {
        tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    assert_eq!(tx.execute("DELETE FROM capped_send WHERE message_id = $1", &[&message]).await.unwrap(), 1);
    tx.commit().await.unwrap();
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM message").await, 0);
    f.stop().await;
}
