//! `ETag` and `If-Match`: of two concurrent changes, neither silently overwrites the other.

use serde_json::{Value, json};
use store_projects::members::Role;

use crate::fixture::Gateway;
use crate::http::HttpResponse;
use crate::login::Login;
use crate::rows::Rows;

/// An admin's access to one resource.
struct ResourceClient<'a> {
    gateway: &'a Gateway,
    admin: &'a Login,
    path: String,
}

impl ResourceClient<'_> {
    async fn send(&self, method: &str, if_match: Option<&str>, body: &Value) -> HttpResponse {
        let call = self.gateway.call_as(self.admin, method, &self.path);
        let call = if_match.into_iter().fold(call, |call, tag| call.header("if-match", tag));
        call.send(if body.is_null() { String::new() } else { body.to_string() }).await
    }

    async fn put(&self, if_match: Option<&str>, body: &Value) -> HttpResponse {
        self.send("PUT", if_match, body).await
    }

    /// Returns the representation and its tag.
    async fn read(&self) -> (Value, String) {
        let response = self.send("GET", None, &Value::Null).await;
        assert_eq!(response.status, 200, "{}: {}", self.path, response.text);
        (response.json(), tag_of(&response))
    }
}

#[track_caller]
fn tag_of(response: &HttpResponse) -> String {
    let tag = response.header("etag").unwrap_or_else(|| panic!("no ETag: {response:?}"));
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{tag}");
    tag.to_owned()
}

/// Creates a resource and asserts that the response carries the tag with which it is read.
async fn made<'a>(gateway: &'a Gateway, admin: &'a Login, path: &str, body: Value) -> ResourceClient<'a> {
    let response = gateway.call_as(admin, "POST", path).send(body.to_string()).await;
    assert_eq!(response.status, 201, "{path}: {}", response.text);
    let id = response.json()["id"].as_str().unwrap().to_owned();
    let resource = ResourceClient { gateway, admin, path: format!("{path}/{id}") };
    assert_eq!(resource.read().await.1, tag_of(&response), "{path}");
    resource
}

/// Asserts every guarantee of `If-Match`, for changes that set a text.
async fn assert_if_match(resource: &ResourceClient<'_>, change: impl Fn(&str) -> Value) {
    let path = &resource.path;
    let (_, first) = resource.read().await;
    assert_eq!(resource.read().await.1, first, "{path}: the tag changed without a change");

    let taken = resource.put(Some(&first), &change("one")).await;
    assert_eq!(taken.status, 200, "{path}: {}", taken.text);
    let (shown, second) = resource.read().await;
    assert_ne!(second, first, "{path}");
    assert_eq!(tag_of(&taken), second, "{path}");

    for method in ["PUT", "DELETE"] {
        if method == "DELETE" && path == "/channels" {
            continue;
        }
        for (if_match, status) in [
            (first.as_str(), 412),
            (&format!("W/{second}"), 412),
            (&format!("{first}, \"x\""), 412),
            (second.trim_matches('"'), 400),
            ("", 400),
        ] {
            let message = resource.send(method, Some(if_match), &change("lost")).await.error(status);
            let named = if status == 412 { "nothing was written" } else { "If-Match must be" };
            assert!(message.contains(named), "{method} {path}: {message}");
            assert_eq!(resource.read().await, (shown.clone(), second.clone()), "{method} {path} {if_match}");
        }
    }

    // A match in a list, `*`, and no header are all accepted.
    let listed = format!("\"x\", {second}");
    for (if_match, text) in [(Some(listed.as_str()), "two"), (Some("*"), "three"), (None, "four")] {
        let response = resource.put(if_match, &change(text)).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text);
        assert_eq!(resource.read().await.1, tag_of(&response), "{path}");
    }

    // Exactly one of two concurrent changes succeeds.
    for round in 0..5 {
        let (_, tag) = resource.read().await;
        let (left, right) = (change(&format!("left {round}")), change(&format!("right {round}")));
        let (left, right) = tokio::join!(resource.put(Some(&tag), &left), resource.put(Some(&tag), &right));
        let mut statuses = [left.status, right.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "{path}: {} {}", left.text, right.text);
        let (shown, now) = resource.read().await;
        let (winner, won) = if left.status == 200 { (left, "left") } else { (right, "right") };
        assert_eq!(tag_of(&winner), now, "{path}");
        assert!(shown.to_string().contains(&format!("\"{won} {round}\"")), "{path}: {shown}");
    }
}

/// Deletes with the current tag, and asserts that no tag matches afterwards.
async fn assert_delete_needs_tag(resource: &ResourceClient<'_>) {
    let (_, tag) = resource.read().await;
    assert_eq!(resource.send("DELETE", Some(&tag), &Value::Null).await.status, 200, "{}", resource.path);
    for if_match in [tag.as_str(), "*"] {
        assert_eq!(resource.put(Some(if_match), &json!({})).await.status, 404, "{}", resource.path);
    }
}

fn named(name: &str) -> Value {
    json!({ "name": name })
}

#[tokio::test]
async fn if_match_protects_automations() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    // Numbers that PostgreSQL writes differently.
    let properties =
        json!({"a": 1e18, "b": -0.0, "c": 1.0, "d": {"z": [1.5e-7, 2.262_671_630_467_338_8e-7], "a": u64::MAX}});
    let steps = json!([{"type": "UPDATE_USER", "properties": properties}]);
    let automation = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    let resource = made(&gateway, &admin, "/automations", automation).await;
    assert_if_match(&resource, named).await;
    assert_if_match(&resource, |event| json!({ "triggerEvent": event })).await;
    assert_delete_needs_tag(&resource).await;
}

#[tokio::test]
async fn if_match_protects_templates() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    let template = json!({"name": "t", "channel": "EMAIL", "subject": "s", "body": "b", "tags": ["x"]});
    let resource = made(&gateway, &admin, "/templates", template).await;
    assert_if_match(&resource, named).await;
    assert_if_match(&resource, |text| json!({ "body": text })).await;

    // The compressed representation has its own tag for the same state.
    resource.put(None, &json!({"body": "long ".repeat(1_000)})).await;
    let zipped = gateway.call_as(&admin, "GET", &resource.path).header("accept-encoding", "gzip").send("").await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    let tag = tag_of(&zipped);
    assert_ne!(tag, resource.read().await.1);
    assert_eq!(resource.put(Some(&tag), &named("zipped")).await.status, 200);
    resource.put(Some(&tag), &named("stale")).await.error(412);
    assert_delete_needs_tag(&resource).await;
}

#[tokio::test]
async fn if_match_protects_segments() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let rules = json!([{"field": "spent", "operator": "gte", "value": 1e18}]);
    let resource = made(&gateway, &admin, "/segments", json!({"name": "s", "rules": rules})).await;
    assert_if_match(&resource, named).await;
    assert_if_match(&resource, |text| json!({"rules": [{"field": "plan", "operator": "eq", "value": text}]})).await;

    // The number of members is not part of the state.
    resource.put(None, &json!({"rules": []})).await;
    let (before, tag) = resource.read().await;
    Rows { gateway: &gateway, project: project.id }.user("u", None, None, 1).await;
    let (after, same) = resource.read().await;
    assert_eq!((before["userCount"].as_i64(), after["userCount"].as_i64()), (Some(0), Some(1)));
    assert_eq!(same, tag);
    assert_delete_needs_tag(&resource).await;
}

#[tokio::test]
async fn if_match_protects_campaigns() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let id = |made: Value| made["id"].as_str().unwrap().to_owned();
    let template = json!({"name": "t", "channel": "EMAIL", "subject": "s", "body": "b"});
    let template = id(gateway.post(&project, "/templates", &template).await.expect(201));
    let segment = id(gateway.post(&project, "/segments", &json!({"name": "s", "rules": []})).await.expect(201));
    let variants = json!([{"name": "a", "templateId": template, "weight": 50}, {"name": "b", "templateId": template, "weight": 50}]);
    let campaign = json!({"name": "c", "channel": "EMAIL", "segmentId": segment, "variants": variants,
                          "goal": {"event": "paid", "within": "7d"}, "throttlePerMinute": 100});
    let resource = made(&gateway, &admin, "/campaigns", campaign).await;
    assert_if_match(&resource, named).await;
    assert_if_match(&resource, |text| json!({"goal": {"event": text, "within": "1d"}})).await;

    // Progress is not part of the state; sending is.
    let (_, tag) = resource.read().await;
    let sql = "UPDATE campaign SET recipients = 7, updated_at = now() WHERE project_id = $1";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    let (shown, same) = resource.read().await;
    assert_eq!((shown["recipients"].as_i64(), &same), (Some(7), &tag));
    let send = async |if_match: &str| {
        let call = gateway.call_as(&admin, "POST", &format!("{}/send", resource.path)).header("if-match", if_match);
        call.send("").await
    };
    send("\"stale\"").await.error(412);
    send("stale").await.error(400);
    assert_eq!(resource.read().await.0["status"], "DRAFT");
    let sent = send(&tag).await;
    assert_eq!((sent.status, sent.json()["status"].as_str()), (200, Some("SENDING")));
    assert_ne!(tag_of(&sent), tag);
    resource.put(Some(&tag), &named("stale")).await.error(412);
}

#[tokio::test]
async fn if_match_protects_news_items_and_groups() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    let item = made(&gateway, &admin, "/news", json!({"title": "t", "body": "b", "published": true})).await;
    assert_if_match(&item, |title| json!({ "title": title })).await;
    assert_delete_needs_tag(&item).await;
    let group = made(&gateway, &admin, "/subscription-groups", json!({"name": "g"})).await;
    assert_if_match(&group, |text| json!({ "description": text })).await;
    assert_delete_needs_tag(&group).await;
}

#[tokio::test]
async fn if_match_protects_project_settings() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let resource = ResourceClient { gateway: &gateway, admin: &admin, path: format!("/projects/{}", project.id) };
    assert_if_match(&resource, named).await;
}

#[tokio::test]
async fn if_match_protects_channels() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let resource = ResourceClient { gateway: &gateway, admin: &admin, path: "/channels".to_owned() };
    assert_if_match(&resource, |text| json!({ "emailFromName": text })).await;

    // A secret is not returned, but its change alters the tag. A provider's error does not.
    let (before, tag) = resource.read().await;
    assert_eq!(resource.put(Some(&tag), &json!({"smtpPassword": "hunter2"})).await.status, 200);
    let (mut after, other) = resource.read().await;
    assert_eq!(after["email"]["smtpPasswordSet"].take(), json!(true));
    after["email"]["smtpPasswordSet"] = json!(false);
    assert_eq!(after, before);
    assert_ne!(other, tag);
    let sql = "UPDATE channel SET error = 'refused', error_at = now() WHERE project_id = $1 AND channel = 'email'";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    let (shown, same) = resource.read().await;
    assert_eq!((shown["email"]["error"].as_str(), same), (Some("refused"), other));
}
