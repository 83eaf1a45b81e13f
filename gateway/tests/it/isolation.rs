//! Another project's IDs find and change nothing, at every path of `openapi.yaml` that takes one.
//!
//! New paths are covered automatically. If `fill` creates no row that a new path finds, `controls` reports it.

mod controls;
mod keys;
mod parameters;
mod references;

use std::collections::BTreeMap;

use gateway::router::Access;
use kernel::ids;
use serde_json::{Value, json};
use store_projects::members::Role;

use crate::document::{Operation, operations};
use crate::fixture::Gateway;
use crate::rows::Rows;
use crate::setup::Tenant;
use crate::{api_dead_letters, api_inbox};

/// Creates one of every resource.
pub async fn fill(gateway: &Gateway, project: &Tenant) {
    let admin = gateway.log_in(project, Role::Admin).await;
    let made = async |path: &str, body: Value| {
        let made = gateway.post_as(&admin, path, &body).await.expect(201);
        made["id"].as_str().unwrap_or_default().to_owned()
    };
    let template = made("/templates", json!({"name": "t", "channel": "EMAIL", "subject": "s", "body": "b"})).await;
    made("/subscription-groups", json!({"name": "g"})).await;
    let rule = json!({"field": "plan", "operator": "eq", "value": "pro"});
    let segment = made("/segments", json!({"name": "s", "rules": [rule]})).await;
    made("/segments", json!({"name": "l", "rules": []})).await;
    let steps = json!([{"type": "SEND_EMAIL", "templateId": template}]);
    let automation = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    let automation = made("/automations", automation).await;
    made("/campaigns", json!({"name": "c", "channel": "EMAIL", "segmentId": segment, "templateId": template})).await;
    made("/news", json!({"title": "n", "body": "b", "published": true})).await;
    gateway.applied_up_to(1_000).await;
    let import =
        gateway.send("POST", "/users/import", &project.secret, &[("content-type", "text/csv")], "user_id\nu").await;
    import.expect(200);
    made("/team/invites", json!({"email": "grace@example.com"})).await;
    let endpoint = made("/webhook-endpoints", json!({"url": "https://8.8.8.8/hook", "events": ["*"]})).await;
    let endpoint: uuid::Uuid = endpoint.parse().unwrap();
    // Has the endpoint's ID, so that one ID finds both.
    let delivery = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, data, happened_at, status, created_at) \
                    VALUES ($1, $2, $2, 'message.sent', '{}', now(), 'delivered', now())";
    gateway.sql.execute(delivery, &[&project.id, &endpoint]).await.unwrap();

    let rows = Rows { gateway, project: project.id };
    let user = rows.user("u", Some("u@example.com"), None, 1).await;
    rows.event(user, "e", 0).await;
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               VALUES ($1, $2, $3, 'EMAIL', 'direct', 'sent', now(), now())";
    let automation: uuid::Uuid = automation.parse().unwrap();
    // Has the automation's ID, so that one ID finds both.
    let run = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, started_at, \
               updated_at) VALUES ($1, $2, $2, 1, $3, 'waiting', 'steps[0]', 0, '{}', now(), now())";
    gateway.sql.execute(run, &[&project.id, &automation, &user]).await.unwrap();
    let message = ids::fresh(gateway.app.clock.now_ms());
    gateway.sql.execute(sql, &[&project.id, &message, &user]).await.unwrap();
    api_inbox::deliver(gateway, project, user, "t").await;
    api_dead_letters::item(gateway, project).await;
    let device = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
                  VALUES ($1, $2, $3, 'ANDROID', 'a-device', now(), now())";
    let token = ids::fresh(gateway.app.clock.now_ms());
    gateway.sql.execute(device, &[&project.id, &token, &user]).await.unwrap();
    made("/suppressions", json!({"address": "gone@example.com"})).await;
}

/// Returns the path of an operation with an ID and its required query, and a body.
fn request_of(operation: &Operation, id: &str) -> (String, String) {
    // Where a user is required, names an existing one.
    let query = operation.query.iter().map(|name| format!("{name}=u")).collect::<Vec<_>>().join("&");
    let body = match &operation.example {
        _ if operation.method == "GET" => String::new(),
        Some(example) => example.to_string(),
        None => "{}".to_owned(),
    };
    (format!("{}?{query}", operation.at(id)), body)
}

/// Returns the tables that hold rows of projects, and whether they have a UUID `id`.
async fn tables(gateway: &Gateway) -> Vec<(String, bool)> {
    let sql = "SELECT c.table_name::text, bool_or(c.column_name = 'id' AND c.udt_name = 'uuid') \
               FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) \
               JOIN pg_class p ON p.relname = c.table_name AND NOT p.relispartition \
               WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' \
               GROUP BY 1 HAVING bool_or(c.column_name = 'project_id') ORDER BY 1";
    gateway.sql.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Returns every ID in the project's rows.
pub async fn ids_of(gateway: &Gateway, project: &Tenant) -> Vec<String> {
    let mut found = vec![project.id.to_string()];
    for (table, has_id) in tables(gateway).await {
        let column = match table.as_str() {
            "member" => "account_id",
            _ if has_id => "id",
            _ => continue,
        };
        let sql = format!("SELECT {column}::text FROM {table} WHERE project_id = $1");
        found.extend(gateway.sql.query(&sql, &[&project.id]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
    }
    let sessions =
        "SELECT s.id::text FROM session s JOIN member m ON m.account_id = s.account_id WHERE m.project_id = $1";
    found.extend(gateway.sql.query(sessions, &[&project.id]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
    found
}

/// Returns all rows of a project by table.
async fn rows_of(gateway: &Gateway, project: &Tenant) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (table, _) in tables(gateway).await {
        // Except for `last_used_at`, which requests of the key's own project change.
        let without = if table == "api_key" { " - 'last_used_at'" } else { "" };
        let sql = format!("SELECT (to_jsonb(t){without})::text FROM {table} t WHERE project_id = $1 ORDER BY 1");
        let rows = gateway.sql.query(&sql, &[&project.id]).await.unwrap();
        all.insert(table, rows.iter().map(|row| row.get(0)).collect());
    }
    all
}

#[tokio::test]
async fn foreign_ids_find_and_change_nothing() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    let eve = gateway.log_in(&other, Role::Admin).await;
    let ids = ids_of(&gateway, &project).await;
    let before = rows_of(&gateway, &project).await;

    let mut wrong = Vec::new();
    for operation in operations().iter().filter(|o| o.has_id()) {
        for id in &ids {
            let (path, body) = request_of(operation, id);
            let foreign = gateway.send_as(&eve, &operation.method, &path, body).await;
            // Operations without a session refuse the request, because it has no signature.
            let refused = if operation.access == Access::Anyone { 401 } else { 404 };
            if foreign.status != refused {
                wrong.push(format!("{} {path}: {} {}", operation.method, foreign.status, foreign.body));
            }
        }
    }
    // Operations with the ID in the body.
    for (method, id) in ids.iter().flat_map(|id| [("DELETE", id), ("PUT", id)]) {
        let response = gateway.send_as(&eve, method, "/api-keys", json!({ "id": id }).to_string()).await;
        assert_eq!(response.status, 404, "{method} {id}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let after = rows_of(&gateway, &project).await;
    for (table, rows) in &before {
        assert_eq!(&after[table], rows, "{table}");
    }
}
