//! `/projects`

use serde_json::{Value, json};
use shared::store::members::Role;
use shared::store::projects;
use testkit::eventually;

use crate::fixture::{Gateway, texts};
use crate::setup::{master_keys, secs};

#[tokio::test]
async fn whoever_makes_a_project_is_its_admin() {
    let gateway = Gateway::start().await;
    let first = gateway.project().await;
    let member = gateway.log_in(&first, Role::Member).await;
    let new = json!({"name": "Second", "timezone": "Europe/Berlin", "rateLimit": 50, "retentionDays": 30,
                     "tracking": false, "identityVerification": true});
    let made = gateway.post_as(&member, "/projects", &new).await.expect(201);
    for (field, value) in new.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!(made["role"], "ADMIN");
    let list = gateway.get_as(&member, "/projects").await.expect(200);
    assert_eq!(texts(&list["projects"], "role"), ["MEMBER", "ADMIN"]);
    let path = format!("/projects/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get_as(&member, &path).await.expect(200), made);
    // Who belongs to several must say which.
    let unnamed = gateway.call("GET", "/team").header("cookie", &member.cookie).send("").await;
    unnamed.error(422);
    assert_eq!(unnamed.json()["details"][0]["field"], "X-Project-Id");
}

#[tokio::test]
async fn settings_change_and_members_see_no_secrets() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let member = gateway.log_in(&project, Role::Member).await;
    let path = format!("/projects/{}", project.id);
    let read = gateway.get_as(&admin, &path).await.expect(200);
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    assert_eq!((&read["webhookSecret"], &read["identitySecret"]), (&json!(secrets.webhook), &json!(secrets.identity)));
    let seen = gateway.get_as(&member, &path).await.expect(200);
    assert!(seen["webhookSecret"].is_null() && seen["identitySecret"].is_null() && seen["role"] == "MEMBER");

    gateway.put_as(&admin, &path, &read).await.expect(200);
    let changed = gateway.put_as(&admin, &path, &json!({"name": "Shop", "rateLimit": 7})).await.expect(200);
    assert_eq!((&changed["name"], &changed["timezone"]), (&json!("Shop"), &json!("UTC")));
    // The new limit reaches the keys that are known.
    eventually(secs(1), async || {
        let answer = gateway.call("GET", "/templates").header("x-api-key", &project.secret).send("").await;
        let limit = answer.header("ratelimit-limit").map(str::to_owned);
        if limit.as_deref() == Some("7") { Ok(()) } else { Err(limit) }
    })
    .await;
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    let differences = json!({"name": {"from": "Test", "to": "Shop"}, "rateLimit": {"from": 100_000, "to": 7}});
    assert_eq!(log["entries"][0]["details"], differences);
    for (body, field) in [(json!({"name": ""}), "name"), (json!({"rateLimit": 0}), "rateLimit"), (json!({"x": 1}), "x")]
    {
        let answer = gateway.put_as(&admin, &path, &body).await;
        assert_eq!((answer.status, answer.fields()), (422, vec![field]));
    }
    assert_eq!(gateway.get_as(&admin, "/projects/nonsense").await.status, 404);
}

#[tokio::test]
async fn a_rotated_webhook_secret_goes_on_for_a_day() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let path = format!("/projects/{}", project.id);
    let before = gateway.get_as(&admin, &path).await.expect(200);
    let rotated = gateway.post_as(&admin, &format!("{path}/webhook-secret"), &Value::Null).await.expect(200);
    let after = gateway.get_as(&admin, &path).await.expect(200);
    assert_ne!(before["webhookSecret"], rotated["webhookSecret"]);
    assert_eq!(after["webhookSecret"], rotated["webhookSecret"]);
    assert_eq!(after["previousWebhookSecretUntil"], rotated["previousWebhookSecretUntil"]);
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    let accepted: Vec<_> = secrets.accepted_webhook(gateway.app.clock.now()).map(|s| json!(s)).collect();
    assert_eq!(accepted, [after["webhookSecret"].clone(), before["webhookSecret"].clone()]);
    assert_eq!(after["identitySecret"], before["identitySecret"]);
}

#[tokio::test]
async fn the_audit_log_is_paged() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    for n in 0..5 {
        let path = format!("/projects/{}", project.id);
        gateway.put_as(&admin, &path, &json!({"name": format!("name {n}")})).await.expect(200);
    }
    let first = gateway.get_as(&admin, "/audit-log?limit=2").await.expect(200);
    assert_eq!((&first["total"], &first["page"]), (&json!(5), &json!(1)));
    assert_eq!(texts(&first["entries"], "resourceName"), ["name 4", "name 3"]);
    let next = format!("/audit-log?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    let second = gateway.get_as(&admin, &next).await.expect(200);
    assert_eq!(texts(&second["entries"], "resourceName"), ["name 2", "name 1"]);
    let by = gateway.get_as(&admin, &format!("/audit-log?actor={}", admin.account)).await.expect(200);
    assert_eq!(by["total"], 5);
    let none = gateway.get_as(&admin, "/audit-log?action=x&resource=y").await.expect(200);
    assert_eq!((&none["total"], &none["entries"], &none["nextCursor"]), (&json!(0), &json!([]), &Value::Null));
    for wrong in ["limit=0", "limit=101", "page=0", "cursor=x", "actor=x"] {
        assert_eq!(gateway.get_as(&admin, &format!("/audit-log?{wrong}")).await.status, 422, "{wrong}");
    }
}
