//! Another project's keys find and change nothing by this project's IDs, at every path of `openapi.yaml` that takes
//! one.

use gateway::router::Access;

use super::{fill, ids_of, request_of, rows_of};
use crate::document::operations;
use crate::fixture::Gateway;

/// Returns the statuses that refuse a key: it lacks the permission, or its project has no such resource.
#[expect(clippy::match_same_arms, reason = "a table, read from top to bottom")]
fn refusals(access: Access, is_public: bool) -> &'static [u16] {
    match (access, is_public) {
        // Public operations with an ID admit requests by signature alone.
        (Access::Anyone, _) => &[401],
        (Access::Session | Access::Member | Access::Admin, _) => &[403],
        (_, false) => &[404],
        // A public key acts for a user only with a proof, and these requests have none.
        (Access::Public, true) => &[403, 404],
        (Access::Secret | Access::SecretOrAdmin, true) => &[403],
    }
}

#[tokio::test]
async fn foreign_keys_find_and_change_nothing() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    let ids = ids_of(&gateway, &project).await;
    let before = rows_of(&gateway, &project).await;
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for operation in operations().iter().filter(|o| o.has_id()) {
        for (key, is_public) in [(&other.secret, false), (&other.public, true)] {
            for id in &ids {
                let (path, body) = request_of(operation, id);
                let json = [("content-type", "application/json")];
                let response = gateway.send(&operation.method, &path, key, &json, body).await;
                tried += 1;
                if !refusals(operation.access, is_public).contains(&response.status) {
                    wrong.push(format!("{} {path}: {} {}", operation.method, response.status, response.body));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    let after = rows_of(&gateway, &project).await;
    for (table, rows) in &before {
        assert_eq!(&after[table], rows, "{table}");
    }
}
