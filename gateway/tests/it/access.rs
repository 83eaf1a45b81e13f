//! Calls every operation of `openapi.yaml` as each kind of caller. New operations are covered automatically.

use std::collections::BTreeMap;

use gateway::router::{Access, BASE};
use gateway::routes::{self, ROUTES};
use http::Method;
use store_projects::members::Role;

use crate::document::{Operation, all_operations, in_braces};
use crate::fixture::Gateway;
use crate::http::Call;
use crate::setup::Tenant;

/// The caller, relative to the project that the request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Anonymous,
    Public,
    Secret,
    /// A secret key of another project.
    ForeignKey,
    Member,
    Admin,
    /// The admin of another project, who names this project in the request.
    ForeignAdmin,
}

const CALLERS: [Caller; 7] = [
    Caller::Anonymous,
    Caller::Public,
    Caller::Secret,
    Caller::ForeignKey,
    Caller::Member,
    Caller::Admin,
    Caller::ForeignAdmin,
];

/// Returns the status with which a caller is refused, or `None` if the caller is allowed.
#[expect(clippy::match_same_arms, reason = "a table, read from top to bottom")]
fn refusal(access: Access, caller: Caller) -> Option<u16> {
    match (access, caller) {
        (Access::Anyone, _) => None,
        (_, Caller::Anonymous) => Some(401),
        (Access::Session, Caller::Public | Caller::Secret | Caller::ForeignKey) => Some(403),
        (Access::Session, _) => None,
        (_, Caller::ForeignAdmin) => Some(404),
        (Access::Public, _) => None,
        (_, Caller::Public) => Some(403),
        (Access::Secret, _) | (Access::SecretOrAdmin, Caller::Secret | Caller::ForeignKey | Caller::Admin) => None,
        (Access::Member, Caller::Member | Caller::Admin) | (Access::Admin, Caller::Admin) => None,
        (Access::SecretOrAdmin | Access::Member | Access::Admin, _) => Some(403),
    }
}

#[test]
fn document_and_routes_require_the_same_access() {
    let documented = all_operations().into_iter().map(|o| ((o.method, o.path), o.access));
    let routed = ROUTES.iter().map(|r| ((r.method.to_owned(), in_braces(r.pattern)), r.access));
    assert_eq!(documented.collect::<BTreeMap<_, _>>(), routed.collect());
    for Operation { method, path, access, .. } in all_operations() {
        let method: Method = method.parse().unwrap();
        let called = format!("{BASE}{}", path.replace("{id}", "7"));
        assert_eq!(routes::find(&method, &called).unwrap().route.access, access, "{method} {path}");
    }
}

#[tokio::test]
async fn callers_reach_exactly_the_operations_they_may() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let mut wrong = Vec::new();
    for operation in all_operations() {
        for caller in CALLERS {
            let id = if operation.path.starts_with("/projects/") {
                project.id.to_string()
            } else {
                "01900000-0000-7000-8000-000000000000".to_owned()
            };
            let path = operation.at(&id);
            let call = call(&gateway, &project, &other, caller, (&operation.method, &path)).await;
            let body = if operation.method == "GET" { "" } else { "{}" };
            let response = call.header("content-type", "application/json").send(body).await;
            let right = match refusal(operation.access, caller) {
                Some(status) => response.status == status,
                // Public operations that need a signature or a token are refused by their handlers.
                None if operation.access == Access::Anyone => response.status < 500,
                None => ![401, 403, 405, 500].contains(&response.status),
            };
            if !right {
                wrong.push(format!("{caller:?}: {} {path}: {}", operation.method, response.text));
            }
            if response.status >= 400 {
                response.error(response.status);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn call(
    gateway: &Gateway,
    project: &Tenant,
    other: &Tenant,
    caller: Caller,
    (method, path): (&str, &str),
) -> Call {
    let keyed = |key: &str| gateway.call(method, path).header("x-api-key", key);
    // Each call has its own session, because logging out is one of the operations.
    let (of, role) = match caller {
        Caller::Anonymous => return gateway.call(method, path),
        Caller::Public => return keyed(&project.public),
        Caller::Secret => return keyed(&project.secret),
        Caller::ForeignKey => return keyed(&other.secret),
        Caller::Member => (project, Role::Member),
        Caller::Admin => (project, Role::Admin),
        Caller::ForeignAdmin => (other, Role::Admin),
    };
    let mut login = gateway.log_in(of, role).await;
    login.project = project.id;
    gateway.call_as(&login, method, path)
}
