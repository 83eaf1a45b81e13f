//! Tests for `/automations`.

use std::time::Duration;

use automation::Action;
use database::changes::{self, Topic};
use serde_json::{Value, json};
use store_sending::automations::{self, FollowedAutomation};
use testkit::eventually_true;
use uuid::Uuid;

use crate::fixture::{Gateway, texts};
use crate::setup::Tenant;

async fn template(gateway: &Gateway, project: &Tenant, channel: &str) -> String {
    let new = json!({"name": "n", "channel": channel, "body": "b"});
    gateway.post(project, "/templates", &new).await.expect(201)["id"].as_str().unwrap().to_owned()
}

fn automation(steps: Value) -> Value {
    json!({"name": "Reminder", "triggerType": "EVENT", "triggerEvent": "checkout_started", "steps": steps})
}

#[tokio::test]
async fn automation_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let template = template(&gateway, &project, "EMAIL").await;
    let steps = json!([
        {"type": "WAIT", "delay": 259_200, "name": "three days"},
        {"type": "SEND_EMAIL", "templateId": template},
    ]);
    let made = gateway.post(&project, "/automations", &automation(steps.clone())).await.expect(201);
    let expected = json!({
        "id": made["id"], "name": "Reminder", "triggerType": "EVENT", "triggerEvent": "checkout_started",
        "triggerFilter": null, "entryRules": null, "exitRules": null, "goal": null,
        "active": false, "reentry": "after_exit", "steps": steps, "version": 1,
        "createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
    });
    assert_eq!(made, expected);
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);

    let switched = gateway.put(&project, &path, &json!({"name": "Later", "active": true})).await.expect(200);
    assert_eq!((&switched["version"], &switched["active"], &switched["steps"]), (&json!(1), &json!(true), &steps));
    let edited = gateway.put(&project, &path, &json!({"steps": [{"type": "WAIT", "delay": 0.5}]})).await.expect(200);
    assert_eq!((&edited["version"], &edited["name"]), (&json!(2), &json!("Later")));
    assert_eq!(gateway.put(&project, &path, &edited).await.expect(200)["version"], 2);
    assert_eq!(gateway.get(&project, "/automations").await.expect(200)["automations"][0]["version"], 2);

    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    assert_eq!(gateway.get(&project, &path).await.status, 404);
    assert_eq!(gateway.delete(&project, &path).await.status, 404);
    assert_eq!(gateway.get(&project, "/automations").await.expect(200)["automations"], json!([]));
}

#[tokio::test]
async fn workers_load_versions_and_changes() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let db = gateway.app.store.connection().await.unwrap();
    let before = changes::current(&db, &[Topic::Automation]).await.unwrap()[0];
    let wait = |delay: u32| json!([{"type": "WAIT", "delay": delay}]);
    let mut new = automation(wait(1));
    new["active"] = json!(true);
    let made = gateway.post(&project, "/automations", &new).await.expect(201);
    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    let path = format!("/automations/{id}");
    gateway.put(&project, &path, &json!({"steps": wait(2)})).await.expect(200);

    let followed = automations::load_followed(&db, None).await.unwrap();
    assert_eq!(followed.len(), 1);
    let active = followed[0].active.as_ref().unwrap();
    assert_eq!((active.project, active.id, active.version), (project.id, id, 2));
    for (version, delay) in [(1, 1.0), (2, 2.0)] {
        let definition = automations::get_version(&db, project.id, id, version).await.unwrap().unwrap();
        assert_eq!(definition.steps[0].action, Action::Wait { delay });
    }
    let changed = automations::changed_after(&db, before).await.unwrap();
    assert_eq!(changed, followed);
    assert!(automations::is_active(&db, project.id, id).await.unwrap());

    let seen = changes::current(&db, &[Topic::Automation]).await.unwrap()[0];
    gateway.delete(&project, &path).await.expect(200);
    let changed = automations::changed_after(&db, seen).await.unwrap();
    assert_eq!(changed, [FollowedAutomation { project: project.id, id, active: None, listens_for: vec![] }]);
    assert!(!automations::is_active(&db, project.id, id).await.unwrap());
    // Active runs keep the version that they started with.
    assert!(automations::get_version(&db, project.id, id, 1).await.unwrap().is_some());
}

#[tokio::test]
async fn deleting_does_not_wait_for_runs() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let made = gateway.post(&project, "/automations", &automation(json!([]))).await.expect(201);
    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, \
               started_at, updated_at) VALUES ($1, $2, $2, 1, $2, 'waiting', '0', 0, '{}', now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id]).await.unwrap();
    gateway.sql.batch_execute("BEGIN; SELECT * FROM run FOR UPDATE").await.unwrap();
    gateway.delete(&project, &format!("/automations/{id}")).await.expect(200);
    gateway.sql.batch_execute("COMMIT").await.unwrap();
    let run = gateway.sql.query_one("SELECT status FROM run", &[]).await.unwrap();
    assert_eq!(run.get::<_, String>(0), "waiting", "ended by the scheduler");
}

#[tokio::test]
async fn templates_must_exist_and_match_the_channel() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (good, push) = (template(&gateway, &project, "EMAIL").await, template(&gateway, &project, "PUSH").await);
    let foreign = template(&gateway, &other, "EMAIL").await;
    let send = |id: &str| json!({"type": "SEND_EMAIL", "templateId": id});
    let missing = Uuid::from_u128(1).to_string();
    let steps = json!([send(&good), send(&push), send(&foreign), send(&missing)]);
    let response = gateway.post(&project, "/automations", &automation(steps)).await;
    let expected = vec!["steps[1].templateId", "steps[2].templateId", "steps[3].templateId"];
    assert_eq!((response.status, response.fields()), (422, expected));
    let details = response.body["details"].as_array().unwrap();
    assert_eq!(details[1]["message"], details[2]["message"], "a foreign template is reported as missing");

    let made = gateway.post(&project, "/automations", &automation(json!([send(&good)]))).await.expect(201);
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    let response = gateway.put(&project, &path, &json!({"steps": [send(&push)]})).await;
    assert_eq!((response.status, response.fields()), (422, vec!["steps[0].templateId"]));
    assert_eq!(gateway.get(&project, &path).await.expect(200), made, "nothing was changed");
}

#[tokio::test]
async fn every_step_type_is_stored_as_sent() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let mail = template(&gateway, &project, "EMAIL").await;
    let segment = gateway.post(&project, "/segments", &json!({"name": "s", "rules": []})).await.expect(201);
    let other = gateway.post(&project, "/automations", &automation(json!([]))).await.expect(201);
    let send = json!({"type": "SEND_EMAIL", "templateId": mail});
    let rule = json!({"field": "segment", "operator": "eq", "value": segment["id"]});
    let mut new = automation(json!([
        send,
        {"type": "WAIT_UNTIL", "time": "09:00"},
        {"type": "WAIT_UNTIL", "property": "renewal", "offset": -86_400},
        {"type": "WAIT_FOR_EVENT", "name": "purchase", "event": "bought", "timeout": 604_800,
         "where": [{"field": "total", "operator": "gt", "value": 10}], "then": [], "else": [send]},
        {"type": "BRANCH", "branches": [{"rules": [rule], "steps": [send]}], "else": [{"type": "EXIT"}]},
        {"type": "SPLIT", "branches": [{"weight": 50, "steps": [send]}, {"weight": 50, "steps": [{"type": "EXIT"}]}]},
        {"type": "UPDATE_USER", "properties": {"tier": "{{ steps.crm.response.tier }}"}},
        {"type": "TRACK_EVENT", "event": "reminded", "properties": {}},
        {"type": "WEBHOOK", "url": "https://example.com/hook", "body": {"id": "{{ user.id }}"}, "name": "crm"},
        {"type": "START_AUTOMATION", "automationId": other["id"]},
    ]));
    let parts = json!({
        "triggerFilter": [{"field": "total", "operator": "gte", "value": 5}],
        "entryRules": [rule], "exitRules": [{"field": "event:bought", "operator": "did", "value": {"within": "1d"}}],
        "goal": {"event": "bought", "within": 86_400},
    });
    new.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    let made = gateway.post(&project, "/automations", &new).await.expect(201);
    for field in ["steps", "triggerFilter", "entryRules", "exitRules", "goal"] {
        assert_eq!(made[field], new[field], "{field}");
    }
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.put(&project, &path, &made).await.expect(200)["version"], 1, "sent back as read");
    let without = gateway.put(&project, &path, &json!({"goal": null, "exitRules": null})).await.expect(200);
    assert_eq!((&without["goal"], &without["exitRules"], &without["version"]), (&Value::Null, &Value::Null, &json!(2)));

    // Every referenced resource must exist, at any depth.
    let missing = Uuid::from_u128(1);
    let within = |step: Value| json!([{"type": "BRANCH", "branches": [{"rules": [], "steps": [step]}]}]);
    for (steps, field) in [
        (within(json!({"type": "SEND_PUSH", "templateId": mail})), "steps[0].branches[0].steps[0].templateId"),
        (
            within(json!({"type": "START_AUTOMATION", "automationId": missing})),
            "steps[0].branches[0].steps[0].automationId",
        ),
        (
            json!([{"type": "BRANCH", "branches": [
                {"rules": [{"field": "segment", "operator": "eq", "value": missing}], "steps": [{"type": "EXIT"}]}]}]),
            "steps[0].branches[0].rules[0].value",
        ),
    ] {
        let response = gateway.put(&project, &path, &json!({ "steps": steps })).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}

#[tokio::test]
async fn template_used_by_active_runs_cannot_be_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let mail = template(&gateway, &project, "EMAIL").await;
    let steps = json!([{"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 60,
        "then": [{"type": "SEND_EMAIL", "templateId": mail}], "else": []}]);
    let mut new = automation(steps);
    new["active"] = json!(true);
    let made = gateway.post(&project, "/automations", &new).await.expect(201);
    let (path, template) = (format!("/automations/{}", made["id"].as_str().unwrap()), format!("/templates/{mail}"));
    assert_eq!(gateway.delete(&project, &template).await.status, 409, "active");
    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, \
               started_at, updated_at) VALUES ($1, $2, $2, 1, $2, 'waiting', 'steps[0]', 0, '{}', now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id]).await.unwrap();
    gateway.put(&project, &path, &json!({"active": false, "steps": []})).await.expect(200);
    let response = gateway.delete(&project, &template).await;
    assert_eq!(response.status, 409);
    assert!(response.body["message"].as_str().unwrap().contains("active runs"), "{}", response.body);
    gateway.sql.batch_execute("UPDATE run SET status = 'completed', ended_at = now()").await.unwrap();
    gateway.delete(&project, &template).await.expect(200);
}

#[tokio::test]
async fn invalid_fields_are_reported() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let response = gateway.post(&project, "/automations", &json!({"name": "n", "goal": {}, "x": 1})).await;
    let mut fields = response.fields();
    fields.sort_unstable();
    assert_eq!((response.status, fields), (422, vec!["goal.event", "triggerEvent", "triggerType", "x"]));
    let made = gateway.post(&project, "/automations", &automation(json!([]))).await.expect(201);
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    for path in [path.as_str(), "/automations/x"] {
        assert_eq!(gateway.get(&other, path).await.status, 404);
        assert_eq!(gateway.put(&other, path, &json!({"name": "m"})).await.status, 404);
        assert_eq!(gateway.delete(&other, path).await.status, 404);
    }
    let body = gateway.get(&project, "/automations").await.expect(200);
    assert_eq!(texts(&body["automations"], "name"), ["Reminder"]);
}

#[tokio::test]
async fn trigger_segment_is_tracked_and_cannot_be_deleted() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rules = json!([{"field": "event:bought", "operator": "did", "value": {"within": "7d"}}]);
    let segment = gateway.post(&project, "/segments", &json!({"name": "s", "rules": rules})).await.expect(201);
    assert_eq!(segment["membership"], Value::Null);
    let new = |segment: &Value| json!({"name": "n", "triggerType": "SEGMENT_ENTER", "triggerSegmentId": segment, "active": true, "steps": []});
    for (tenant, segment) in [(&other, &segment["id"]), (&project, &json!(Uuid::from_u128(5)))] {
        let response = gateway.post(tenant, "/automations", &new(segment)).await;
        assert_eq!((response.status, response.fields()), (422, vec!["triggerSegmentId"]));
    }
    let made = gateway.post(&project, "/automations", &new(&segment["id"])).await.expect(201);
    assert_eq!((&made["triggerEvent"], &made["triggerSegmentId"]), (&Value::Null, &segment["id"]));
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    let same = gateway.put(&project, &path, &made).await.expect(200);
    assert_eq!(same["version"], 1);

    let of_segment = format!("/segments/{}", segment["id"].as_str().unwrap());
    let filling = json!({"status": "filling", "progress": 0.0});
    assert_eq!(gateway.get(&project, &of_segment).await.expect(200)["membership"], filling);
    let dependencies = async || {
        let sql = "SELECT array_to_string(looks_at, ' ') FROM segment_watch WHERE project_id = $1";
        gateway.sql.query_one(sql, &[&project.id]).await.unwrap().get::<_, String>(0)
    };
    assert_eq!(dependencies().await, "event:bought person");
    let changed = json!({"rules": [{"field": "plan", "operator": "eq", "value": "pro"}]});
    gateway.put(&project, &of_segment, &changed).await.expect(200);
    assert_eq!(dependencies().await, "profile person");
    let report = gateway.get(&project, &format!("{of_segment}/report?range=30d")).await.expect(200);
    assert_eq!((&report["membership"], &report["entered"]), (&filling, &json!(0)));
    assert_eq!(report["timeseries"].as_array().unwrap().len(), 30);

    let response = gateway.delete(&project, &of_segment).await;
    assert!(
        response.status == 409 && response.body["message"].as_str().unwrap().contains("is triggered by this segment")
    );
    gateway.put(&project, &path, &json!({"active": false})).await.expect(200);
    assert_eq!(
        (dependencies().await.as_str(), &gateway.get(&project, &of_segment).await.body["membership"]),
        ("", &Value::Null)
    );
    gateway.delete(&project, &of_segment).await.expect(200);
    // The automation cannot be activated without its segment.
    let response = gateway.put(&project, &path, &json!({"active": true})).await;
    assert_eq!((response.status, response.fields()), (422, vec!["triggerSegmentId"]));
}

/// A change of segments locks the topic first, then the segment.
#[tokio::test]
async fn update_takes_the_segment_lock_before_locking_segments() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let segment = gateway.post(&project, "/segments", &json!({"name": "s"})).await.expect(201);
    let segment = segment["id"].as_str().unwrap();
    let new =
        json!({"name": "n", "triggerType": "SEGMENT_ENTER", "triggerSegmentId": segment, "active": true, "steps": []});
    let made = gateway.post(&project, "/automations", &new).await.expect(201);
    let path = format!("/automations/{}", made["id"].as_str().unwrap());
    let rules = json!([{"field": "segment", "operator": "eq", "value": segment}]);
    let by_event = json!({"triggerType": "EVENT", "triggerEvent": "e", "entryRules": rules});

    gateway.sql.batch_execute("BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'segment'").await.unwrap();
    let change = async {
        eventually_true("the automation's change waits for the lock", Duration::from_secs(5), async || {
            let sql =
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
            gateway.sql.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        let locks =
            format!("SET LOCAL lock_timeout = '2s'; SELECT FROM segment WHERE id = '{segment}' FOR UPDATE; COMMIT");
        gateway.sql.batch_execute(&locks).await.unwrap();
    };
    let (response, ()) = tokio::join!(gateway.put(&project, &path, &by_event), change);
    assert_eq!(response.expect(200)["triggerType"], "EVENT");
}
