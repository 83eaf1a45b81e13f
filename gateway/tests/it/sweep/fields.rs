//! Every field of every JSON body: missing, null, of another type, too long, unknown, with U+0000.

use gateway::router::Access;
use serde_json::{Value, json};

use super::{Failures, World, named, schema};
use crate::document::{Operation, operations};

/// Returns whether the operation ignores unknown fields.
fn is_ingest(operation: &Operation) -> bool {
    operation.access == Access::Anyone && operation.path.starts_with("/webhook/")
        || ["/events", "/events/batch", "/users/identify"].contains(&operation.path.as_str())
            && operation.method == "POST"
}

/// Returns the operations with a JSON object as body, with its schema and a minimal accepted body.
fn with_body() -> impl Iterator<Item = (Operation, Value, Value)> {
    operations().into_iter().filter_map(|operation| {
        let schema = operation.body.clone().filter(|schema| !schema::fields(schema).is_empty())?;
        let least = operation.example.clone().unwrap_or_else(|| schema::body(&schema));
        Some((operation, schema, least))
    })
}

#[tokio::test]
async fn wrong_missing_and_unknown_fields_are_rejected() {
    let world = World::new().await;
    wrong_field_is_reported(&world).await;
    missing_field_is_reported(&world).await;
    unknown_field_is_rejected_except_at_ingest(&world).await;
    put_of_the_get_body_changes_nothing(&world).await;
}

async fn wrong_field_is_reported(world: &World) {
    let mut wrong = Failures::default();
    for (operation, body, least) in with_body() {
        for field in schema::fields(&body) {
            for (what, value) in schema::wrong(&field.schema) {
                let mut sent = least.clone();
                sent[&field.name] = value;
                let response = world.send(&operation, sent.to_string()).await;
                let label = format!("{} {} with {} {what}", operation.method, operation.path, field.name);
                wrong.refused(&[422], &label, &response);
                // The error names one of the spellings of a field.
                let plain = |name: &str| name.replace('_', "").to_lowercase();
                let right = named(&response).iter().any(|n| {
                    let first = n.split(['.', '[']).next().unwrap_or_default();
                    plain(first) == plain(&field.name) || aliases(first, &field.name)
                });
                wrong.check(response.status != 422 || right, &format!("{label}, which is not named"), &response);
            }
        }
    }
    wrong.none();
}

/// Returns whether two names denote the same field.
fn aliases(reported: &str, sent: &str) -> bool {
    let alike = |names: &[&str]| names.contains(&reported) && names.contains(&sent);
    alike(&["event", "eventName"]) || alike(&["id", "messageId"])
}

async fn missing_field_is_reported(world: &World) {
    let mut wrong = Failures::default();
    for (operation, body, least) in with_body() {
        for field in schema::fields(&body).into_iter().filter(|field| field.required) {
            let mut sent = least.clone();
            sent.as_object_mut().unwrap().remove(&field.name);
            let response = world.send(&operation, sent.to_string()).await;
            let label = format!("{} {} without {}", operation.method, operation.path, field.name);
            wrong.refused(&[422], &label, &response);
            wrong.check(named(&response).contains(&field.name), &label, &response);
        }
    }
    wrong.none();
}

async fn unknown_field_is_rejected_except_at_ingest(world: &World) {
    let mut wrong = Failures::default();
    for (operation, body, least) in with_body() {
        let label = format!("{} {} with an unknown field", operation.method, operation.path);
        let mut sent = least.clone();
        sent["noSuchField"] = json!(1);
        let response = world.send(&operation, sent.to_string()).await;
        if is_ingest(&operation) {
            wrong.check(!named(&response).contains(&"noSuchField".to_owned()), &label, &response);
            continue;
        }
        wrong.refused(&[422], &label, &response);
        wrong.check(named(&response).contains(&"noSuchField".to_owned()), &label, &response);
        let said = !schema::takes_others(&body);
        wrong.check(said, &format!("{label}: the document does not say `additionalProperties: false`"), &response);
    }
    wrong.none();
}

/// Leaves out users, which the worker changes (covered by end-to-end tests), and API keys, of which `GET` returns a
/// list.
async fn put_of_the_get_body_changes_nothing(world: &World) {
    let all = operations();
    let mut wrong = Failures::default();
    for put in all.iter().filter(|o| o.method == "PUT" && !["/users/{id}", "/api-keys"].contains(&o.path.as_str())) {
        let Some(get) = all.iter().find(|o| o.method == "GET" && o.path == put.path) else { continue };
        let read = world.send(get, "").await.json();
        let response = world.send(put, read.to_string()).await;
        wrong.check(response.status == 200, &format!("PUT {} with the body of GET", put.path), &response);
        let (mut before, mut after) = (read, world.send(get, "").await.json());
        for shown in [&mut before, &mut after] {
            shown.as_object_mut().unwrap().remove("updatedAt");
        }
        wrong.check(before == after, &format!("PUT {}: {before} became {after}", put.path), &response);
    }
    wrong.none();
}
