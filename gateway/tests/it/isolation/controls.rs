//! Positive control for the refusals: each operation finds the same rows for its own project's admin and keys.

use gateway::router::Access;
use serde_json::json;
use store_projects::members::Role;

use super::{fill, ids_of, request_of};
use crate::document::{Operation, operations};
use crate::fixture::Gateway;
use crate::setup::Tenant;
use crate::{api_inbox, api_webhook};

/// Takes the name of a channel instead of a row's ID; every project has all channels.
const BY_NAME: &str = "POST /channels/{id}/test";
/// Checks a signature instead of a key or session.
const SIGNED: &str = "POST /webhook/{id}";

#[derive(Clone, Copy, Debug)]
enum Caller {
    Admin,
    SecretKey,
    PublicKey,
}

impl Caller {
    fn may(self, access: Access) -> bool {
        match self {
            Self::Admin => access != Access::Anyone,
            Self::SecretKey => matches!(access, Access::Public | Access::Secret | Access::SecretOrAdmin),
            Self::PublicKey => access == Access::Public,
        }
    }
}

fn named(operation: &Operation) -> String {
    format!("{} {}", operation.method, operation.path)
}

/// Operations that run in this order after the others: a campaign's life, then the deletions that leave nothing for
/// others.
const ORDERED_LAST: [&str; 6] = [
    "POST /campaigns/{id}/send",
    "POST /campaigns/{id}/pause",
    "POST /campaigns/{id}/resume",
    "POST /campaigns/{id}/cancel",
    "DELETE /team/{id}",
    "DELETE /projects/{id}",
];

/// Returns the operations with an ID, in an order in which each still finds its row.
fn in_order() -> Vec<Operation> {
    let all = operations().into_iter().filter(|o| o.has_id() && ![BY_NAME, SIGNED].contains(&&*named(o)));
    let mut order: Vec<_> = all.collect();
    let last_position = |operation: &Operation| ORDERED_LAST.iter().position(|name| *name == named(operation));
    order.sort_by_key(|o| (o.method == "DELETE", last_position(o).map_or(0, |at| at + 1)));
    order
}

/// Returns a body that succeeds, for operations whose example does not fit these rows.
fn body_of(operation: &Operation, example: String) -> String {
    match &*named(operation) {
        "POST /campaigns/{id}/test" => json!({ "userIds": ["u"] }).to_string(),
        "POST /templates/{id}/preview" => json!({ "userId": "u" }).to_string(),
        "PUT /users/{id}/subscriptions" => json!({ "groups": [] }).to_string(),
        "DELETE /projects/{id}" => json!({ "name": "Test" }).to_string(),
        _ => example,
    }
}

#[tokio::test]
async fn each_operation_finds_rows_of_its_own_project() {
    let gateway = Gateway::start().await;
    let (order, mut wrong, mut tried) = (in_order(), Vec::new(), 0);
    for caller in [Caller::Admin, Caller::SecretKey, Caller::PublicKey] {
        let project = gateway.project().await;
        fill(&gateway, &project).await;
        let admin = gateway.log_in(&project, Role::Admin).await;
        let proof = api_inbox::proof(&gateway, &project, "u").await;
        // The calling admin and session must survive to the end, so another session is created to be ended.
        gateway.session_of(admin.account, &admin.email, project.id).await;
        let sessions = gateway.get_as(&admin, "/auth/sessions").await.expect(200);
        let current = sessions["sessions"].as_array().unwrap().iter().find(|s| s["current"] == true).unwrap();
        let own = [admin.account.to_string(), current["id"].as_str().unwrap().to_owned()];
        let ids: Vec<String> = ids_of(&gateway, &project).await.into_iter().filter(|id| !own.contains(id)).collect();
        for operation in order.iter().filter(|o| caller.may(o.access)) {
            tried += 1;
            let mut answers = Vec::new();
            for id in &ids {
                let (path, body) = request_of(operation, id);
                let call = match caller {
                    Caller::Admin => gateway.call_as(&admin, &operation.method, &path),
                    Caller::SecretKey => gateway.call(&operation.method, &path).header("x-api-key", &project.secret),
                    Caller::PublicKey => gateway
                        .call(&operation.method, &path)
                        .header("x-user-hash", &proof)
                        .header("x-api-key", &project.public),
                };
                let call = call.header("content-type", "application/json");
                answers.push(call.send(body_of(operation, body)).await);
                if answers.last().is_some_and(|response| response.status == operation.success) {
                    break;
                }
            }
            if !answers.iter().any(|response| response.status == operation.success) {
                answers.retain(|response| response.status != 404);
                let responses: Vec<_> = answers.iter().map(|response| (response.status, &response.text)).collect();
                wrong.push(format!(
                    "{caller:?}: {} does not find its own project's rows: {responses:?}",
                    named(operation)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn webhook_is_accepted_only_with_its_own_projects_secret() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let body = json!({ "event": "order.paid", "data": { "userId": "u" } }).to_string();
    let sent = async |to: &Tenant, by: &Tenant| {
        let signature = api_webhook::signed(&api_webhook::secret(&gateway, by).await, &body);
        let headers = [("content-type", "application/json"), ("x-signature", signature.as_str())];
        gateway.send("POST", &format!("/webhook/{}", to.id), "", &headers, body.clone()).await.status
    };
    assert_eq!((sent(&project, &other).await, sent(&other, &project).await), (401, 401));
    assert_eq!(gateway.items().await.len(), 0);
    assert_eq!((sent(&project, &project).await, sent(&other, &other).await), (202, 202));
    assert_eq!(gateway.items().await.len(), 2);
}
