//! Automations: triggered by events, advanced by timers, each effect once.

use serde_json::json;
use uuid::Uuid;
use wire::event::{Body, IngestItem, Timer, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, track};

#[tokio::test]
async fn an_event_starts_a_run_whose_message_is_queued() {
    let f = Fixture::start().await;
    f.automation("signed_up", "always", &[json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(5)})]).await;
    let event = track(&f, "u1", "signed_up", json!({"plan": "pro"}));
    f.publish(vec![event.clone(), track(&f, "u1", "other", json!({}))]).await;
    f.publish(vec![event]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'completed'").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM message WHERE status = 'queued' AND lane = 'automation'").await, 1);
    let plan = "SELECT data #>> '{event,properties,plan}' FROM message";
    assert_eq!(f.text(plan).await.as_deref(), Some("pro"));
    assert_eq!(f.queued().await, f.text("SELECT id::text FROM message").await.as_slice());
    f.stop().await;
}

#[tokio::test]
async fn wait_sets_a_timer_that_advances_the_run_once() {
    let f = Fixture::start().await;
    let steps = [json!({"type": "WAIT", "delay": 5}), json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(5)})];
    f.automation("checkout_started", "always", &[steps.clone(), steps].concat()).await;
    f.publish(vec![track(&f, "u1", "checkout_started", json!({}))]).await;
    f.applied().await;
    let due = "SELECT count(*) FROM timer t JOIN run r ON r.id = t.run_id AND r.due_at = t.due_at AND t.due_at = r.started_at + interval '5 seconds'";
    assert_eq!(f.number(due).await, 1);
    let run: Uuid = f.text("SELECT run_id::text FROM timer").await.unwrap().parse().unwrap();
    let timer = |wait_seq| IngestItem {
        user_id: None,
        body: Some(Body::Timer(Timer { run_id: id_bytes(run), wait_seq })),
        ..track(&f, "u1", "", json!({}))
    };
    // Stale, current and repeated timers.
    f.publish_to(0, vec![timer(0), timer(2), timer(1), timer(1)]).await;
    f.publish_to(0, vec![timer(1)]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM message").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'waiting'").await, 1);
    f.publish_to(0, vec![timer(2)]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM message").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'completed'").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn reentry_rule_applies_within_one_batch() {
    let f = Fixture::start().await;
    let wait = [json!({"type": "WAIT", "delay": 3600})];
    for reentry in ["once", "after_exit", "always"] {
        f.automation(&format!("e_{reentry}"), reentry, &wait).await;
    }
    f.automation("e_done", "after_exit", &[]).await;
    f.automation("e_done_once", "once", &[]).await;
    let names = ["e_once", "e_after_exit", "e_always", "e_done", "e_done_once"];
    for _ in 0..2 {
        f.publish(
            names
                .iter()
                .flat_map(|name| [track(&f, "u1", name, json!({})), track(&f, "u1", name, json!({}))])
                .collect(),
        )
        .await;
        f.applied().await;
    }
    for (name, runs) in [("e_once", 1), ("e_after_exit", 1), ("e_always", 4), ("e_done", 4), ("e_done_once", 1)] {
        assert_eq!(
            f.number(&format!("SELECT count(*) FROM run WHERE context->>'name' = '{name}'")).await,
            runs,
            "{name}"
        );
    }
    f.stop().await;
}

#[tokio::test]
async fn an_automation_saved_before_an_event_was_accepted_is_started_by_it() {
    let f = Fixture::start().await;
    for round in 0..10 {
        f.automation(&format!("e{round}"), "always", &[]).await;
        f.publish(vec![track(&f, "u1", &format!("e{round}"), json!({}))]).await;
    }
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run").await, 10);
    f.stop().await;
}

#[tokio::test]
async fn a_wait_that_ends_while_the_automation_is_inactive_freezes_the_run() {
    let f = Fixture::start().await;
    let id =
        f.automation("e", "always", &[json!({"type": "WAIT", "delay": 1}), json!({"type": "WAIT", "delay": 9})]).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    f.deactivate(id).await;
    let run: Uuid = f.text("SELECT run_id::text FROM timer").await.unwrap().parse().unwrap();
    let body = Some(Body::Timer(Timer { run_id: id_bytes(run), wait_seq: 1 }));
    f.publish_to(3, vec![IngestItem { user_id: None, body, ..track(&f, "u1", "", json!({})) }]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'frozen'").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn user_merged_within_a_batch_enters_once() {
    let f = Fixture::start().await;
    f.automation("signed_up", "once", &[json!({"type": "WAIT", "delay": 3600})]).await;
    f.automation("viewed", "once", &[json!({"type": "WAIT", "delay": 3600})]).await;
    // The anonymous user already had a run of this automation.
    f.publish(vec![anonymous_track(&f, "a1", "viewed")]).await;
    f.applied().await;
    f.publish_to(
        5,
        vec![
            anonymous_track(&f, "a1", "signed_up"),
            identify(&f, Some("u1"), Some("a1"), json!({})),
            track(&f, "u1", "signed_up", json!({})),
            track(&f, "u1", "viewed", json!({})),
        ],
    )
    .await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run").await, 2);
    let known = "SELECT count(*) FROM run r JOIN users u ON u.id = r.user_id AND u.external_id = 'u1'";
    assert_eq!(f.number(known).await, 2);
    assert_eq!(f.number("SELECT count(*) FROM events e JOIN users w ON w.id = e.user_id JOIN users u ON u.id = coalesce(w.merged_into, w.id) AND u.external_id = 'u1' WHERE e.name = 'signed_up'").await, 2);
    f.stop().await;
}

#[tokio::test]
async fn run_that_ends_within_a_batch_permits_the_next() {
    let f = Fixture::start().await;
    f.automation("e", "after_exit", &[json!({"type": "WAIT", "delay": 1})]).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    let run: Uuid = f.text("SELECT run_id::text FROM timer").await.unwrap().parse().unwrap();
    let body = Some(Body::Timer(Timer { run_id: id_bytes(run), wait_seq: 1 }));
    let timer = IngestItem { user_id: None, body, ..track(&f, "u1", "", json!({})) };
    f.publish_to(1, vec![timer, track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'completed'").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM run WHERE status = 'waiting'").await, 1);
    f.stop().await;
}
