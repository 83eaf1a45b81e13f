//! Provider webhooks update messages; all others are stored as events.

use bytes::Bytes;
use domain::message::{Channel, Lane, Queue};
use jiff::SignedDuration;
use kernel::ids::{self, UserKey};
use serde_json::{Value, json};
use store_sending::erasures;
use store_sending::send_chunks::{self, NewChunk};
use uuid::Uuid;
use wire::event::{Body, IngestItem, Webhook};

use crate::fixture::{Fixture, track};

fn webhook(f: &Fixture, user: Option<&str>, kind: &str, data: &Value) -> IngestItem {
    let body = Webhook { kind: kind.into(), data: Bytes::from(data.to_string()) };
    IngestItem { user_id: user.map(str::to_owned), body: Some(Body::Webhook(body)), ..track(f, "", "", json!({})) }
}

/// Inserts a message with this status.
async fn message(f: &Fixture, status: &str) -> Uuid {
    let id = ids::fresh(f.clock.now_ms());
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, attempt, created_at, updated_at) \
         VALUES ('{}', '{id}', '{}', 'PUSH', 'direct', '{status}', 1, now(), now())",
        f.project,
        Uuid::nil()
    ))
    .await;
    id
}

/// Returns the message's status, and which of its times are set.
async fn state(f: &Fixture, id: Uuid) -> String {
    let sql = format!(
        "SELECT status || coalesce(': ' || status_reason, '') || CASE WHEN delivered_at IS NULL THEN '' ELSE ' D' END \
         || CASE WHEN opened_at IS NULL THEN '' ELSE ' O' END || CASE WHEN clicked_at IS NULL THEN '' ELSE ' C' END \
         || CASE WHEN bounced_at IS NULL THEN '' ELSE ' B' END FROM message WHERE id = '{id}'"
    );
    f.text(&sql).await.unwrap()
}

#[tokio::test]
async fn reports_move_a_message_only_forward() {
    let f = Fixture::start().await;
    let (sent, bounced, other) = (message(&f, "sent").await, message(&f, "sent").await, message(&f, "sent").await);
    let about = |id: Uuid| json!({"messageId": id, "reason": "mailbox full"});
    f.publish_to(1, vec![webhook(&f, None, "message.opened", &about(sent))]).await;
    f.applied().await;
    assert_eq!(state(&f, sent).await, "opened: mailbox full O");
    f.publish_to(
        2,
        vec![
            webhook(&f, None, "message.delivered", &about(sent)),
            webhook(&f, None, "message.bounced", &about(bounced)),
            webhook(&f, None, "message.delivered", &about(bounced)),
            webhook(&f, None, "message.delivered", &about(Uuid::from_u128(7))),
            webhook(&f, None, "message.delivered", &json!({"messageId": "none"})),
        ],
    )
    .await;
    f.applied().await;
    assert_eq!(state(&f, sent).await, "opened: mailbox full D O");
    assert_eq!(state(&f, bounced).await, "bounced: mailbox full D B");
    assert_eq!(state(&f, other).await, "sent");
    let counted = "SELECT string_agg(status || sum, ' ' ORDER BY status) FROM \
                   (SELECT status, sum(count) FROM message_status_count WHERE channel = 'PUSH' GROUP BY status) counts";
    assert_eq!(f.text(counted).await.as_deref(), Some("bounced1 delivered2 opened1"));
    // They create no events and no users.
    assert_eq!(f.number("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM users)").await, 0);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn clicks_in_a_campaigns_messages_are_counted_by_link_and_once() {
    let f = Fixture::start().await;
    let (of_campaign, other) = (message(&f, "sent").await, message(&f, "sent").await);
    f.execute(&format!("UPDATE message SET campaign_id = '{}' WHERE id = '{of_campaign}'", Uuid::from_u128(5))).await;
    let click = |id: Uuid, url: Value| webhook(&f, None, "message.clicked", &json!({"messageId": id, "url": url}));
    let first = IngestItem { dedupe_id: vec![9; 16].into(), ..click(of_campaign, json!("https://a.b/")) };
    f.publish_to(
        1,
        vec![first.clone(), click(of_campaign, json!("https://a.b/c")), click(other, json!("https://a.b/"))],
    )
    .await;
    f.applied().await;
    f.publish_to(1, vec![first, click(of_campaign, json!("https://a.b/"))]).await;
    f.publish_to(1, vec![click(of_campaign, json!(7)), click(of_campaign, json!("x".repeat(1_501)))]).await;
    f.publish_to(
        1,
        vec![webhook(&f, None, "message.opened", &json!({"messageId": of_campaign, "url": "https://a.b/"}))],
    )
    .await;
    f.applied().await;
    let counted = "SELECT string_agg(url || ' ' || clicks, ', ' ORDER BY url) FROM campaign_click JOIN campaign_link USING (project_id, campaign_id, link)";
    assert_eq!(f.text(counted).await.as_deref(), Some("https://a.b/ 2, https://a.b/c 1"));
    assert_eq!(f.number("SELECT count(*) FROM campaign_click").await, 2);
    assert_eq!(state(&f, of_campaign).await, "clicked O C");
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    // A URL that only an erased user clicked may be personal and is removed. One that another user clicked stays.
    f.execute(
        "INSERT INTO campaign_click SELECT project_id, campaign_id, gen_random_uuid(), link, gen_random_uuid(), NULL, 1 \
         FROM campaign_link WHERE url = 'https://a.b/c'",
    )
    .await;
    let mut db = f.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    erasures::remove_users(&tx, f.project, &[Uuid::nil()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(f.text(counted).await.as_deref(), Some("https://a.b/c 1"));
    assert_eq!(f.text("SELECT string_agg(url, ' ') FROM campaign_link").await.as_deref(), Some("https://a.b/c"));
    f.stop().await;
}

#[tokio::test]
async fn device_events_update_the_push_message() {
    let f = Fixture::start().await;
    let id = message(&f, "sent").await;
    let user = UserKey::External("u").internal_id(f.project);
    f.execute(&format!("UPDATE message SET user_id = '{user}' WHERE id = '{id}'")).await;
    f.publish(vec![
        track(&f, "u", "push_received", json!({"messageId": id})),
        track(&f, "u", "push_received", json!({"messageId": 5})),
        track(&f, "u", "clicked", json!({"messageId": id})),
    ])
    .await;
    f.applied().await;
    assert_eq!(state(&f, id).await, "delivered D");
    f.publish(vec![track(&f, "u", "push_opened", json!({"messageId": id}))]).await;
    f.applied().await;
    assert_eq!(state(&f, id).await, "opened D O");
    assert_eq!(f.number("SELECT count(*) FROM events").await, 4);
    f.stop().await;
}

#[tokio::test]
async fn unknown_message_ids_of_other_months_are_ignored() {
    let f = Fixture::start().await;
    let id = message(&f, "sent").await;
    let user = UserKey::External("u").internal_id(f.project);
    f.execute(&format!("UPDATE message SET user_id = '{user}' WHERE id = '{id}'")).await;
    // IDs with years from 1970 to 9812.
    let made_up = (0..100).map(|n| ids::timed(n * 2_500_000_000_000, [1; 10]));
    let opened = made_up.chain([id]).map(|id| track(&f, "u", "push_opened", json!({"messageId": id})));
    f.publish(opened.collect()).await;
    f.applied().await;
    assert_eq!(state(&f, id).await, "opened O");
    assert_eq!(f.number("SELECT count(*) FROM events").await, 101);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn a_receipt_that_precedes_the_outcome_sets_the_state_and_leaves_the_chunk_to_its_worker() {
    let f = Fixture::start().await;
    let id = message(&f, "queued").await;
    let (now, lease) = (f.clock.now(), SignedDuration::from_mins(1));
    let queue = Queue { project: f.project, channel: Channel::Push, lane: Lane::Direct };
    let db = f.store.connection().await.unwrap();
    send_chunks::insert(&db, &[NewChunk::begun(queue, vec![id], lease)], now).await.unwrap();
    f.publish_to(1, vec![webhook(&f, None, "message.delivered", &json!({"messageId": id}))]).await;
    f.applied().await;
    assert_eq!(state(&f, id).await, "delivered D");
    assert_eq!(f.number("SELECT count(*) FROM send_chunk WHERE is_begun AND done = B'0'").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn other_webhook_kinds_are_recorded_and_start_automations() {
    let f = Fixture::start().await;
    let automation = f.automation("payment.failed", "always", &[json!({"type": "WAIT", "delay": 60})]).await;
    f.execute(&format!(
        "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'automation'; UPDATE automation SET \
         definition = jsonb_set(definition, '{{triggerType}}', '\"WEBHOOK\"'), \
         changed_seq = (SELECT seq FROM change WHERE topic = 'automation') WHERE id = '{automation}'; COMMIT"
    ))
    .await;
    let repeated =
        IngestItem { dedupe_id: vec![9; 16].into(), ..webhook(&f, Some("u"), "payment.failed", &json!({"n": 1})) };
    f.publish(vec![repeated.clone(), track(&f, "u", "payment.failed", json!({"n": 2})), repeated]).await;
    f.publish_to(0, vec![webhook(&f, None, "payment.failed", &json!({"n": 3}))]).await;
    f.publish_to(0, vec![webhook(&f, None, "message.unsubscribed", &json!({"messageId": "x"}))]).await;
    f.applied().await;
    // One run: only by the webhook that names a user, and only once. Events of that name and webhooks without a user
    // start none.
    assert_eq!(f.number("SELECT count(*) FROM run").await, 1);
    assert_eq!(f.number("SELECT (context->'properties'->>'n')::bigint FROM run").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'payment.failed'").await, 3);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE user_id = '00000000-0000-0000-0000-000000000000'").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM users").await, 1);
    assert_eq!(f.number("SELECT coalesce(sum(count), 0)::bigint FROM event_count").await, 4);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn message_reports_start_automations_of_the_recipient() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "u", "x", json!({}))]).await;
    f.applied().await;
    let user = Uuid::parse_str(&f.text("SELECT id::text FROM users").await.unwrap()).unwrap();
    let (first, second, unattributed) =
        (message(&f, "sent").await, message(&f, "sent").await, message(&f, "sent").await);
    f.execute(&format!("UPDATE message SET user_id = '{user}' WHERE id IN ('{first}', '{second}')")).await;
    let wait = [json!({"type": "WAIT", "delay": 60})];
    let by_webhook = json!({"triggerType": "WEBHOOK"});
    let opened = f.automation_with("message.opened", "always", &wait, by_webhook).await;
    let filter = json!([{"field": "url", "operator": "contains", "value": "pricing"}]);
    let filtered = json!({"triggerType": "WEBHOOK", "triggerFilter": filter});
    let clicked = f.automation_with("message.clicked", "always", &wait, filtered).await;
    let runs = async |automation: Uuid, context: &str| {
        let sql = format!(
            "SELECT count(*) FROM run WHERE automation_id = '{automation}' AND user_id = '{user}' AND {context}"
        );
        f.number(&sql).await
    };
    let about = |id: Uuid| json!({"messageId": id});
    let click = |page: &str| json!({"messageId": first, "url": format!("https://shop.example/{page}")});
    // Link items use a partition other than the user's own. Repeated opens count once per message.
    f.publish_to(
        1,
        vec![
            webhook(&f, None, "message.opened", &about(first)),
            webhook(&f, None, "message.opened", &about(first)),
            webhook(&f, None, "message.opened", &about(unattributed)),
            webhook(&f, None, "message.opened", &about(Uuid::from_u128(9))),
            webhook(&f, None, "message.clicked", &click("home")),
        ],
    )
    .await;
    f.applied().await;
    assert_eq!((runs(opened, "true").await, runs(clicked, "true").await), (1, 0));
    f.publish_to(
        1,
        vec![
            webhook(&f, None, "message.opened", &about(first)),
            webhook(&f, None, "message.opened", &about(second)),
            webhook(&f, None, "message.clicked", &click("pricing")),
        ],
    )
    .await;
    f.applied().await;
    assert_eq!(runs(opened, &format!("context->'properties'->>'messageId' = '{second}'")).await, 1);
    assert_eq!((runs(opened, "true").await, runs(clicked, "true").await), (2, 1));
    assert_eq!(f.number("SELECT count(*) FROM run").await, 3);
    // It creates no event and no user.
    assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM users").await, 1);
    assert_eq!(state(&f, first).await, "clicked O C");
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn a_run_waits_for_a_click() {
    let f = Fixture::start().await;
    let wait = json!({"type": "WAIT_FOR_EVENT", "event": "message.clicked", "timeout": 3600,
        "then": [{"type": "UPDATE_USER", "properties": {"clicked": true}}], "else": []});
    f.automation("began", "always", &[wait]).await;
    f.publish(vec![track(&f, "u", "began", json!({}))]).await;
    f.applied().await;
    let id = message(&f, "sent").await;
    f.execute(&format!("UPDATE message SET user_id = (SELECT id FROM users) WHERE id = '{id}'")).await;
    f.publish_to(3, vec![webhook(&f, None, "message.clicked", &json!({"messageId": id, "url": "https://a.b/"}))]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'completed'").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM users WHERE properties @> '{\"clicked\": true}'").await, 1);
    f.stop().await;
}
