//! An admin of the project, and a receiver for webhooks.

use database::Store;
use database::config::DatabaseConfig;
use e2e::{ApiResponse, System};
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::ids::{ProjectId, fresh};
use reqwest::Method;
use secrets::password;
use serde_json::{Value, json};
use store_projects::accounts::{self, Account};
use store_projects::members::{self, Role};
use testkit::{Received, Reply, Vendor};

/// Answers every request with 200.
pub struct Hook;

impl Vendor for Hook {
    fn respond(&self, _: &Received) -> Reply {
        Reply::empty(200)
    }
}

/// A logged-in ADMIN.
#[derive(Clone)]
pub struct Session {
    http: reqwest::Client,
    base: String,
    email: String,
    project: String,
    pub cookie: String,
    pub csrf_token: String,
}

impl Session {
    /// Creates the account, and logs in with its password.
    pub async fn start(system: &System, email: &str, login: &str) -> Self {
        let config = DatabaseConfig::from_env(&Env::from_pairs([("DATABASE_URL", &*system.database_url)])).unwrap();
        let (store, now) = (Store::new(&config, "test").unwrap(), Clock::system().now());
        let id = fresh(now.as_millisecond());
        let account = Account { id, email: email.to_owned(), name: "canary-colleague".to_owned(), is_verified: true };
        let mut db = store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        assert!(accounts::insert(&tx, &account, &password::hash(login).unwrap(), now).await.unwrap());
        members::join(&tx, ProjectId(system.project), id, Role::Admin, now).await.unwrap();
        tx.commit().await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let base = format!("{}/api/v1", system.origin);
        let body = json!({ "email": email, "password": login });
        let answer = http.post(format!("{base}/auth/login")).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let login: Value = answer.json().await.unwrap();
        let csrf_token = login["csrfToken"].as_str().unwrap().to_owned();
        Self { http, base, email: email.to_owned(), project: system.project.to_string(), cookie, csrf_token }
    }

    pub async fn call(&self, method: Method, path: &str, body: &Value) -> ApiResponse {
        let request = self.http.request(method, format!("{}{path}", self.base)).header("cookie", &self.cookie);
        let mut request = request.header("x-csrf-token", &self.csrf_token).header("x-project-id", &self.project);
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let json = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
        ApiResponse { status, retry_after: None, json, took: std::time::Duration::ZERO }
    }

    /// Sends requests with invalid credentials: a wrong password, a session without its token, an unsigned webhook.
    pub async fn check_rejected(&self) {
        let login = json!({ "email": self.email, "password": "canary-login-that-is-wrong" });
        assert_eq!(self.call(Method::POST, "/auth/login", &login).await.status, 401);
        let without = Self { csrf_token: "canary-key".to_owned(), ..self.clone() };
        assert_eq!(without.call(Method::POST, "/team/invites", &json!({ "email": "a@b.c" })).await.status, 403);
        let event = json!({ "event": "canary-property", "data": { "userId": "canary-user" } });
        assert_eq!(self.call(Method::POST, &format!("/webhook/{}", self.project), &event).await.status, 401);
    }
}
