//! Signed-in accounts, for tests that need a session.

use bytes::Bytes;
use database::Store;
use kernel::clock::Clock;
use kernel::ids::{ProjectId, fresh};
use secrets::password;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store_projects::accounts::{self, Account};
use store_projects::members::{self, Role};
use store_projects::sessions::{self, NewSession};
use uuid::Uuid;

use crate::fixture::{ApiResponse, Gateway};
use crate::http::{self, Call};
use crate::setup::{Tenant, secs};

/// A signed-in account and the project that it works on.
#[derive(Clone)]
pub struct Login {
    pub account: Uuid,
    pub email: String,
    pub project: ProjectId,
    pub cookie: String,
    pub csrf_token: String,
}

/// Creates an account; without a password, no password signs in to it.
pub async fn account(store: &Store, email: &str, password: Option<&str>) -> Uuid {
    let now = Clock::system().now();
    let hash = password.map_or(password::DUMMY_HASH.to_owned(), |p| password::hash(p).unwrap());
    let account =
        Account { id: fresh(now.as_millisecond()), email: email.to_owned(), name: "Ada".to_owned(), is_verified: true };
    let mut db = store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    assert!(accounts::insert(&tx, &account, &hash, now).await.unwrap(), "{email} already exists");
    tx.commit().await.unwrap();
    account.id
}

pub async fn join(store: &Store, project: ProjectId, account: Uuid, role: Role) {
    let mut db = store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    members::join(&tx, project, account, role, Clock::system().now()).await.unwrap();
    tx.commit().await.unwrap();
}

impl Gateway {
    /// Creates an account with this role in the project and signs it in.
    pub async fn log_in(&self, project: &Tenant, role: Role) -> Login {
        let store = &self.app.store;
        let email = format!("{:016x}@example.com", rand::random::<u64>());
        let account = account(store, &email, None).await;
        join(store, project.id, account, role).await;
        self.session_of(account, &email, project.id).await
    }

    /// Creates a session directly, because password hashing is slow.
    pub async fn session_of(&self, account: Uuid, email: &str, project: ProjectId) -> Login {
        let id = hex::encode(rand::random::<[u8; 32]>());
        let now = Clock::system().now();
        let db = self.app.store.connection().await.unwrap();
        let hash = Sha256::digest(id.as_bytes()).into();
        let password_hash = accounts::get(&db, account).await.unwrap().unwrap().password_hash;
        let expires_at = now + secs(3_600);
        let new = NewSession { hash, account, password_hash: &password_hash, user_agent: "a test", expires_at };
        assert!(sessions::insert(&db, &new, now).await.unwrap());
        let cookie = format!("session={id}");
        let mut login = Login { account, email: email.to_owned(), project, cookie, csrf_token: String::new() };
        let session = self.send_as(&login, "GET", "/auth/session", "").await.expect(200);
        session["csrfToken"].as_str().unwrap().clone_into(&mut login.csrf_token);
        login
    }

    /// Starts a call below `/api/v1` with a session.
    pub fn call_as(&self, login: &Login, method: &str, path: &str) -> Call {
        self.call(method, path)
            .header("cookie", &login.cookie)
            .header("x-csrf-token", &login.csrf_token)
            .header("x-project-id", &login.project.to_string())
    }

    pub async fn send_as(&self, login: &Login, method: &str, path: &str, body: impl Into<Bytes>) -> ApiResponse {
        let response = self.call_as(login, method, path).send(body).await;
        ApiResponse { status: response.status, body: response.json() }
    }

    pub async fn get_as(&self, login: &Login, path: &str) -> ApiResponse {
        self.send_as(login, "GET", path, "").await
    }

    pub async fn post_as(&self, login: &Login, path: &str, body: &Value) -> ApiResponse {
        self.send_as(login, "POST", path, body.to_string()).await
    }

    pub async fn put_as(&self, login: &Login, path: &str, body: &Value) -> ApiResponse {
        self.send_as(login, "PUT", path, body.to_string()).await
    }

    pub async fn delete_as(&self, login: &Login, path: &str) -> ApiResponse {
        self.send_as(login, "DELETE", path, "").await
    }

    /// Signs in with an email address and a password.
    pub async fn post_login(&self, email: &str, password: &str) -> http::HttpResponse {
        let body = serde_json::json!({ "email": email, "password": password });
        self.call("POST", "/auth/login").send(body.to_string()).await
    }
}
