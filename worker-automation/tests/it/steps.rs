//! Runs every kind of step through the recording transaction.

use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::{Answer, Body, IngestItem, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, timer, track};

fn mail(n: u128) -> Value {
    json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(n)})
}

/// Returns the ID of the only run, in any state.
async fn run(f: &Fixture) -> Uuid {
    f.text("SELECT id::text FROM run").await.unwrap().parse().unwrap()
}

/// Returns the template numbers of all messages, sorted.
async fn sent(f: &Fixture) -> String {
    let sql = "SELECT string_agg(right(template_id::text, 1), ',' ORDER BY template_id) FROM message";
    f.text(sql).await.unwrap_or_default()
}

const WAITING: &str = "SELECT count(*) FROM run WHERE status = 'waiting'";
const LISTENERS: &str = "SELECT count(*) FROM run_listener";
const TIMERS: &str = "SELECT count(*) FROM timer";

#[tokio::test]
async fn awaited_event_takes_its_branch_and_cancels_the_timer() {
    let f = Fixture::start().await;
    let awaits = json!({
        "type": "WAIT_FOR_EVENT", "event": "bought", "timeout": 3600,
        "where": [{"field": "total", "operator": "gt", "value": 10}], "then": [mail(1)], "else": [mail(2)],
    });
    f.automation("signed_up", "always", &[awaits, mail(3)]).await;
    f.publish(vec![track(&f, "u1", "signed_up", json!({})), track(&f, "u2", "signed_up", json!({}))]).await;
    f.applied().await;
    assert_eq!((f.number(LISTENERS).await, f.number(TIMERS).await), (2, 2));
    // Too small a total, another user's event, and a match, in one batch; for the fourth event the run has already
    // advanced.
    let bought = |user: &str, total: i32| track(&f, user, "bought", json!({ "total": total }));
    f.publish(vec![bought("u1", 5), bought("u3", 50), bought("u1", 50), bought("u1", 60)]).await;
    f.applied().await;
    assert_eq!(sent(&f).await, "1,3");
    assert_eq!((f.number(WAITING).await, f.number(LISTENERS).await, f.number(TIMERS).await), (1, 1, 1));
    let left: Uuid = f.text("SELECT id::text FROM run WHERE status = 'waiting'").await.unwrap().parse().unwrap();
    f.publish_to(0, vec![timer(&f, left, 1)]).await;
    f.applied().await;
    assert_eq!(sent(&f).await, "1,2,3,3");
    assert_eq!(
        (f.number(LISTENERS).await, f.number("SELECT count(*) FROM run WHERE status = 'completed'").await),
        (0, 2)
    );
    let arms = "SELECT string_agg(arm || ':' || count, ',' ORDER BY arm) FROM automation_count WHERE step = 'steps[0]' AND did = 'took'";
    assert_eq!(f.text(arms).await.as_deref(), Some("else:1,then:1"));
    f.stop().await;
}

#[tokio::test]
async fn awaited_event_in_the_triggers_batch_is_received() {
    let f = Fixture::start().await;
    let awaits = json!({"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 3600, "then": [mail(1)], "else": []});
    f.automation("e", "once", &[awaits]).await;
    f.publish(vec![track(&f, "u1", "e", json!({})), track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    assert_eq!((sent(&f).await.as_str(), f.number(LISTENERS).await, f.number(TIMERS).await), ("1", 0, 0));
    f.stop().await;
}

#[tokio::test]
async fn branches_evaluate_the_user_and_their_events() {
    let f = Fixture::start().await;
    let rules = |rule: Value| json!([rule]);
    let branch = json!({"type": "BRANCH", "branches": [
        {"rules": rules(json!({"field": "event:bought", "operator": "did", "value": {"count": {"gte": 2}}})), "steps": [mail(1)]},
        {"rules": rules(json!({"field": "plan", "operator": "eq", "value": "pro"})), "steps": [mail(2)]},
    ], "else": [mail(3)]});
    f.automation("visited", "always", &[branch]).await;
    f.publish(vec![
        identify(&f, Some("pro"), None, json!({"plan": "pro"})),
        track(&f, "buyer", "bought", json!({})),
        track(&f, "buyer", "bought", json!({})),
        track(&f, "buyer", "visited", json!({})),
        track(&f, "pro", "visited", json!({})),
        track(&f, "none", "visited", json!({})),
    ])
    .await;
    f.applied().await;
    let by_user = "SELECT string_agg(u.external_id || ':' || right(m.template_id::text, 1), ',' ORDER BY u.external_id) \
                   FROM message m JOIN users u ON u.id = m.user_id";
    assert_eq!(f.text(by_user).await.as_deref(), Some("buyer:1,none:3,pro:2"));
    f.stop().await;
}

#[tokio::test]
async fn a_step_changes_the_profile_and_tracks_an_event_that_starts_others() {
    let f = Fixture::start().await;
    let steps = [
        json!({"type": "UPDATE_USER", "properties": {"tier": "vip", "spent": "{{ event.properties.total }}", "old": null}}),
        json!({"type": "TRACK_EVENT", "event": "promoted", "properties": {"tier": "{{ tier }}"}}),
    ];
    f.automation("bought", "always", &steps).await;
    f.automation("promoted", "always", &[mail(1)]).await;
    f.publish(vec![
        identify(&f, Some("u1"), None, json!({"old": 1})),
        track(&f, "u1", "bought", json!({"total": 9.5})),
        anonymous_track(&f, "a1", "bought"),
    ])
    .await;
    f.eventually("both were promoted", "SELECT count(*) FROM message", 2).await;
    let properties = f.text("SELECT properties::text FROM users WHERE external_id = 'u1'").await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&properties).unwrap(), json!({"tier": "vip", "spent": 9.5}));
    assert_eq!(f.number("SELECT count(*) FROM users").await, 2, "no user was created from an internal ID");
    let tiers = "SELECT count(*) FROM events WHERE name = 'promoted' AND properties = '{\"tier\": \"vip\"}'";
    assert_eq!(f.number(tiers).await, 2);
    f.stop().await;
}

#[tokio::test]
async fn profile_is_updated_after_a_wait() {
    let f = Fixture::start().await;
    let steps = [json!({"type": "WAIT", "delay": 60}), json!({"type": "UPDATE_USER", "properties": {"waited": true}})];
    f.automation("e", "always", &steps).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    f.publish_to(0, vec![timer(&f, run(&f).await, 1)]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM users WHERE properties = '{\"waited\": true}'").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn automations_start_each_other_once_and_loops_are_stopped() {
    let f = Fixture::start().await;
    let second = f.automation("never", "always", &[mail(1)]).await;
    let start = json!({"type": "START_AUTOMATION", "automationId": second});
    f.automation("e", "always", &[start, mail(2)]).await;
    f.automation("loop", "always", &[json!({"type": "TRACK_EVENT", "event": "loop"}), mail(3)]).await;
    f.publish(vec![track(&f, "u1", "e", json!({"total": 7}))]).await;
    f.eventually("both automations sent a message", "SELECT count(*) FROM message", 2).await;
    let trigger = "SELECT count(*) FROM message WHERE data #>> '{event,properties,total}' = '7'";
    assert_eq!(f.number(trigger).await, 2, "the second automation sees the first one's trigger");
    f.publish(vec![track(&f, "u1", "loop", json!({}))]).await;
    f.eventually("the loop is stopped", "SELECT count(*) FROM run WHERE status = 'exited' AND reason = 'loop'", 1)
        .await;
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'loop'").await, 11);
    f.stop().await;
}

#[tokio::test]
async fn exit_rules_are_evaluated_while_a_run_waits() {
    let f = Fixture::start().await;
    let wait = json!({"type": "WAIT", "delay": 3600});
    let by_deed = json!({"exitRules": [{"field": "event:bought", "operator": "did"}]});
    f.automation_with("cart", "once", &[wait.clone(), mail(1)], by_deed).await;
    let by_plan = json!({"exitRules": [{"field": "plan", "operator": "eq", "value": "pro"}]});
    f.automation_with("trial", "once", &[wait, mail(2)], by_plan).await;
    let both = |user: &str| vec![track(&f, user, "cart", json!({})), track(&f, user, "trial", json!({}))];
    f.publish([both("u1"), both("u2")].concat()).await;
    f.applied().await;
    assert_eq!(f.number(WAITING).await, 4);
    f.publish(vec![track(&f, "u1", "bought", json!({})), identify(&f, Some("u2"), None, json!({"plan": "pro"}))]).await;
    f.applied().await;
    let left = "SELECT string_agg(u.external_id || ':' || (r.context->>'name'), ',' ORDER BY u.external_id) \
                FROM run r JOIN users u ON u.id = r.user_id WHERE r.status = 'exited' AND r.reason = 'exit_rules'";
    assert_eq!(f.text(left).await.as_deref(), Some("u1:cart,u2:trial"));
    assert_eq!((f.number(WAITING).await, f.number(TIMERS).await, f.number(LISTENERS).await), (2, 2, 2));
    f.stop().await;
}

#[tokio::test]
async fn exit_rules_are_reevaluated_when_a_time_window_ends() {
    let f = Fixture::start().await;
    let idle = json!({"exitRules": [{"field": "event:looked", "operator": "did_not", "value": {"within": "1h"}}]});
    f.automation_with("cart", "once", &[json!({"type": "WAIT", "delay": 86400}), mail(1)], idle).await;
    let start = f.now_ms();
    let (minute, at) = (60_000, |ms: i64| start + ms);
    let looked =
        |ms: i64| IngestItem { timestamp_ms: at(ms), received_ms: at(ms), ..track(&f, "u1", "looked", json!({})) };
    f.publish(vec![looked(-40 * minute), track(&f, "u1", "cart", json!({}))]).await;
    f.applied().await;
    let due = "SELECT (extract(epoch FROM due_at) * 1000)::bigint FROM timer";
    assert_eq!(f.number(due).await, at(20 * minute + 1));
    f.publish(vec![looked(10 * minute)]).await;
    f.applied().await;
    assert_eq!(f.number(due).await, at(20 * minute + 1));
    let run = run(&f).await;
    let exit_check = |ms: i64| IngestItem { received_ms: at(ms), ..timer(&f, run, 1) };
    f.publish_to(0, vec![exit_check(20 * minute + 1)]).await;
    f.applied().await;
    assert_eq!((f.number(WAITING).await, f.number(due).await), (1, at(70 * minute + 1)));
    f.publish_to(0, vec![exit_check(70 * minute + 1)]).await;
    f.applied().await;
    let left = "SELECT count(*) FROM run WHERE status = 'exited' AND reason = 'exit_rules'";
    assert_eq!((f.number(left).await, f.number(TIMERS).await, f.number(LISTENERS).await), (1, 0, 0));
    assert_eq!(sent(&f).await, "");
    f.stop().await;
}

#[tokio::test]
async fn goals_count_after_the_run_and_entry_rules_apply() {
    let f = Fixture::start().await;
    let parts = json!({
        "goal": {"event": "bought", "within": 3600},
        "triggerFilter": [{"field": "total", "operator": "gte", "value": 5}],
        "entryRules": [{"field": "plan", "operator": "eq", "value": "free"}],
    });
    f.automation_with("cart", "always", &[mail(1)], parts).await;
    f.publish(vec![
        identify(&f, Some("free"), None, json!({"plan": "free"})),
        track(&f, "free", "cart", json!({"total": 9})),
        track(&f, "free", "cart", json!({"total": 1})),
        track(&f, "pro", "cart", json!({"total": 9})),
    ])
    .await;
    f.applied().await;
    assert_eq!((sent(&f).await.as_str(), f.number(LISTENERS).await), ("1", 1));
    f.publish(vec![track(&f, "free", "bought", json!({})), track(&f, "free", "bought", json!({}))]).await;
    f.applied().await;
    let converted = "SELECT count(*) FROM run WHERE status = 'completed' AND converted_at IS NOT NULL";
    assert_eq!((f.number(converted).await, f.number(LISTENERS).await), (1, 0));
    let counts = "SELECT string_agg(did || ':' || count, ',' ORDER BY did) FROM automation_count WHERE step = ''";
    assert_eq!(f.text(counts).await.as_deref(), Some("completed:1,converted:1,entered:1"));
    f.stop().await;
}

#[tokio::test]
async fn run_of_an_anonymous_user_continues_after_the_merge() {
    let f = Fixture::start().await;
    let awaits = json!({"type": "WAIT_FOR_EVENT", "event": "bought", "timeout": 3600, "then": [mail(1)], "else": []});
    f.automation("e", "always", &[awaits]).await;
    f.publish(vec![anonymous_track(&f, "a1", "e")]).await;
    f.applied().await;
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({}))]).await;
    f.applied().await;
    f.publish(vec![track(&f, "u1", "bought", json!({}))]).await;
    f.applied().await;
    assert_eq!(sent(&f).await, "1");
    f.stop().await;
}

#[tokio::test]
async fn each_channel_has_a_queue_of_its_own() {
    let f = Fixture::start().await;
    let send = |kind: &str| json!({"type": kind, "templateId": Uuid::from_u128(4)});
    let kinds = ["SEND_EMAIL", "SEND_PUSH", "SEND_IN_APP", "SEND_SMS"];
    f.automation("e", "always", &kinds.map(send)).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    let channels = "SELECT string_agg(channel, ',' ORDER BY channel) FROM message";
    assert_eq!(f.text(channels).await.as_deref(), Some("EMAIL,IN_APP,PUSH,SMS"));
    let queues = "SELECT string_agg(channel || ' ' || lane || ' ' || size, ',' ORDER BY channel) FROM send_chunk";
    let each = "EMAIL automation 1,IN_APP automation 1,PUSH automation 1,SMS automation 1";
    assert_eq!(f.text(queues).await.as_deref(), Some(each));
    f.stop().await;
}

#[tokio::test]
async fn call_response_is_available_to_later_steps() {
    let f = Fixture::without_worker().await;
    let worker = f.start_worker();
    let hook = json!({"type": "WEBHOOK", "name": "crm", "url": "http://127.0.0.1:9/"});
    let rules = json!([{"field": "steps.crm.response.tier", "operator": "eq", "value": 3}]);
    let branch = json!({"type": "BRANCH", "branches": [{"rules": rules, "steps": [mail(1)]}], "else": [mail(2)]});
    f.automation("e", "always", &[hook, branch]).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    let outcome = json!({"status": 200, "response": {"tier": 3}}).to_string().into();
    let answer = Answer { run_id: id_bytes(run(&f).await), wait_seq: 1, outcome };
    let item = IngestItem { user_id: None, body: Some(Body::Answer(answer)), ..track(&f, "u1", "", json!({})) };
    f.publish_to(0, vec![item.clone()]).await;
    f.publish_to(0, vec![IngestItem { id: id_bytes(Uuid::from_u128(3)), ..item }]).await;
    f.applied().await;
    assert_eq!(sent(&f).await, "1");
    assert_eq!(f.text("SELECT data #>> '{steps,crm,response,tier}' FROM message").await.as_deref(), Some("3"));
    worker.stop_now().await;
    f.stop().await;
}

/// A run with expensive templates does not delay others: it fails, and later items are recorded.
#[tokio::test]
async fn run_with_expensive_templates_fails_and_others_continue() {
    let f = Fixture::start().await;
    let long = "{% for i in (1..9999) %}{{ i | append: user.name }}{% endfor %}";
    let properties: serde_json::Map<String, Value> = (0..90).map(|i| (format!("p{i}"), json!(long))).collect();
    f.automation("e", "always", &[mail(1), json!({"type": "UPDATE_USER", "properties": properties}), mail(2)]).await;
    f.automation("other", "always", &[mail(3)]).await;
    f.publish(vec![track(&f, "u1", "e", json!({})), track(&f, "u1", "other", json!({}))]).await;
    f.applied().await;
    assert_eq!(sent(&f).await, "1,3");
    let failed = "SELECT reason FROM run WHERE status = 'failed'";
    assert_eq!(f.text(failed).await.as_deref(), Some("rendering_limit"));
    assert_eq!(f.number("SELECT count(*) FROM events").await, 2);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}
