//! What a body names must be the project's own: another's template, segment, group, automation or person is refused
//! wherever one is named.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fill;
use crate::document::operations;
use crate::fixture::Gateway;
use crate::setup::Tenant;

/// Stands for the id in a body.
const THERE: &str = "THERE";
/// Fields that name no row of the project: what clients call their things, and what providers do.
const NO_REFERENCES: [&str; 11] = [
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
    "user_id",
];
/// Read only.
const ANSWERED: [&str; 2] = ["providerMessageId", "runId"];

/// One place where something is named.
struct Place {
    method: &'static str,
    path: String,
    field: &'static str,
    /// Where what is named has its row.
    table: &'static str,
    body: Value,
}

async fn id_in(gateway: &Gateway, project: &Tenant, table: &str) -> String {
    let sql = format!("SELECT id::text FROM {table} WHERE project_id = $1 ORDER BY id LIMIT 1");
    gateway.sql.query_one(&sql, &[&project.id]).await.unwrap().get(0)
}

fn with(base: &Value, more: &Value) -> Value {
    let mut whole = base.clone();
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole
}

async fn places(gateway: &Gateway, project: &Tenant) -> Vec<Place> {
    let id = async |table| id_in(gateway, project, table).await;
    let (template, segment) = (id("template").await, id("segment").await);
    let [own_template, own_automation, own_campaign] = [
        format!("/templates/{template}"),
        format!("/automations/{}", id("automation").await),
        format!("/campaigns/{}", id("campaign").await),
    ];
    let place = |method, path: &str, field, table, body| Place { method, path: path.to_owned(), field, table, body };
    let campaign = json!({"name": "c", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let automation = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": []});
    let mail = |more: &Value| json!([with(&json!({"type": "SEND_EMAIL", "templateId": template}), more)]);
    let within = |step: Value| json!([{"type": "BRANCH", "branches": [{"rules": [], "steps": [step]}]}]);
    let of_segment = json!({"field": "segment", "operator": "in", "value": [THERE]});
    let mut all = Vec::new();
    for (field, table, change) in [
        ("segmentId", "segment", json!({"segmentId": THERE})),
        ("templateId", "template", json!({"templateId": THERE})),
        ("excludeSegmentIds", "segment", json!({"excludeSegmentIds": [THERE]})),
        ("subscriptionGroupId", "subscription_group", json!({"subscriptionGroupId": THERE})),
        ("templateId", "template", json!({"variants": [{"name": "A", "templateId": THERE, "weight": 100}]})),
    ] {
        all.push(place("POST", "/campaigns", field, table, with(&campaign, &change)));
        all.push(place("PUT", &own_campaign, field, table, change));
    }
    for (field, table, change) in [
        ("templateId", "template", json!({"steps": [{"type": "SEND_EMAIL", "templateId": THERE}]})),
        ("templateId", "template", json!({"steps": within(json!({"type": "SEND_EMAIL", "templateId": THERE}))})),
        ("subscriptionGroupId", "subscription_group", json!({"steps": mail(&json!({"subscriptionGroupId": THERE}))})),
        ("rules", "segment", json!({"entryRules": [of_segment]})),
        ("rules", "segment", json!({"exitRules": [of_segment]})),
    ] {
        all.push(place("POST", "/automations", field, table, with(&automation, &change)));
        all.push(place("PUT", &own_automation, field, table, change));
    }
    let started = json!({"steps": [{"type": "START_AUTOMATION", "automationId": THERE}]});
    all.push(place("POST", "/automations", "automationId", "automation", with(&automation, &started)));
    let entered = json!({"name": "a", "triggerType": "SEGMENT_ENTER", "triggerSegmentId": THERE, "steps": []});
    all.push(place("POST", "/automations", "triggerSegmentId", "segment", entered));
    all.push(place("POST", "/segments", "rules", "segment", json!({"name": "s", "rules": [of_segment]})));
    all.push(place("POST", "/segments/estimate", "rules", "segment", json!({"rules": [of_segment]})));
    let message = json!({"userId": "u", "channel": "EMAIL", "templateId": THERE});
    all.push(place("POST", "/messages", "templateId", "template", message));
    let of_person = json!({"userId": THERE});
    all.push(place("POST", &format!("{own_template}/preview"), "userId", "users", of_person.clone()));
    all.push(place("POST", &format!("{own_automation}/simulate"), "userId", "users", of_person.clone()));
    all.push(place("POST", "/suppressions", "userId", "users", of_person));
    let test = format!("{own_campaign}/test");
    all.push(place("POST", &test, "userIds", "users", json!({"userIds": [THERE]})));
    all.push(place("POST", &test, "asUserId", "users", json!({"to": ["a@example.com"], "asUserId": THERE})));
    all
}

#[tokio::test]
async fn what_belongs_to_another_project_cannot_be_named() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    fill(&gateway, &other).await;
    let mut wrong = Vec::new();
    for Place { method, path, field, table, body } in places(&gateway, &project).await {
        for (whose, owner) in [("another's", &other), ("its own", &project)] {
            let id = if table == "users" {
                // Of the person, not of the one whom they may have been merged with.
                let sql = "SELECT id::text FROM users WHERE project_id = $1 AND external_id = 'u'";
                gateway.sql.query_one(sql, &[&owner.id]).await.unwrap().get(0)
            } else {
                id_in(&gateway, owner, table).await
            };
            let json = [("content-type", "application/json")];
            let body = body.to_string().replace(THERE, &id);
            let answer = gateway.send(method, &path, &project.secret, &json, body.clone()).await;
            let right = match whose {
                "its own" => (200..300).contains(&answer.status),
                _ => [404, 422].contains(&answer.status),
            };
            if !right {
                wrong.push(format!("{method} {path}, {field} is {whose}: {} {} to {body}", answer.status, answer.body));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of the fields of a body, those within others too.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            if let Some(properties) = parts.get("properties").and_then(Value::as_object) {
                found.extend(properties.keys().cloned());
            }
            parts.values().for_each(|part| names(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| names(part, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_field_that_names_something_is_tried() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill(&gateway, &project).await;
    let mut documented = BTreeSet::new();
    operations().iter().filter_map(|o| o.body.as_ref()).for_each(|body| names(body, &mut documented));
    documented.retain(|name| name.ends_with("Id") || name.ends_with("Ids") || name.ends_with("_id"));
    let mut known: BTreeSet<String> = NO_REFERENCES.into_iter().chain(ANSWERED).map(str::to_owned).collect();
    let tried = places(&gateway, &project).await.into_iter().map(|place| place.field.to_owned());
    known.extend(tried.filter(|field| field != "rules"));
    assert_eq!(documented, known, "a field of a body names something: add it to `places`, or to what names nothing");
}
