//! Invitations and their links for tests; the API returns no link.

use serde_json::json;
use store_projects::invites;
use uuid::Uuid;

use crate::fixture::Gateway;
use crate::http;
use crate::login::Login;
use crate::setup::master_keys;

/// The environment of a gateway whose worker can mail invitations.
pub const SYSTEM_MAIL: &[(&str, &str)] =
    &[("SYSTEM_SMTP_URL", "smtp://127.0.0.1:2525?security=none"), ("SYSTEM_MAIL_FROM", "rekindle@example.com")];

/// Creates an invitation; returns its ID and the token in the mailed link.
pub async fn invite(gateway: &Gateway, by: &Login, email: &str, role: &str) -> (String, String) {
    let body = gateway.post_as(by, "/team/invites", &json!({"email": email, "role": role})).await.expect(201);
    assert_eq!((&body["invite"]["status"], &body["invite"]["email"]), (&json!("PENDING"), &json!(email)));
    let id = body["invite"]["id"].as_str().unwrap().to_owned();
    let sql = "SELECT project_id, sealed_link FROM invite WHERE id = $1";
    let row = gateway.sql.query_one(sql, &[&id.parse::<Uuid>().unwrap()]).await.unwrap();
    let link = master_keys().open(row.get(0), "invite", row.get(1)).unwrap();
    let link = String::from_utf8(link).unwrap();
    (id, link.split_once("?token=").unwrap().1.to_owned())
}

/// Creates the token that an operator prints for the pending invitation of an address.
pub async fn operator_token(gateway: &Gateway, of: &Login, email: &str) -> String {
    let mut db = gateway.app.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = gateway.app.clock.now();
    let invite = invites::pending_for_update(&tx, of.project, email, now).await.unwrap().unwrap();
    let (token, hash) = invites::new_token();
    invites::set_operator_token(&tx, &invite, &hash).await.unwrap();
    tx.commit().await.unwrap();
    token
}

pub async fn accept(gateway: &Gateway, token: &str, password: &str) -> http::HttpResponse {
    let body = json!({"token": token, "name": "Grace", "password": password}).to_string();
    gateway.call("POST", "/auth/invites/accept").send(body).await
}
