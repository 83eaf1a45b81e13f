//! `ETag` and `If-Match`: of two concurrent changes, neither silently overwrites the other.

use serde_json::{Value, json};
use store_projects::members::Role;

use crate::fixture::Gateway;
use crate::http::Answer;
use crate::login::Login;
use crate::people::Rows;

/// An admin's access to one resource.
struct Desk<'a> {
    gateway: &'a Gateway,
    admin: &'a Login,
    path: String,
}

impl Desk<'_> {
    async fn send(&self, method: &str, if_match: Option<&str>, body: &Value) -> Answer {
        let call = self.gateway.call_as(self.admin, method, &self.path);
        let call = if_match.into_iter().fold(call, |call, tag| call.header("if-match", tag));
        call.send(if body.is_null() { String::new() } else { body.to_string() }).await
    }

    async fn put(&self, if_match: Option<&str>, body: &Value) -> Answer {
        self.send("PUT", if_match, body).await
    }

    /// Returns the representation and its tag.
    async fn read(&self) -> (Value, String) {
        let answer = self.send("GET", None, &Value::Null).await;
        assert_eq!(answer.status, 200, "{}: {}", self.path, answer.text);
        (answer.json(), tag_of(&answer))
    }
}

#[track_caller]
fn tag_of(answer: &Answer) -> String {
    let tag = answer.header("etag").unwrap_or_else(|| panic!("no ETag: {answer:?}"));
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{tag}");
    tag.to_owned()
}

/// Creates a resource and asserts that the response carries the tag with which it is read.
async fn made<'a>(gateway: &'a Gateway, admin: &'a Login, path: &str, body: Value) -> Desk<'a> {
    let answer = gateway.call_as(admin, "POST", path).send(body.to_string()).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.text);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let desk = Desk { gateway, admin, path: format!("{path}/{id}") };
    assert_eq!(desk.read().await.1, tag_of(&answer), "{path}");
    desk
}

/// Asserts every guarantee of `If-Match`, for changes that set a text.
async fn keeps_its_promises(desk: &Desk<'_>, change: impl Fn(&str) -> Value) {
    let path = &desk.path;
    let (_, first) = desk.read().await;
    assert_eq!(desk.read().await.1, first, "{path}: the tag changed without a change");

    let taken = desk.put(Some(&first), &change("one")).await;
    assert_eq!(taken.status, 200, "{path}: {}", taken.text);
    let (shown, second) = desk.read().await;
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
            let message = desk.send(method, Some(if_match), &change("lost")).await.error(status);
            let named = if status == 412 { "nothing was written" } else { "If-Match must be" };
            assert!(message.contains(named), "{method} {path}: {message}");
            assert_eq!(desk.read().await, (shown.clone(), second.clone()), "{method} {path} {if_match}");
        }
    }

    // A match in a list, `*`, and no header are all accepted.
    let listed = format!("\"x\", {second}");
    for (if_match, text) in [(Some(listed.as_str()), "two"), (Some("*"), "three"), (None, "four")] {
        let answer = desk.put(if_match, &change(text)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(desk.read().await.1, tag_of(&answer), "{path}");
    }

    // Exactly one of two concurrent changes succeeds.
    for round in 0..5 {
        let (_, tag) = desk.read().await;
        let (left, right) = (change(&format!("left {round}")), change(&format!("right {round}")));
        let (left, right) = tokio::join!(desk.put(Some(&tag), &left), desk.put(Some(&tag), &right));
        let mut statuses = [left.status, right.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "{path}: {} {}", left.text, right.text);
        let (shown, now) = desk.read().await;
        let (winner, won) = if left.status == 200 { (left, "left") } else { (right, "right") };
        assert_eq!(tag_of(&winner), now, "{path}");
        assert!(shown.to_string().contains(&format!("\"{won} {round}\"")), "{path}: {shown}");
    }
}

/// Deletes with the current tag, and asserts that no tag matches afterwards.
async fn goes_by_its_tag(desk: &Desk<'_>) {
    let (_, tag) = desk.read().await;
    assert_eq!(desk.send("DELETE", Some(&tag), &Value::Null).await.status, 200, "{}", desk.path);
    for if_match in [tag.as_str(), "*"] {
        assert_eq!(desk.put(Some(if_match), &json!({})).await.status, 404, "{}", desk.path);
    }
}

fn named(name: &str) -> Value {
    json!({ "name": name })
}

#[tokio::test]
async fn an_automation() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    // Numbers that PostgreSQL writes differently.
    let properties =
        json!({"a": 1e18, "b": -0.0, "c": 1.0, "d": {"z": [1.5e-7, 2.262_671_630_467_338_8e-7], "a": u64::MAX}});
    let steps = json!([{"type": "UPDATE_USER", "properties": properties}]);
    let automation = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    let desk = made(&gateway, &admin, "/automations", automation).await;
    keeps_its_promises(&desk, named).await;
    keeps_its_promises(&desk, |event| json!({ "triggerEvent": event })).await;
    goes_by_its_tag(&desk).await;
}

#[tokio::test]
async fn a_template() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    let template = json!({"name": "t", "channel": "EMAIL", "subject": "s", "body": "b", "tags": ["x"]});
    let desk = made(&gateway, &admin, "/templates", template).await;
    keeps_its_promises(&desk, named).await;
    keeps_its_promises(&desk, |text| json!({ "body": text })).await;

    // The compressed representation has its own tag for the same state.
    desk.put(None, &json!({"body": "long ".repeat(1_000)})).await;
    let zipped = gateway.call_as(&admin, "GET", &desk.path).header("accept-encoding", "gzip").send("").await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    let tag = tag_of(&zipped);
    assert_ne!(tag, desk.read().await.1);
    assert_eq!(desk.put(Some(&tag), &named("zipped")).await.status, 200);
    desk.put(Some(&tag), &named("stale")).await.error(412);
    goes_by_its_tag(&desk).await;
}

#[tokio::test]
async fn a_segment() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let rules = json!([{"field": "spent", "operator": "gte", "value": 1e18}]);
    let desk = made(&gateway, &admin, "/segments", json!({"name": "s", "rules": rules})).await;
    keeps_its_promises(&desk, named).await;
    keeps_its_promises(&desk, |text| json!({"rules": [{"field": "plan", "operator": "eq", "value": text}]})).await;

    // The number of members is not part of the state.
    desk.put(None, &json!({"rules": []})).await;
    let (before, tag) = desk.read().await;
    Rows { gateway: &gateway, project: project.id }.user("u", None, None, 1).await;
    let (after, same) = desk.read().await;
    assert_eq!((before["userCount"].as_i64(), after["userCount"].as_i64()), (Some(0), Some(1)));
    assert_eq!(same, tag);
    goes_by_its_tag(&desk).await;
}

#[tokio::test]
async fn a_campaign() {
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
    let desk = made(&gateway, &admin, "/campaigns", campaign).await;
    keeps_its_promises(&desk, named).await;
    keeps_its_promises(&desk, |text| json!({"goal": {"event": text, "within": "1d"}})).await;

    // Progress is not part of the state; sending is.
    let (_, tag) = desk.read().await;
    let sql = "UPDATE campaign SET recipients = 7, updated_at = now() WHERE project_id = $1";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    let (shown, same) = desk.read().await;
    assert_eq!((shown["recipients"].as_i64(), &same), (Some(7), &tag));
    let send = async |if_match: &str| {
        let call = gateway.call_as(&admin, "POST", &format!("{}/send", desk.path)).header("if-match", if_match);
        call.send("").await
    };
    send("\"stale\"").await.error(412);
    send("stale").await.error(400);
    assert_eq!(desk.read().await.0["status"], "DRAFT");
    let sent = send(&tag).await;
    assert_eq!((sent.status, sent.json()["status"].as_str()), (200, Some("SENDING")));
    assert_ne!(tag_of(&sent), tag);
    desk.put(Some(&tag), &named("stale")).await.error(412);
}

#[tokio::test]
async fn a_news_item_and_a_subscription_group() {
    let gateway = Gateway::start().await;
    let admin = gateway.log_in(&gateway.project().await, Role::Admin).await;
    let item = made(&gateway, &admin, "/news", json!({"title": "t", "body": "b", "published": true})).await;
    keeps_its_promises(&item, |title| json!({ "title": title })).await;
    goes_by_its_tag(&item).await;
    let group = made(&gateway, &admin, "/subscription-groups", json!({"name": "g"})).await;
    keeps_its_promises(&group, |text| json!({ "description": text })).await;
    goes_by_its_tag(&group).await;
}

#[tokio::test]
async fn the_settings_of_a_project() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let desk = Desk { gateway: &gateway, admin: &admin, path: format!("/projects/{}", project.id) };
    keeps_its_promises(&desk, named).await;
}

#[tokio::test]
async fn the_channels() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let desk = Desk { gateway: &gateway, admin: &admin, path: "/channels".to_owned() };
    keeps_its_promises(&desk, |text| json!({ "emailFromName": text })).await;

    // A secret is not returned, but its change alters the tag. A provider's error does not.
    let (before, tag) = desk.read().await;
    assert_eq!(desk.put(Some(&tag), &json!({"smtpPassword": "hunter2"})).await.status, 200);
    let (mut after, other) = desk.read().await;
    assert_eq!(after["email"]["smtpPasswordSet"].take(), json!(true));
    after["email"]["smtpPasswordSet"] = json!(false);
    assert_eq!(after, before);
    assert_ne!(other, tag);
    let sql = "UPDATE channel SET error = 'refused', error_at = now() WHERE project_id = $1 AND channel = 'email'";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    let (shown, same) = desk.read().await;
    assert_eq!((shown["email"]["error"].as_str(), same), (Some("refused"), other));
}
