//! References in a body must belong to the project: another project's template, segment, group, automation or user is
//! refused.

use std::collections::BTreeSet;

use domain::message::Channel;
use serde_json::{Value, json};
use testkit::eventually_true;
use uuid::Uuid;

use super::fill;
use crate::api_messages::queued_by;
use crate::document::operations;
use crate::fixture::Gateway;
use crate::setup::{Tenant, secs};

/// Placeholder for the ID in a body.
const REFERENCED_ID: &str = "REFERENCED_ID";
/// Fields that reference no row of the project in any operation: IDs that clients or providers assign.
const NO_REFERENCES: [&str; 10] = [
    "anonymousId",
    "anonymous_id",
    "externalId",
    "iosPushBundleId",
    "iosPushKeyId",
    "iosPushTeamId",
    "messageId",
    "previous_id",
    "pushProviderAppId",
    "smsAccountId",
];
/// Fields that reference no row in one operation: new IDs, and users by their external ID.
/// Such a user need not exist, because the internal ID is derived from project and external ID.
const GIVEN: [(&str, &str); 8] = [
    ("POST /events", "id"),
    ("POST /events", "userId"),
    ("POST /events/batch", "id"),
    ("POST /events/batch", "userId"),
    ("POST /users/identify", "id"),
    ("POST /users/identify", "userId"),
    ("POST /messages", "userId"),
    ("POST /push-tokens", "userId"),
];
/// References that are answered without an error, or only for sessions. They have their own tests: below, and the first
/// two in `foreign_ids_find_and_change_nothing`.
const TESTED_SEPARATELY: [(&str, &str); 6] = [
    ("DELETE /api-keys", "id"),
    ("PUT /api-keys", "id"),
    ("POST /channels/{id}/test", "userId"),
    ("POST /dead-letters/replay", "ids"),
    ("POST /segments/{id}/members", "add"),
    ("POST /segments/{id}/members", "remove"),
];
/// Names of reference fields that do not end in `Id`.
const LISTS: [&str; 4] = ["id", "ids", "add", "remove"];

/// One field of one operation that references a row.
struct ReferenceCase {
    method: &'static str,
    path: String,
    field: &'static str,
    /// The table of the referenced row.
    table: &'static str,
    body: Value,
}

impl ReferenceCase {
    /// Returns the operation as the document names it.
    fn operation(&self) -> String {
        let parts = self.path.split('/').map(|part| if Uuid::try_parse(part).is_ok() { "{id}" } else { part });
        format!("{} {}", self.method, parts.collect::<Vec<_>>().join("/"))
    }
}

async fn id_in(gateway: &Gateway, project: &Tenant, table: &str) -> String {
    let sql = format!("SELECT id::text FROM {table} WHERE project_id = $1 ORDER BY id LIMIT 1");
    gateway.sql.query_one(&sql, &[&project.id]).await.unwrap().get(0)
}

/// Returns the ID of the user with external ID `u`, not of a user merged with them.
async fn external_user(gateway: &Gateway, project: &Tenant) -> String {
    let sql = "SELECT id::text FROM users WHERE project_id = $1 AND external_id = 'u'";
    gateway.sql.query_one(sql, &[&project.id]).await.unwrap().get(0)
}

fn with(base: &Value, more: &Value) -> Value {
    let mut whole = base.clone();
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole
}

async fn cases(gateway: &Gateway, project: &Tenant) -> Vec<ReferenceCase> {
    let id = async |table| id_in(gateway, project, table).await;
    let (template, segment) = (id("template").await, id("segment").await);
    let [own_template, own_automation, own_campaign] = [
        format!("/templates/{template}"),
        format!("/automations/{}", id("automation").await),
        format!("/campaigns/{}", id("campaign").await),
    ];
    let case =
        |method, path: &str, field, table, body| ReferenceCase { method, path: path.to_owned(), field, table, body };
    let campaign = json!({"name": "c", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let automation = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": []});
    let mail = |more: &Value| json!([with(&json!({"type": "SEND_EMAIL", "templateId": template}), more)]);
    let within = |step: Value| json!([{"type": "BRANCH", "branches": [{"rules": [], "steps": [step]}]}]);
    let of_segment = json!({"field": "segment", "operator": "in", "value": [REFERENCED_ID]});
    let mut all = Vec::new();
    for (field, table, change) in [
        ("segmentId", "segment", json!({"segmentId": REFERENCED_ID})),
        ("templateId", "template", json!({"templateId": REFERENCED_ID})),
        ("excludeSegmentIds", "segment", json!({"excludeSegmentIds": [REFERENCED_ID]})),
        ("subscriptionGroupId", "subscription_group", json!({"subscriptionGroupId": REFERENCED_ID})),
        ("templateId", "template", json!({"variants": [{"name": "A", "templateId": REFERENCED_ID, "weight": 100}]})),
    ] {
        all.push(case("POST", "/campaigns", field, table, with(&campaign, &change)));
        all.push(case("PUT", &own_campaign, field, table, change));
    }
    for (field, table, change) in [
        ("templateId", "template", json!({"steps": [{"type": "SEND_EMAIL", "templateId": REFERENCED_ID}]})),
        (
            "templateId",
            "template",
            json!({"steps": within(json!({"type": "SEND_EMAIL", "templateId": REFERENCED_ID}))}),
        ),
        (
            "subscriptionGroupId",
            "subscription_group",
            json!({"steps": mail(&json!({"subscriptionGroupId": REFERENCED_ID}))}),
        ),
        ("rules", "segment", json!({"entryRules": [of_segment]})),
        ("rules", "segment", json!({"exitRules": [of_segment]})),
    ] {
        all.push(case("POST", "/automations", field, table, with(&automation, &change)));
        all.push(case("PUT", &own_automation, field, table, change));
    }
    let started = json!({"steps": [{"type": "START_AUTOMATION", "automationId": REFERENCED_ID}]});
    let entered = json!({"triggerType": "SEGMENT_ENTER", "triggerSegmentId": REFERENCED_ID, "steps": []});
    all.push(case("POST", "/automations", "automationId", "automation", with(&automation, &started)));
    all.push(case("PUT", &own_automation, "automationId", "automation", started));
    let made = with(&json!({"name": "a"}), &entered);
    all.push(case("POST", "/automations", "triggerSegmentId", "segment", made));
    all.push(case("PUT", &own_automation, "triggerSegmentId", "segment", entered));
    all.push(case("POST", "/segments", "rules", "segment", json!({"name": "s", "rules": [of_segment]})));
    all.push(case("POST", "/segments/estimate", "rules", "segment", json!({"rules": [of_segment]})));
    let message = json!({"userId": "u", "channel": "EMAIL", "templateId": REFERENCED_ID});
    all.push(case("POST", "/messages", "templateId", "template", message));
    let of_user = json!({"userId": REFERENCED_ID});
    all.push(case("POST", &format!("{own_template}/preview"), "userId", "users", of_user.clone()));
    all.push(case("POST", &format!("{own_automation}/simulate"), "userId", "users", of_user.clone()));
    // The suppression that `POST` creates is deleted again by its user.
    all.push(case("DELETE", "/suppressions", "id", "suppression", json!({"id": REFERENCED_ID})));
    all.push(case("POST", "/suppressions", "userId", "users", of_user.clone()));
    all.push(case("DELETE", "/suppressions", "userId", "users", of_user));
    let chosen = json!({"groups": [{"id": REFERENCED_ID, "subscribed": false}]});
    all.push(case("PUT", "/users/u/subscriptions", "id", "subscription_group", chosen));
    let test = format!("{own_campaign}/test");
    all.push(case("POST", &test, "userIds", "users", json!({"userIds": [REFERENCED_ID]})));
    all.push(case("POST", &test, "asUserId", "users", json!({"to": ["a@example.com"], "asUserId": REFERENCED_ID})));
    all
}

#[tokio::test]
async fn foreign_resources_cannot_be_referenced() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    fill(&gateway, &other).await;
    let mut wrong = Vec::new();
    for ReferenceCase { method, path, field, table, body } in cases(&gateway, &project).await {
        for (whose, owner) in [("another's", &other), ("its own", &project)] {
            let id = if table == "users" {
                external_user(&gateway, owner).await
            } else {
                id_in(&gateway, owner, table).await
            };
            let json = [("content-type", "application/json")];
            let body = body.to_string().replace(REFERENCED_ID, &id);
            let response = gateway.send(method, &path, &project.secret, &json, body.clone()).await;
            let right = match whose {
                "its own" => (200..300).contains(&response.status),
                _ => [404, 422].contains(&response.status),
            };
            if !right {
                wrong.push(format!(
                    "{method} {path}, {field} is {whose}: {} {} to {body}",
                    response.status, response.body
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn foreign_users_are_neither_added_to_nor_removed_from_a_list() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    fill(&gateway, &other).await;
    let sql = "SELECT id::text FROM segment WHERE project_id = $1 AND name = 'l'";
    let list: String = gateway.sql.query_one(sql, &[&project.id]).await.unwrap().get(0);
    let (own, anothers) = (external_user(&gateway, &project).await, external_user(&gateway, &other).await);
    let change = async |what: &str, id: &str| {
        gateway.post(&project, &format!("/segments/{list}/members"), &json!({ what: [id] })).await.expect(200)
    };
    let added = change("add", &anothers).await;
    assert_eq!((&added["added"], &added["notFound"]), (&json!(0), &json!([anothers])));
    assert_eq!(change("add", &own).await["added"], 1);
    assert_eq!(change("remove", &anothers).await["removed"], 0);
    assert_eq!(change("remove", &own).await["removed"], 1);
}

#[tokio::test]
async fn foreign_dead_letters_are_not_replayed() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    fill(&gateway, &other).await;
    let replayed = async |owner: &Tenant| {
        let ids = json!({ "ids": [id_in(&gateway, owner, "dead_item").await] });
        gateway.post(&project, "/dead-letters/replay", &ids).await.expect(200)["replayed"].clone()
    };
    assert_eq!(replayed(&other).await, 0);
    // The other project's dead letter remains.
    let sql = "SELECT count(*) FROM dead_item WHERE project_id = $1";
    assert_eq!(gateway.sql.query_one(sql, &[&other.id]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(replayed(&project).await, 1);
}

#[tokio::test]
async fn channel_test_rejects_foreign_users() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    fill(&gateway, &other).await;
    let test = async |owner: &Tenant| {
        let of_user = json!({ "userId": external_user(&gateway, owner).await });
        gateway.post(&project, "/channels/email/test", &of_user).await
    };
    let refused = test(&other).await;
    assert_eq!((refused.status, refused.fields()), (422, vec!["userId"]));
    assert_eq!(queued_by(&gateway, Channel::Email).await.len(), 0);
    // The request for its own user is queued. Its outcome would need worker-delivery, so the test does not wait for it.
    let queued = async || queued_by(&gateway, Channel::Email).await.len() == 1;
    tokio::select! {
        response = test(&project) => panic!("returned without an outcome: {response:?}"),
        () = eventually_true("a message is queued", secs(10), queued) => {}
    }
}

/// Returns whether a field is accepted only because `GET` returns it, and then ignored.
fn is_ignored(schema: &Value) -> bool {
    schema["description"].as_str().is_some_and(|text| text.starts_with("Shown by `GET`; taken and ignored"))
}

/// Returns whether a field is a reference, judged by its name or by the IDs that it holds.
fn is_reference(name: &str, schema: &Value) -> bool {
    let holds_ids = |schema: &Value| schema["format"] == "uuid" || schema["items"]["format"] == "uuid";
    let choices = ["oneOf", "anyOf"].into_iter().filter_map(|of| schema[of].as_array()).flatten();
    ["Id", "Ids", "_id", "_ids"].iter().any(|end| name.ends_with(end))
        || LISTS.contains(&name)
        || holds_ids(schema)
        || choices.into_iter().any(holds_ids)
}

/// Collects the names of the reference fields of a body, including nested ones.
fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            for (name, field) in parts.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if is_reference(name, field) && !is_ignored(field) && !NO_REFERENCES.contains(&&**name) {
                    // Two spellings of one name.
                    found.insert(if name == "user_id" { "userId".to_owned() } else { name.clone() });
                }
            }
            parts.values().for_each(|part| references(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| references(part, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_reference_field_is_covered() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill(&gateway, &project).await;
    let mut documented = BTreeSet::new();
    for operation in operations() {
        let mut found = BTreeSet::new();
        operation.body.iter().for_each(|body| references(body, &mut found));
        documented.extend(found.into_iter().map(|field| (format!("{} {}", operation.method, operation.path), field)));
    }
    let apart = GIVEN.iter().chain(&TESTED_SEPARATELY).map(|(at, field)| ((*at).to_owned(), (*field).to_owned()));
    let cases = cases(&gateway, &project).await;
    let tried = cases.iter().map(|case| (case.operation(), case.field.to_owned()));
    // Rules reference segments in their values.
    let tried = tried.filter(|(_, field)| field != "rules");
    // The user is in the path.
    let tried = tried.map(|(at, field)| (at.replace("/users/u/", "/users/{id}/"), field));
    let known: BTreeSet<_> = apart.chain(tried).collect();
    let missing: Vec<_> = documented.difference(&known).collect();
    let gone: Vec<_> = known.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "reference fields without a test: add them to `cases` or to a list of exceptions: {missing:?}"
    );
    assert!(gone.is_empty(), "are no longer in the document: {gone:?}");
}
