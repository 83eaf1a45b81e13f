//! Bad input at every operation of `openapi.yaml` results in a clear error in the common format, never a 5xx.
//!
//! New operations are covered automatically.

mod answers;
mod bodies;
mod fields;
mod methods;
mod parameters;
mod schema;

use std::collections::BTreeMap;

use bytes::Bytes;
use gateway::router::Access;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use store_projects::members::Role;

use crate::document::{Operation, operations};
use crate::fixture::Gateway;
use crate::http::HttpResponse;
use crate::isolation::{fill, ids_of};
use crate::login::Login;
use crate::setup::Tenant;

/// A project with one of every resource, and its admin, who makes the calls that allow a session.
struct World {
    gateway: Gateway,
    project: Tenant,
    admin: Login,
    webhook_secret: String,
    /// The value of `{id}`, by the path up to it.
    ids: BTreeMap<String, String>,
}

impl World {
    async fn new() -> Self {
        let gateway = Gateway::start().await;
        let project = gateway.project().await;
        fill(&gateway, &project).await;
        let admin = gateway.log_in(&project, Role::Admin).await;
        let shown = gateway.get_as(&admin, &format!("/projects/{}", project.id)).await.expect(200);
        let webhook_secret = shown["webhookSecret"].as_str().unwrap().to_owned();
        let mut world = Self { gateway, project, admin, webhook_secret, ids: BTreeMap::new() };
        world.find_ids().await;
        world
    }

    /// Finds the ID for each path by trying those of all rows. Paths without a `GET` have their IDs set here.
    async fn find_ids(&mut self) {
        self.ids.insert("/team/{id}".to_owned(), self.admin.account.to_string());
        self.ids.insert("/webhook/{id}".to_owned(), self.project.id.to_string());
        self.ids.insert("/channels/{id}".to_owned(), "email".to_owned());
        let candidates = ids_of(&self.gateway, &self.project).await;
        let all = operations();
        for operation in all.iter().filter(|o| o.has_id()) {
            let whole = operation.upto_id();
            if self.ids.contains_key(whole) || !all.iter().any(|o| o.method == "GET" && o.path == whole) {
                continue;
            }
            for id in &candidates {
                let path = whole.replace("{id}", id);
                if self.gateway.send_as(&self.admin, "GET", &path, "").await.status == 200 {
                    self.ids.insert(whole.to_owned(), id.clone());
                    break;
                }
            }
            assert!(self.ids.contains_key(whole), "GET {whole} finds nothing: `isolation::fill` must create some");
        }
    }

    /// Returns the operation's path with an existing ID.
    fn path(&self, operation: &Operation) -> String {
        let id = if operation.has_id() { self.ids.get(operation.upto_id()).map_or("none", String::as_str) } else { "" };
        let query: Vec<String> = operation.query.iter().map(|name| format!("{name}=u")).collect();
        let path = operation.at(id);
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    async fn send(&self, operation: &Operation, body: impl Into<Bytes>) -> HttpResponse {
        self.send_with(operation, &[("content-type", "application/json")], body).await
    }

    async fn send_with(&self, operation: &Operation, headers: &[(&str, &str)], body: impl Into<Bytes>) -> HttpResponse {
        self.send_to(&operation.method, &self.path(operation), operation.access, headers, body).await
    }

    /// Sends as the admin; a webhook is signed with the project's secret.
    async fn send_to(
        &self,
        method: &str,
        path: &str,
        access: Access,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> HttpResponse {
        let body = body.into();
        let mut call = match access {
            Access::Anyone => self.gateway.call(method, path),
            _ => self.gateway.call_as(&self.admin, method, path),
        };
        if path.starts_with("/webhook/") {
            let mut mac = Hmac::<Sha256>::new_from_slice(self.webhook_secret.as_bytes()).unwrap();
            mac.update(&signed_part(headers, &body));
            call = call.header("x-signature", &hex::encode(mac.finalize().into_bytes()));
        }
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send(body).await
    }
}

/// Returns the part that a webhook's signature covers: the body before compression.
fn signed_part(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut plain = Vec::new();
    let zipped = headers.contains(&("content-encoding", "gzip"));
    if zipped && flate2::read::GzDecoder::new(body).read_to_end(&mut plain).is_ok() {
        return plain;
    }
    body.to_vec()
}

/// Collects failures, so that a test reports all of them at its end.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn check(&mut self, right: bool, what: &str, response: &HttpResponse) {
        if !right {
            let text: String = response.text.chars().take(300).collect();
            self.0.push(format!("{what}: {} {text}", response.status));
        }
    }

    /// Records a failure unless the response is an error of one of these statuses in the common format.
    fn refused(&mut self, statuses: &[u16], what: &str, response: &HttpResponse) {
        self.check(statuses.contains(&response.status) && has_shape(response), what, response);
    }

    fn none(self) {
        assert!(self.0.is_empty(), "{} things:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// Returns whether an error has every field of the common format.
fn has_shape(response: &HttpResponse) -> bool {
    let Ok(body) = serde_json::from_str::<Value>(&response.text) else { return false };
    let reason = http::StatusCode::from_u16(response.status).ok().and_then(|s| s.canonical_reason());
    let details = body["details"].as_array();
    let named =
        |d: &Value| !d["field"].as_str().unwrap_or("").is_empty() && !d["message"].as_str().unwrap_or("").is_empty();
    body["error"].as_str() == reason
        && body["status"] == response.status
        && !body["message"].as_str().unwrap_or("").is_empty()
        && body["requestId"].as_str() == response.header("x-request-id")
        && (response.status == 422) == details.is_some_and(|details| !details.is_empty() && details.iter().all(named))
}

/// Returns the fields that an error names.
fn named(response: &HttpResponse) -> Vec<String> {
    let body: Value = serde_json::from_str(&response.text).unwrap_or_default();
    let details = body["details"].as_array().into_iter().flatten();
    details.filter_map(|detail| detail["field"].as_str().map(str::to_owned)).collect()
}
