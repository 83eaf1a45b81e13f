//! Every field of every JSON body: missing, null, of another type, too long, unknown, with U+0000.

use gateway::router::Access;
use serde_json::{Value, json};

use super::{World, Wrong, named, schema};
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
async fn fields_that_are_wrong_missing_or_unknown() {
    let world = World::new().await;
    a_wrong_field_is_named(&world).await;
    a_missing_field_is_named(&world).await;
    an_unknown_field_is_refused_but_where_events_come_in(&world).await;
    what_was_read_can_be_sent_back_and_changes_nothing(&world).await;
}

async fn a_wrong_field_is_named(world: &World) {
    let mut wrong = Wrong::default();
    for (operation, body, least) in with_body() {
        for field in schema::fields(&body) {
            for (what, value) in schema::wrong(&field.schema) {
                let mut sent = least.clone();
                sent[&field.name] = value;
                let answer = world.send(&operation, sent.to_string()).await;
                let told = format!("{} {} with {} {what}", operation.method, operation.path, field.name);
                wrong.refused(&[422], &told, &answer);
                // The error names one of the spellings of a field.
                let plain = |name: &str| name.replace('_', "").to_lowercase();
                let right = named(&answer).iter().any(|n| {
                    let first = n.split(['.', '[']).next().unwrap_or_default();
                    plain(first) == plain(&field.name) || aliases(first, &field.name)
                });
                wrong.note(answer.status != 422 || right, &format!("{told}, which is not named"), &answer);
            }
        }
    }
    wrong.none();
}

/// Returns whether two names denote the same field.
fn aliases(told: &str, sent: &str) -> bool {
    let alike = |names: &[&str]| names.contains(&told) && names.contains(&sent);
    alike(&["event", "eventName"]) || alike(&["id", "messageId"])
}

async fn a_missing_field_is_named(world: &World) {
    let mut wrong = Wrong::default();
    for (operation, body, least) in with_body() {
        for field in schema::fields(&body).into_iter().filter(|field| field.required) {
            let mut sent = least.clone();
            sent.as_object_mut().unwrap().remove(&field.name);
            let answer = world.send(&operation, sent.to_string()).await;
            let told = format!("{} {} without {}", operation.method, operation.path, field.name);
            wrong.refused(&[422], &told, &answer);
            wrong.note(named(&answer).contains(&field.name), &told, &answer);
        }
    }
    wrong.none();
}

async fn an_unknown_field_is_refused_but_where_events_come_in(world: &World) {
    let mut wrong = Wrong::default();
    for (operation, body, least) in with_body() {
        let told = format!("{} {} with an unknown field", operation.method, operation.path);
        let mut sent = least.clone();
        sent["noSuchField"] = json!(1);
        let answer = world.send(&operation, sent.to_string()).await;
        if is_ingest(&operation) {
            wrong.note(!named(&answer).contains(&"noSuchField".to_owned()), &told, &answer);
            continue;
        }
        wrong.refused(&[422], &told, &answer);
        wrong.note(named(&answer).contains(&"noSuchField".to_owned()), &told, &answer);
        let said = !schema::takes_others(&body);
        wrong.note(said, &format!("{told}: the document does not say `additionalProperties: false`"), &answer);
    }
    wrong.none();
}

/// Leaves out users, which the worker changes (covered by end-to-end tests), and API keys, of which `GET` returns a
/// list.
async fn what_was_read_can_be_sent_back_and_changes_nothing(world: &World) {
    let all = operations();
    let mut wrong = Wrong::default();
    for put in all.iter().filter(|o| o.method == "PUT" && !["/users/{id}", "/api-keys"].contains(&o.path.as_str())) {
        let Some(get) = all.iter().find(|o| o.method == "GET" && o.path == put.path) else { continue };
        let read = world.send(get, "").await.json();
        let answer = world.send(put, read.to_string()).await;
        wrong.note(answer.status == 200, &format!("PUT {} with the body of GET", put.path), &answer);
        let (mut before, mut after) = (read, world.send(get, "").await.json());
        for shown in [&mut before, &mut after] {
            shown.as_object_mut().unwrap().remove("updatedAt");
        }
        wrong.note(before == after, &format!("PUT {}: {before} became {after}", put.path), &answer);
    }
    wrong.none();
}
