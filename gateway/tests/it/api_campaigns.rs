//! Tests for `/campaigns`.

use domain::message::Channel;
use kernel::ids;
use serde_json::{Value, json};
use wire::event::uuid;
use wire::send::DirectMessage;

use crate::api_messages::{queued_by, row, used_two_days_ago};
use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

/// Creates a segment and an EMAIL template; returns their IDs.
pub async fn parts(gateway: &Gateway, project: &Tenant) -> (Value, Value) {
    let segment = gateway.post(project, "/segments", &json!({"name": "s", "rules": []})).await.expect(201);
    (segment["id"].clone(), template(gateway, project, "EMAIL").await)
}

async fn template(gateway: &Gateway, project: &Tenant, channel: &str) -> Value {
    let new = json!({"name": "t", "channel": channel, "body": "b"});
    gateway.post(project, "/templates", &new).await.expect(201)["id"].clone()
}

fn in_an_hour(gateway: &Gateway) -> String {
    kernel::clock::rfc3339(kernel::clock::from_ms(gateway.app.clock.now_ms() + 3_600_000))
}

pub fn path(campaign: &Value) -> String {
    format!("/campaigns/{}", campaign["id"].as_str().unwrap())
}

async fn set_status(gateway: &Gateway, campaign: &Value, status: &str) {
    let id: uuid::Uuid = campaign["id"].as_str().unwrap().parse().unwrap();
    gateway.sql.execute("UPDATE campaign SET status = $2 WHERE id = $1", &[&id, &status]).await.unwrap();
}

#[tokio::test]
async fn campaign_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let draft = gateway.post(&project, "/campaigns", &new).await.expect(201);
    assert_eq!((&draft["status"], &draft["scheduledAt"]), (&json!("DRAFT"), &json!(null)));
    for (field, value) in new.as_object().unwrap() {
        assert_eq!(&draft[field], value, "{field}");
    }
    let path = path(&draft);
    assert_eq!(gateway.get(&project, &path).await.expect(200), draft);

    let at = in_an_hour(&gateway);
    let scheduled = gateway.put(&project, &path, &json!({"scheduledAt": at})).await.expect(200);
    assert_eq!((&scheduled["status"], &scheduled["scheduledAt"]), (&json!("SCHEDULED"), &json!(at)));
    let (a, b) = (
        json!({"name": "A", "templateId": template, "weight": 50}),
        json!({"name": "B", "templateId": template, "weight": 50}),
    );
    let whole = json!({
        "excludeSegmentIds": [segment], "throttlePerMinute": 600, "sendInUserTimezone": false, "variants": [a, b],
        "winner": {"metric": "opened", "testShare": 20, "afterMinutes": 60}, "goal": {"event": "order", "within": "7d"},
        "recurrence": {"cron": "0 9 * * MON", "timezone": "Europe/Oslo"},
    });
    let changed = gateway.put(&project, &path, &whole).await.expect(200);
    assert_eq!((&changed["recurrence"], &changed["throttlePerMinute"]), (&whole["recurrence"], &json!(600)));
    assert_eq!((&changed["variants"][1]["name"], &changed["winner"]["metric"]), (&json!("B"), &json!("opened")));
    // `PUT` accepts the representation that `GET` returns.
    let same = gateway.put(&project, &path, &changed).await.expect(200);
    assert_eq!(same["variants"], changed["variants"]);
    let back = gateway.put(&project, &path, &json!({"scheduledAt": null})).await.expect(200);
    assert_eq!(back["status"], "DRAFT");
    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    assert_eq!(gateway.get(&project, &path).await.status, 404);
}

#[tokio::test]
async fn campaign_references_must_exist_and_match() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (segment, email) = parts(&gateway, &project).await;
    let (foreign_segment, foreign_email) = parts(&gateway, &other).await;
    let push = template(&gateway, &project, "PUSH").await;
    for (change, field) in [
        (json!({"segmentId": foreign_segment}), "segmentId"),
        (json!({"excludeSegmentIds": [segment, foreign_segment]}), "excludeSegmentIds[1]"),
        (json!({"templateId": foreign_email}), "templateId"),
        (json!({"templateId": push}), "templateId"),
        (json!({"channel": "PUSH"}), "templateId"),
        (json!({"variants": [{"name": "A", "templateId": push, "weight": 100}]}), "variants[0].templateId"),
        (json!({"templateId": null}), "templateId"),
        (json!({"recurrence": {"cron": "0 9 31 2 *", "timezone": "UTC"}}), "recurrence.cron"),
        (json!({"scheduledAt": "2020-01-01T00:00:00Z"}), "scheduledAt"),
    ] {
        let mut new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": email});
        new.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let response = gateway.post(&project, "/campaigns", &new).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{change}: {}", response.body);
    }
    assert_eq!(gateway.get(&project, "/campaigns").await.expect(200)["campaigns"], json!([]));
}

#[tokio::test]
async fn status_forbids_changes_to_what_is_sent() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let campaign = gateway.post(&project, "/campaigns", &new).await.expect(201);
    let path = path(&campaign);
    let states = [("SENDING", false), ("PAUSED", true), ("COMPLETED", false), ("CANCELLED", false), ("FAILED", false)];
    for (i, (status, editable)) in states.into_iter().enumerate() {
        set_status(&gateway, &campaign, status).await;
        let renamed = gateway.put(&project, &path, &json!({"name": format!("now {status}")})).await.expect(200);
        let same = gateway.put(&project, &path, &renamed).await.expect(200);
        assert_eq!((&same["status"], &same["name"]), (&json!(status), &renamed["name"]));
        let changed = gateway.put(&project, &path, &json!({"throttlePerMinute": 7 + i})).await;
        assert_eq!(changed.status, if editable { 200 } else { 409 }, "{status}");
    }
    // Variants and time zones decided how the audience was snapshotted, so they cannot change afterwards.
    gateway.sql.execute("UPDATE campaign SET under_way = true, status = 'PAUSED'", &[]).await.unwrap();
    let variants = json!([{"name": "A", "templateId": template, "weight": 100}]);
    for change in [json!({"variants": variants}), json!({"sendInUserTimezone": true})] {
        assert_eq!(gateway.put(&project, &path, &change).await.status, 409, "{change}");
    }
    let push = self::template(&gateway, &project, "PUSH").await;
    assert_eq!(gateway.put(&project, &path, &json!({"channel": "PUSH", "templateId": push})).await.status, 409);
    // A replaced template and its replacement are both in use until the campaign ends.
    let new_template = self::template(&gateway, &project, "EMAIL").await;
    gateway.put(&project, &path, &json!({"templateId": new_template})).await.expect(200);
    for used in [&template, &new_template] {
        let used = format!("/templates/{}", used.as_str().unwrap());
        assert_eq!(gateway.delete(&project, &used).await.status, 409, "{used}");
    }
    gateway.put(&project, &path, &json!({"throttlePerMinute": 5})).await.expect(200);
    set_status(&gateway, &campaign, "SENDING").await;
    assert_eq!(gateway.delete(&project, &path).await.status, 409);
    set_status(&gateway, &campaign, "CANCELLED").await;
    gateway.delete(&project, &path).await.expect(200);
}

#[tokio::test]
async fn resources_in_use_by_a_campaign_cannot_be_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template_id) = parts(&gateway, &project).await;
    let (excluded, other) = parts(&gateway, &project).await;
    let new = json!({
        "name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template_id, "excludeSegmentIds": [excluded],
        "variants": [{"name": "A", "templateId": other, "weight": 100}],
    });
    let campaign = gateway.post(&project, "/campaigns", &new).await.expect(201);
    let used = [
        format!("/segments/{}", segment.as_str().unwrap()),
        format!("/segments/{}", excluded.as_str().unwrap()),
        format!("/templates/{}", template_id.as_str().unwrap()),
        format!("/templates/{}", other.as_str().unwrap()),
    ];
    for path in &used {
        let response = gateway.delete(&project, path).await;
        assert!(
            response.status == 409 && response.body["message"].as_str().unwrap().contains("Sale"),
            "{}",
            response.body
        );
    }
    set_status(&gateway, &campaign, "COMPLETED").await;
    for path in &used {
        gateway.delete(&project, path).await.expect(200);
    }
    // A finished campaign can still be renamed, although its segment and template are deleted.
    gateway.put(&project, &path(&campaign), &json!({"name": "Sale of 2026"})).await.expect(200);
}

#[tokio::test]
async fn lists_are_newest_first_and_foreign_campaigns_are_not_found() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (segment, template) = parts(&gateway, &project).await;
    let at = in_an_hour(&gateway);
    for (name, scheduled_at) in [("a", json!(null)), ("b", json!(at)), ("c", json!(null))] {
        let new = json!({"name": name, "channel": "EMAIL", "segmentId": segment, "templateId": template, "scheduledAt": scheduled_at});
        gateway.post(&project, "/campaigns", &new).await.expect(201);
    }
    for (query, names) in [("", &["c", "b", "a"][..]), ("?status=SCHEDULED", &["b"]), ("?status=FAILED", &[])] {
        let body = gateway.get(&project, &format!("/campaigns{query}")).await.expect(200);
        assert_eq!(texts(&body["campaigns"], "name"), names, "{query}");
    }
    let listed = gateway.get(&project, "/campaigns").await.expect(200);
    let owned = path(&listed["campaigns"][0]);
    for response in [
        gateway.get(&other, &owned).await,
        gateway.put(&other, &owned, &json!({"name": "mine"})).await,
        gateway.delete(&other, &owned).await,
        gateway.get(&project, "/campaigns/not-an-id").await,
    ] {
        assert_eq!(response.status, 404);
    }
    assert_eq!(gateway.get(&project, "/campaigns?status=sent").await.fields(), ["status"]);
    assert_eq!(gateway.get(&other, "/campaigns").await.expect(200)["campaigns"], json!([]));
}

#[tokio::test]
async fn campaign_can_be_sent_paused_resumed_and_cancelled() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let campaign = gateway.post(&project, "/campaigns", &new).await.expect(201);
    let path = path(&campaign);
    let none = json!({});
    let action = |verb: &str| format!("{path}/{verb}");
    for verb in ["pause", "resume", "cancel"] {
        let response = gateway.post(&project, &action(verb), &none).await;
        assert!(
            response.status == 409 && response.body["message"].as_str().unwrap().contains("DRAFT"),
            "{}",
            response.body
        );
    }
    assert_eq!(gateway.post(&other, &action("send"), &none).await.status, 404);
    let sent = gateway.post(&project, &action("send"), &none).await.expect(200);
    assert_eq!((&sent["status"], &sent["recipients"]), (&json!("SENDING"), &json!(0)));
    assert!(sent["startedAt"].is_string());
    assert_eq!(gateway.post(&project, &action("send"), &none).await.status, 409);
    for (verb, status) in [("pause", "PAUSED"), ("resume", "SENDING"), ("pause", "PAUSED")] {
        assert_eq!(gateway.post(&project, &action(verb), &none).await.expect(200)["status"], status);
    }
    assert_eq!(gateway.delete(&project, &path).await.status, 409);
    assert_eq!(gateway.post(&project, &action("cancel"), &none).await.expect(200)["status"], "CANCELLED");
    assert_eq!(gateway.post(&project, &action("resume"), &none).await.status, 409);
    let report = gateway.get(&project, &action("report")).await.expect(200);
    let expected = json!({"campaignId": campaign["id"], "status": "CANCELLED", "recipients": 0, "total": 0, "byStatus": {}, "variants": [],
        "links": [], "conversion": null, "winner": null});
    assert_eq!(report, expected);
    assert_eq!(gateway.get(&other, &action("report")).await.status, 404);
    gateway.delete(&project, &path).await.expect(200);

    let mut waits = new.clone();
    waits["scheduledAt"] = json!(in_an_hour(&gateway));
    let waits = gateway.post(&project, "/campaigns", &waits).await.expect(201);
    let path = format!("/campaigns/{}", waits["id"].as_str().unwrap());
    for (verb, status) in [("pause", "PAUSED"), ("resume", "SCHEDULED"), ("cancel", "CANCELLED")] {
        assert_eq!(gateway.post(&project, &format!("{path}/{verb}"), &none).await.expect(200)["status"], status);
    }
    let mut later = new;
    later["sendInUserTimezone"] = json!(true);
    later["scheduledAt"] = json!(in_an_hour(&gateway));
    let later = gateway.post(&project, "/campaigns", &later).await.expect(201);
    // The scheduler must check it before that local time is reached in the first time zone.
    let sql = "SELECT scheduled_at - look_at = interval '26 hours' FROM campaign WHERE id = $1";
    let id: uuid::Uuid = later["id"].as_str().unwrap().parse().unwrap();
    let is_checked_early = async || gateway.sql.query_one(sql, &[&id]).await.unwrap().get::<_, Option<bool>>(0);
    assert_eq!(is_checked_early().await, Some(true));
    for verb in ["pause", "resume"] {
        gateway.post(&project, &format!("/campaigns/{id}/{verb}"), &none).await.expect(200);
    }
    assert_eq!(is_checked_early().await, Some(true));
    assert_eq!(gateway.post(&project, &format!("/campaigns/{id}/send"), &none).await.expect(200)["status"], "SENDING");
}

/// Returns the content, the data and the template ID of a test message.
fn content_of(message: &DirectMessage) -> (Value, Value, Value) {
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    (json(&message.content), json(&message.data), json!(uuid("template", &message.template_id).unwrap()))
}

#[tokio::test]
async fn test_is_sent_once_to_each_named_recipient() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (segment, a) = parts(&gateway, &project).await;
    let b = template(&gateway, &project, "EMAIL").await;
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 60).await;
    let variant = |name: &str, template: &Value| json!({"name": name, "templateId": template, "weight": 50});
    let variants = [variant("A", &a), variant("B", &b)];
    let new = json!({"name": "Sale", "channel": "EMAIL", "segmentId": segment, "variants": variants});
    let campaign = gateway.post(&project, "/campaigns", &new).await.expect(201);
    let path = format!("{}/test", path(&campaign));
    let body = json!({"userIds": ["ann"], "to": ["ops@example.com"], "asUserId": "ann"});
    let key = [("idempotency-key", "test-1")];
    let first = gateway.send("POST", &path, &project.secret, &key, body.to_string()).await.expect(202);
    let repeated = gateway.send("POST", &path, &project.secret, &key, body.to_string()).await.expect(202);
    assert_eq!(first, repeated);
    let shown: Vec<[&Value; 4]> = first["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| [&m["userId"], &m["to"], &m["variant"], &m["status"]])
        .collect();
    let (user, to, queued) = (json!("ann"), json!("ops@example.com"), json!("queued"));
    let (null, va, vb) = (json!(null), json!("A"), json!("B"));
    assert_eq!(
        shown,
        [
            [&user, &null, &va, &queued],
            [&user, &null, &vb, &queued],
            [&null, &to, &va, &queued],
            [&null, &to, &vb, &queued]
        ]
    );

    // The retry publishes the same IDs; delivery writes each row once.
    let messages = queued_by(&gateway, Channel::Email).await;
    assert_eq!(messages.len(), 8);
    assert_eq!(messages[..4], messages[4..]);
    let ids: Vec<String> = messages[..4].iter().map(|m| uuid("id", &m.message_id).unwrap().to_string()).collect();
    assert_eq!(ids, texts(&first["messages"], "id"));
    assert!(messages.iter().all(|m| m.user_ids == [wire::event::id_bytes(ann)]));
    let data = json!({"campaign": {"id": campaign["id"], "name": "Sale"}});
    assert_eq!(content_of(&messages[1]), (json!({"test": true}), data.clone(), b));
    assert_eq!(content_of(&messages[2]), (json!({"test": true, "to": "ops@example.com"}), data, a));

    let one = gateway.post(&project, &path, &json!({"to": ["ops@example.com"], "variant": "B"})).await.expect(202);
    assert_eq!(texts(&one["messages"], "variant"), ["B"]);
    assert_eq!(queued_by(&gateway, Channel::Email).await[0].user_ids, [wire::event::id_bytes(uuid::Uuid::nil())]);
    for (body, field) in [
        (json!({"userIds": ["ann", "eve"]}), "userIds[1]"),
        (json!({"to": ["a@b.c"], "asUserId": "eve"}), "asUserId"),
        (json!({"to": ["a@b.c"], "variant": "C"}), "variant"),
    ] {
        assert_eq!(gateway.post(&project, &path, &body).await.fields(), [field], "{body}");
    }
    assert_eq!(gateway.post(&other, &path, &json!({"to": ["a@b.c"]})).await.status, 404);
    assert!(queued_by(&gateway, Channel::Email).await.is_empty());
    // The campaign is still a draft and has sent nothing.
    let report = gateway.get(&project, &path.replace("/test", "/report")).await.expect(200);
    assert_eq!((&report["status"], &report["total"]), (&json!("DRAFT"), &json!(0)));
}

#[tokio::test]
async fn repeated_test_with_deleted_messages_sends_nothing() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let path = format!("{}/test", path(&gateway.post(&project, "/campaigns", &new).await.expect(201)));
    let key = [("idempotency-key", "test-1")];
    let body = json!({"to": ["a@example.com", "b@example.com"]}).to_string();
    let test = async || gateway.send("POST", &path, &project.secret, &key, body.clone()).await;
    test().await.expect(202);
    assert_eq!(queued_by(&gateway, Channel::Email).await.len(), 2);

    let used = used_two_days_ago(&gateway, &project).await;
    let of_target = |nth: usize| ids::timed_for(ids::time_ms(used), &[used.as_bytes(), &nth.to_be_bytes()]);
    for nth in 0..2 {
        test().await.expect(409);
        row(&gateway, &project, of_target(nth), uuid::Uuid::nil(), "sent", "EMAIL").await;
    }
    let shown = test().await.expect(202);
    assert_eq!(texts(&shown["messages"], "id"), [0, 1].map(|nth| of_target(nth).to_string()));
    assert_eq!(texts(&shown["messages"], "status"), ["sent", "sent"]);
    assert!(queued_by(&gateway, Channel::Email).await.is_empty());
}
