//! Items that a public key sent without the required identity proof, with an anonymous ID only.

use kernel::ids::UserKey;
use serde_json::json;
use uuid::Uuid;
use wire::event::{Body, IngestItem, RegisterToken};

use crate::fixture::{Fixture, anonymous_track, identify, track};

fn unproven(item: IngestItem) -> IngestItem {
    IngestItem { unproven: true, ..item }
}

fn register(f: &Fixture, anonymous: &str, token: &str) -> IngestItem {
    let body = RegisterToken { platform: "ANDROID".into(), token: token.into() };
    IngestItem { body: Some(Body::RegisterToken(body)), ..anonymous_track(f, anonymous, "") }
}

async fn owner(f: &Fixture, token: &str) -> Option<String> {
    let sql = "SELECT coalesce(u.external_id, u.anonymous_id) FROM push_token t \
               JOIN users u ON u.project_id = t.project_id AND u.id = t.user_id";
    f.text(&format!("{sql} WHERE t.token = '{token}'")).await
}

async fn email(f: &Fixture, external_id: &str) -> Option<String> {
    f.text(&format!("SELECT email FROM users WHERE external_id = '{external_id}'")).await
}

/// Returns the users of events with this name, with merges followed.
async fn users_of(f: &Fixture, event: &str) -> Option<String> {
    let sql = "SELECT string_agg(coalesce(k.external_id, u.external_id, u.anonymous_id, 'none'), ',' ORDER BY e.received_at) \
               FROM events e LEFT JOIN users u ON u.project_id = e.project_id AND u.id = e.user_id \
               LEFT JOIN users k ON k.project_id = u.project_id AND k.id = u.merged_into";
    f.text(&format!("{sql} WHERE e.name = '{event}'")).await
}

#[tokio::test]
async fn an_unproven_item_never_counts_for_a_user() {
    let f = Fixture::start().await;
    f.automation("bought", "always", &[json!({"type": "WAIT", "delay": 3600})]).await;
    f.publish(vec![
        anonymous_track(&f, "a1", "viewed"),
        identify(&f, Some("victim"), Some("a1"), json!({"email": "victim@example.com"})),
    ])
    .await;
    f.applied().await;
    let seen = "SELECT last_seen_at::text FROM users WHERE external_id = 'victim'";
    let before = f.text(seen).await;

    let an_hour_later = |mut item: IngestItem| {
        item.received_ms += 3_600_000;
        item
    };
    let items = [
        identify(&f, None, Some("a1"), json!({"email": "attacker@example.com"})),
        register(&f, "a1", "stolen"),
        anonymous_track(&f, "a1", "bought"),
        anonymous_track(&f, "a1", "looked"),
    ];
    f.publish(items.map(unproven).map(an_hour_later).to_vec()).await;
    f.applied().await;
    assert_eq!(email(&f, "victim").await.as_deref(), Some("victim@example.com"));
    assert_eq!(owner(&f, "stolen").await, None);
    assert_eq!(f.number("SELECT count(*) FROM run").await, 0);
    for event in ["bought", "looked"] {
        assert_eq!(users_of(&f, event).await.as_deref(), Some("none"), "{event}");
    }
    assert_eq!(f.text(seen).await, before);
    assert_eq!(f.number("SELECT count(*) FROM users").await, 2, "no user was created for them");

    // With the proof everything is applied.
    let items = [identify(&f, None, Some("a1"), json!({"email": "new@example.com"})), register(&f, "a1", "own")];
    f.publish(items.to_vec()).await;
    f.publish(vec![track(&f, "victim", "bought", json!({}))]).await;
    f.applied().await;
    assert_eq!(email(&f, "victim").await.as_deref(), Some("new@example.com"));
    assert_eq!(owner(&f, "own").await.as_deref(), Some("victim"));
    assert_eq!(f.number("SELECT count(*) FROM run").await, 1);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn an_anonymous_user_needs_no_proof_until_the_merge() {
    let f = Fixture::start().await;
    let items = [
        identify(&f, None, Some("a1"), json!({"plan": "free"})),
        register(&f, "a1", "phone"),
        anonymous_track(&f, "a1", "viewed"),
    ];
    f.publish(items.map(unproven).to_vec()).await;
    f.applied().await;
    assert_eq!(f.text("SELECT properties->>'plan' FROM users").await.as_deref(), Some("free"));
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("a1"));

    // An item received before the merge and recorded after it still belongs to the user. One received after it, in the
    // same batch, does not.
    let (early, late_name) = (anonymous_track(&f, "a1", "early"), "late");
    let early_token = register(&f, "a1", "tablet");
    let merge = identify(&f, Some("u1"), Some("a1"), json!({}));
    let late = anonymous_track(&f, "a1", late_name);
    f.publish_to(3, vec![merge, unproven(late)]).await;
    f.applied().await;
    f.publish_to(3, vec![unproven(early), unproven(early_token)]).await;
    f.applied().await;
    assert_eq!(users_of(&f, "viewed").await.as_deref(), Some("u1"));
    assert_eq!(users_of(&f, "early").await.as_deref(), Some("u1"));
    assert_eq!(users_of(&f, late_name).await.as_deref(), Some("none"));
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("u1"));
    assert_eq!(owner(&f, "tablet").await.as_deref(), Some("u1"));
    f.stop().await;
}

#[tokio::test]
async fn event_about_a_message_updates_only_the_users_own_push() {
    let f = Fixture::start().await;
    f.publish(vec![
        anonymous_track(&f, "a1", "viewed"),
        identify(&f, Some("u1"), Some("a1"), json!({})),
        identify(&f, Some("u2"), None, json!({})),
    ])
    .await;
    f.applied().await;
    let message = async |channel: &str, to: UserKey<'_>| {
        let id = kernel::ids::fresh(f.clock.now_ms());
        f.execute(&format!(
            "INSERT INTO message (project_id, id, user_id, channel, lane, status, attempt, created_at, updated_at) \
             VALUES ('{}', '{id}', '{}', '{channel}', 'direct', 'sent', 1, now(), now())",
            f.project,
            to.internal_id(f.project)
        ))
        .await;
        id
    };
    let own = message("PUSH", UserKey::External("u1")).await;
    // Sent before the merge.
    let earlier = message("PUSH", UserKey::Anonymous("a1")).await;
    let mail = message("EMAIL", UserKey::External("u1")).await;
    let others = message("PUSH", UserKey::External("u2")).await;
    let opened = |id: Uuid| track(&f, "u1", "push_opened", json!({"messageId": id}));
    f.publish([own, earlier, mail, others].map(opened).to_vec()).await;
    f.publish(vec![unproven(IngestItem {
        user_id: None,
        anonymous_id: Some("a1".into()),
        received_ms: f.now_ms() + 3_600_000,
        ..opened(others)
    })])
    .await;
    f.applied().await;
    let mut status = Vec::new();
    for id in [own, earlier, mail, others] {
        status.push(f.text(&format!("SELECT status FROM message WHERE id = '{id}'")).await.unwrap());
    }
    assert_eq!(status, ["opened", "opened", "sent", "sent"]);
    f.stop().await;
}
