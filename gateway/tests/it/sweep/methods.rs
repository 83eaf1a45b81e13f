//! Methods that a path does not support, and HEAD and OPTIONS, which every path supports.

use std::collections::{BTreeMap, BTreeSet};

use gateway::router::Access;

use super::{Failures, World};
use crate::document::{Operation, operations};

/// Returns the operations by path.
fn addresses() -> BTreeMap<String, Vec<Operation>> {
    let mut all: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    for operation in operations() {
        all.entry(operation.path.clone()).or_default().push(operation);
    }
    all
}

#[tokio::test]
async fn methods_match_the_document() {
    let world = World::new().await;
    other_methods_are_rejected_with_allow(&world).await;
    head_matches_get_without_a_body(&world).await;
    preflight_lists_the_public_methods(&world).await;
}

async fn other_methods_are_rejected_with_allow(world: &World) {
    let mut wrong = Failures::default();
    for (path, operations) in addresses() {
        let mut takes: BTreeSet<&str> = operations.iter().map(|o| o.method.as_str()).collect();
        if takes.contains("GET") {
            takes.insert("HEAD");
        }
        takes.insert("OPTIONS");
        let called = world.path(&operations[0]);
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"] {
            if takes.contains(method) {
                continue;
            }
            let response = world.send_to(method, &called, Access::Anyone, &[], "").await;
            let label = format!("{method} {path}");
            let allow: BTreeSet<&str> = response.header("allow").unwrap_or("").split(", ").collect();
            wrong.check(response.status == 405 && allow == takes, &format!("{label} with Allow {allow:?}"), &response);
            if method != "HEAD" {
                wrong.refused(&[405], &label, &response);
            }
        }
    }
    wrong.none();
}

async fn head_matches_get_without_a_body(world: &World) {
    let mut wrong = Failures::default();
    for get in operations().into_iter().filter(|o| o.method == "GET") {
        let response = world.send(&get, "").await;
        let head = world.send_to("HEAD", &world.path(&get), get.access, &[], "").await;
        let kind = |a: &crate::http::HttpResponse| a.header("content-type").map(str::to_owned);
        let right = head.status == response.status && head.bytes.is_empty() && kind(&head) == kind(&response);
        wrong.check(right && response.status == get.success, &format!("HEAD {}", get.path), &head);
    }
    wrong.none();
}

async fn preflight_lists_the_public_methods(world: &World) {
    let mut wrong = Failures::default();
    for (path, operations) in addresses() {
        let headers = [("origin", "https://shop.example"), ("access-control-request-method", "POST")];
        let called = world.path(&operations[0]);
        let response = world.send_to("OPTIONS", &called, Access::Anyone, &headers, "").await;
        let open: BTreeSet<&str> =
            operations.iter().filter(|o| o.access == Access::Public).map(|o| o.method.as_str()).collect();
        let allowed = response.header("access-control-allow-methods").map(|methods| methods.split(", ").collect());
        let origin = response.header("access-control-allow-origin");
        let right = response.status == 204
            && allowed == Some(open.clone()).filter(|open| !open.is_empty())
            && origin == (!open.is_empty()).then_some("*")
            && response.header("access-control-allow-credentials").is_none();
        wrong.check(right, &format!("OPTIONS {path} allows {allowed:?} to {origin:?}"), &response);
    }
    wrong.none();
}
