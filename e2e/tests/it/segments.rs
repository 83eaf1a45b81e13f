//! Entering or leaving a segment triggers automations.

use std::time::{Duration, Instant};

use e2e::System;
use jiff::SignedDuration;
use kernel::clock::{Clock, rfc3339};
use serde_json::{Value, json};

/// Time limit until a change is evaluated, recorded and visible.
const SOON: Duration = Duration::from_secs(10);

async fn automation(system: &System, trigger: &str, segment: &str, event: &str) -> String {
    let new = json!({
        "name": event, "triggerType": trigger, "triggerSegmentId": segment, "active": true, "reentry": "always",
        "steps": [{ "type": "TRACK_EVENT", "event": event, "properties": {} }],
    });
    system.api.create("/automations", &new).await
}

async fn wait_until_kept(system: &System, segment: &str) {
    let is_kept = |segment: &Value| segment["membership"]["status"] == "kept";
    system.api.until(&format!("/segments/{segment}"), SOON, is_kept).await;
}

async fn entered(system: &System, automation: &str, runs: i64, within: Duration) {
    let report = format!("/automations/{automation}/report");
    system.api.until(&report, within, |report| report["entered"] == json!(runs)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segment_members_change_by_events_and_time() {
    let system = System::start().await;
    let rules = json!([
        { "field": "plan", "operator": "eq", "value": "pro" },
        { "field": "event:order_completed", "operator": "did", "value": { "within": "1m" } },
    ]);
    let segment = system.api.create("/segments", &json!({ "name": "Buyers", "rules": rules })).await;
    let on_enter = automation(&system, "SEGMENT_ENTER", &segment, "came").await;
    let left = automation(&system, "SEGMENT_EXIT", &segment, "left").await;
    wait_until_kept(&system, &segment).await;

    let shopper = json!({ "user_id": "ada", "properties": { "plan": "pro" } });
    system.api.track("/users/identify", &shopper).await.expect(202);
    // The order is old enough to fall out of the segment's window in a few seconds.
    let ordered = Instant::now();
    let ago = rfc3339(Clock::system().now() - SignedDuration::from_secs(50));
    let order = json!({ "user_id": "ada", "event": "order_completed", "timestamp": ago });
    system.api.track("/events", &order).await.expect(202);
    entered(&system, &on_enter, 1, SOON).await;
    let took = ordered.elapsed();
    assert!(took < Duration::from_secs(3), "started only after {took:?}");
    entered(&system, &left, 1, Duration::from_mins(1)).await;
    assert!(ordered.elapsed() < Duration::from_secs(40), "left only after {:?}", ordered.elapsed());
    let segment = system.api.get(&format!("/segments/{segment}")).await.expect(200);
    assert_eq!(segment["userCount"], 0);
    entered(&system, &on_enter, 1, SOON).await;
}
