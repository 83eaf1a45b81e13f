//! Methods that a path does not support, and HEAD and OPTIONS, which every path supports.

use std::collections::{BTreeMap, BTreeSet};

use gateway::router::Access;

use super::{World, Wrong};
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
async fn methods_that_there_are_and_are_not() {
    let world = World::new().await;
    other_methods_are_refused_with_those_that_there_are(&world).await;
    head_answers_as_get_without_a_body(&world).await;
    browsers_are_told_which_methods_are_open(&world).await;
}

async fn other_methods_are_refused_with_those_that_there_are(world: &World) {
    let mut wrong = Wrong::default();
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
            let answer = world.send_to(method, &called, Access::Anyone, &[], "").await;
            let told = format!("{method} {path}");
            let allow: BTreeSet<&str> = answer.header("allow").unwrap_or("").split(", ").collect();
            wrong.note(answer.status == 405 && allow == takes, &format!("{told} with Allow {allow:?}"), &answer);
            if method != "HEAD" {
                wrong.refused(&[405], &told, &answer);
            }
        }
    }
    wrong.none();
}

async fn head_answers_as_get_without_a_body(world: &World) {
    let mut wrong = Wrong::default();
    for get in operations().into_iter().filter(|o| o.method == "GET") {
        let answer = world.send(&get, "").await;
        let head = world.send_to("HEAD", &world.path(&get), get.access, &[], "").await;
        let kind = |a: &crate::http::Answer| a.header("content-type").map(str::to_owned);
        let right = head.status == answer.status && head.bytes.is_empty() && kind(&head) == kind(&answer);
        wrong.note(right && answer.status == get.success, &format!("HEAD {}", get.path), &head);
    }
    wrong.none();
}

async fn browsers_are_told_which_methods_are_open(world: &World) {
    let mut wrong = Wrong::default();
    for (path, operations) in addresses() {
        let headers = [("origin", "https://shop.example"), ("access-control-request-method", "POST")];
        let called = world.path(&operations[0]);
        let answer = world.send_to("OPTIONS", &called, Access::Anyone, &headers, "").await;
        let open: BTreeSet<&str> =
            operations.iter().filter(|o| o.access == Access::Public).map(|o| o.method.as_str()).collect();
        let allowed = answer.header("access-control-allow-methods").map(|methods| methods.split(", ").collect());
        let origin = answer.header("access-control-allow-origin");
        let right = answer.status == 204
            && allowed == Some(open.clone()).filter(|open| !open.is_empty())
            && origin == (!open.is_empty()).then_some("*")
            && answer.header("access-control-allow-credentials").is_none();
        wrong.note(right, &format!("OPTIONS {path} allows {allowed:?} to {origin:?}"), &answer);
    }
    wrong.none();
}
