//! Runs of automations, their report, and dry runs.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Gateway, held_renderings};
use crate::rows::Rows;
use crate::setup::Tenant;

async fn made(gateway: &Gateway, project: &Tenant, steps: Value, parts: Value) -> (Uuid, String) {
    let mut new = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    new.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    let made = gateway.post(project, "/automations", &new).await.expect(201);
    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    (id, format!("/automations/{id}"))
}

fn steps_of(path: &Value) -> Vec<String> {
    let text = |mark: &Value| {
        let part = |name: &str| mark[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", part("step"), part("did"), part("arm"))
    };
    path.as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn runs_are_listed_and_show_their_history() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (id, path) =
        made(&gateway, &project, json!([{"type": "WAIT", "delay": 60, "name": "a minute"}]), json!({})).await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 1).await;
    let message = kernel::ids::fresh(gateway.app.clock.now_ms());
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, created_at, updated_at) \
               VALUES ($1, $2, $3, 'EMAIL', 'automation', 'suppressed', 'frequency_cap', now(), now())";
    gateway.sql.execute(sql, &[&project.id, &message, &user]).await.unwrap();
    let trail = json!([
        {"at": "2026-01-01T00:00:00Z", "step": "steps[0]", "did": "waited", "until": "2026-01-01T00:01:00Z"},
        {"at": "2026-01-01T00:01:00Z", "step": "steps[1]", "did": "sent", "messageId": message},
        {"at": "2026-01-01T00:01:00Z", "did": "converted", "why": "bought"},
    ]);
    let run = |n: u128, status: &str| (Uuid::from_u128(n), status.to_owned());
    for (id_of_run, status) in [run(1, "waiting"), run(2, "completed"), run(3, "exited")] {
        let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, \
                   trail, due_at, started_at, updated_at, ended_at) VALUES ($1, $2, $3, 1, $4, $5, 'steps[0]', 0, \
                   '{\"name\": \"e\"}', $6, now(), now(), now(), CASE $5 WHEN 'waiting' THEN NULL ELSE now() END)";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&project.id, &id_of_run, &id, &user, &status, &trail];
        gateway.sql.execute(sql, &values).await.unwrap();
    }
    let runs = format!("{path}/runs");
    let first = gateway.get(&project, &format!("{runs}?limit=2")).await.expect(200);
    let statuses = |body: &Value| {
        let runs = body["runs"].as_array().unwrap().clone();
        runs.iter().map(|r| r["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(&first), ["exited", "completed"]);
    let next = format!("{runs}?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    let rest = gateway.get(&project, &next).await.expect(200);
    assert_eq!((statuses(&rest), &rest["nextCursor"]), (vec!["waiting".to_owned()], &Value::Null));
    assert_eq!((&rest["runs"][0]["userId"], &rest["runs"][0]["step"]), (&json!("u1"), &json!("steps[0]")));
    let narrowed = gateway.get(&project, &format!("{runs}?status=completed&userId=u1")).await.expect(200);
    assert_eq!(statuses(&narrowed), ["completed"]);
    assert_eq!(gateway.get(&project, &format!("{runs}?userId=unknown")).await.expect(200)["runs"], json!([]));
    assert_eq!(gateway.get(&project, &format!("{runs}?status=lost")).await.status, 422);

    let shown = gateway.get(&project, &format!("{runs}/{}", Uuid::from_u128(2))).await.expect(200);
    assert_eq!(steps_of(&shown["path"]), ["steps[0] waited -", "steps[1] sent -", "- converted -"]);
    assert_eq!((&shown["path"][0]["type"], &shown["path"][0]["name"]), (&json!("WAIT"), &json!("a minute")));
    assert_eq!(shown["path"][0]["until"], "2026-01-01T00:01:00.000Z");
    let sent = &shown["path"][1];
    assert_eq!((&sent["messageStatus"], &sent["messageStatusReason"]), (&json!("suppressed"), &json!("frequency_cap")));
    for path in [format!("{runs}/{}", Uuid::from_u128(9)), format!("/automations/{}/runs", Uuid::from_u128(9))] {
        assert_eq!(gateway.get(&project, &path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn report_sums_counts_by_step() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let awaits = json!({"type": "WAIT_FOR_EVENT", "event": "x", "timeout": 60, "then": [{"type": "EXIT"}], "else": []});
    let (id, path) = made(&gateway, &project, json!([awaits]), json!({})).await;
    for (version, step, did, arm, lane, count) in [
        (1, "", "entered", "", 0_i16, 7_i64),
        (1, "", "entered", "", 1, 3),
        (1, "", "exited", "", 0, 4),
        (1, "", "completed", "", 0, 3),
        (1, "", "converted", "", 0, 2),
        (1, "steps[0]", "waited", "", 0, 10),
        (1, "steps[0]", "took", "then", 0, 4),
        (1, "steps[0]", "took", "else", 0, 3),
        (1, "steps[0].then[0]", "exited", "", 0, 4),
    ] {
        let sql = "INSERT INTO automation_count VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&project.id, &id, &version, &step, &did, &arm, &lane, &count];
        gateway.sql.execute(sql, &values).await.unwrap();
    }
    let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, \
               started_at, updated_at) SELECT $1, gen_random_uuid(), $2, 1, $2, 'waiting', 'steps[0]', 0, '{}', now(), now() \
               FROM generate_series(1, 3)";
    gateway.sql.execute(sql, &[&project.id, &id]).await.unwrap();
    let report = gateway.get(&project, &format!("{path}/report")).await.expect(200);
    let whole =
        ["entered", "waiting", "frozen", "completed", "exited", "failed", "converted"].map(|name| report[name].clone());
    assert_eq!(whole.map(|n| n.as_i64().unwrap()), [10, 3, 0, 3, 4, 0, 2]);
    let step = &report["steps"][0];
    assert_eq!((&step["step"], &step["entered"], &step["waiting"]), (&json!("steps[0]"), &json!(10), &json!(3)));
    assert_eq!(step["arms"], json!({"then": 4, "else": 3}));
    assert_eq!((&report["steps"][1]["step"], &report["steps"][1]["entered"]), (&json!("steps[0].then[0]"), &json!(4)));
    // The next version starts at zero; the totals continue.
    gateway.put(&project, &path, &json!({"steps": []})).await.expect(200);
    let newer = gateway.get(&project, &format!("{path}/report")).await.expect(200);
    assert_eq!((&newer["version"], &newer["entered"], &newer["steps"]), (&json!(2), &json!(10), &json!([])));
    let older = gateway.get(&project, &format!("{path}/report?version=1")).await.expect(200);
    assert_eq!(older["steps"], report["steps"]);
    assert_eq!(gateway.get(&project, &format!("{path}/report?version=3")).await.status, 404);
}

#[tokio::test]
async fn simulation_shows_the_path_without_effects() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let template = json!({"name": "n", "channel": "EMAIL", "subject": "s", "body": "b"});
    let template = gateway.post(&project, "/templates", &template).await.expect(201)["id"].clone();
    let mail = json!({"type": "SEND_EMAIL", "templateId": template});
    let tier = json!([{"field": "steps.crm.response.tier", "operator": "eq", "value": 3}]);
    // Welcome mail; after 3 days without a purchase a reminder; after 7 more days a discount.
    let steps = json!([
        mail,
        {"type": "WAIT_FOR_EVENT", "event": "bought", "timeout": "3d", "then": [{"type": "EXIT"}], "else": [
            mail,
            {"type": "WAIT_FOR_EVENT", "event": "bought", "timeout": "7d", "then": [], "else": [mail]},
        ]},
        {"type": "WEBHOOK", "name": "crm", "url": "https://example.com/"},
        {"type": "BRANCH", "branches": [{"rules": tier, "steps": [{"type": "UPDATE_USER", "properties": {"vip": true}}]}]},
    ]);
    let entry = json!({"entryRules": [{"field": "plan", "operator": "eq", "value": "free"}]});
    let (_, path) = made(&gateway, &project, steps, entry).await;
    let simulate = format!("{path}/simulate");
    let refused = gateway.post(&project, &simulate, &json!({"properties": {"plan": "pro"}})).await.expect(200);
    assert_eq!((&refused["admitted"], &refused["path"]), (&json!(false), &json!([])));

    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("u1", None, None, 1).await;
    let early = json!({"userId": "u1", "properties": {"plan": "free"}, "events": [{"event": "bought", "after": 3600}]});
    let bought = gateway.post(&project, &simulate, &early).await.expect(200);
    assert_eq!((&bought["status"], &bought["reason"]), (&json!("exited"), &json!("exit_step")));
    assert_eq!(steps_of(&bought["path"])[1..3], ["steps[1] waited -", "steps[1] took then"]);

    let never = json!({"properties": {"plan": "free"}, "answers": {"crm": {"tier": 3}}});
    let shown = gateway.post(&project, &simulate, &never).await.expect(200);
    let expected = [
        "steps[0] sent -",
        "steps[1] waited -",
        "steps[1] took else",
        "steps[1].else[0] sent -",
        "steps[1].else[1] waited -",
        "steps[1].else[1] took else",
        "steps[1].else[1].else[0] sent -",
        "steps[2] called -",
        "steps[2] answered -",
        "steps[3] took branches[0]",
        "steps[3].branches[0].steps[0] updated -",
    ];
    assert_eq!(steps_of(&shown["path"]), expected);
    let kinds: Vec<&str> = shown["effects"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "message", "webhook", "userUpdated"]);
    assert_eq!(shown["status"], "completed");
    for table in ["run", "message", "webhook_call", "timer", "outbox"] {
        let count = gateway.sql.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), 0, "{table}");
    }
    let wrong = json!({"userId": "unknown", "events": [{"after": -1}], "x": 1});
    let mut fields = gateway.post(&project, &simulate, &wrong).await.fields().join(" ");
    fields.push(' ');
    assert_eq!(fields, "events[0].event events[0].after x ");
    assert_eq!(gateway.post(&project, &simulate, &json!({"userId": "unknown"})).await.fields(), ["userId"]);
    let held = held_renderings(&gateway, &project).await;
    assert_eq!(gateway.post(&project, &simulate, &json!({})).await.status, 503);
    drop(held);
}

/// Simulated events count like recorded ones, and simulated time moves both out of their windows.
#[tokio::test]
async fn simulation_counts_its_own_events() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let did = |event: &str, value: Value| json!({"field": format!("event:{event}"), "operator": "did", "value": value});
    let seen = json!({"type": "UPDATE_USER", "properties": {"seen": true}});
    let branch = |rules: Value| json!({"type": "BRANCH", "branches": [{"rules": rules, "steps": [seen]}]});
    let lately = branch(json!([did("bought", json!({"within": "2d", "sum": {"property": "total", "gte": 12}}))]));
    let steps = json!([
        {"type": "WAIT", "delay": 86400}, lately,
        {"type": "WAIT", "delay": 172_800}, lately,
        {"type": "TRACK_EVENT", "event": "asked"},
        {"type": "WAIT_FOR_EVENT", "event": "asked", "timeout": 60, "then": [], "else": []},
        branch(json!([did("asked", json!({}))])),
    ]);
    let parts = json!({
        "entryRules": [did("e", json!({"count": {"eq": 1}}))], "exitRules": [did("bought", json!({"count": {"gte": 4}}))],
    });
    let (_, path) = made(&gateway, &project, steps, parts).await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 1).await;
    for age in ["1 hour", "3 days"] {
        let sql = format!(
            "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
             VALUES ($1, $2, 'bought', $3, '{{\"total\": 10}}', now() - interval '{age}', now())"
        );
        let id = kernel::ids::fresh(gateway.app.clock.now_ms());
        gateway.sql.execute(&sql, &[&project.id, &id, &user]).await.unwrap();
    }
    let bought = |after: u32| json!({"event": "bought", "properties": {"total": 2}, "after": after});
    let simulated = async |events: Value, user: Option<&str>| {
        let body = json!({"userId": user, "events": events});
        gateway.post(&project, &format!("{path}/simulate"), &body).await.expect(200)
    };
    let shown = simulated(json!([bought(3600)]), Some("u1")).await;
    let arms = |shown: &Value| {
        let all = steps_of(&shown["path"]);
        all.iter().filter(|step| step.contains("took")).cloned().collect::<Vec<_>>().join(", ")
    };
    let expected = "steps[1] took branches[0], steps[3] took else, steps[5] took then, steps[6] took branches[0]";
    assert_eq!((arms(&shown).as_str(), &shown["status"]), (expected, &json!("completed")), "{shown}");
    // Without the simulated event, the user has not spent enough.
    assert!(arms(&simulated(json!([]), Some("u1")).await).starts_with("steps[1] took else"));
    // Without a user, only the simulated events are known.
    assert!(arms(&simulated(json!([bought(3600)]), None).await).starts_with("steps[1] took else"));
    let left = simulated(json!([bought(3600), bought(7200)]), Some("u1")).await;
    assert_eq!((&left["status"], &left["reason"]), (&json!("exited"), &json!("exit_rules")), "{left}");
    let count = gateway.sql.query_one("SELECT count(*) FROM events", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
}

/// Ten concurrent simulations delay neither database connections nor other responses.
#[tokio::test]
async fn simulation_over_the_rendering_limit_fails_like_a_run() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let long = "{% for i in (1..9999) %}{{ i | append: '....................' }}{% endfor %}";
    let properties: serde_json::Map<String, Value> = (0..90).map(|i| (format!("p{i}"), json!(long))).collect();
    let (_, path) =
        made(&gateway, &project, json!([{"type": "UPDATE_USER", "properties": properties}]), json!({})).await;
    let (simulate, nothing) = (format!("{path}/simulate"), json!({}));
    let answers = (0..10).map(|_| gateway.post(&project, &simulate, &nothing));
    for response in futures_util::future::join_all(answers).await {
        let simulated = response.expect(200);
        assert_eq!(
            (&simulated["status"], &simulated["reason"]),
            (&json!("failed"), &json!("rendering_limit")),
            "{simulated}"
        );
        assert_eq!(steps_of(&simulated["path"]), ["steps[0] failed -"]);
    }
}
