//! A client of the HTTP API that returns every response as received, and never retries.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use testkit::eventually;

/// A client with both of a project's keys.
#[derive(Clone, Debug)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    pub public_key: String,
    pub secret_key: String,
}

/// A response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub retry_after: Option<u64>,
    /// Null if the body is not JSON.
    pub json: Value,
    pub took: Duration,
}

impl ApiResponse {
    /// Returns the body of a response with this status; panics with the response otherwise.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }
}

impl Api {
    /// Creates a client. `origin` has no path.
    pub fn new(origin: &str, public_key: &str, secret_key: &str) -> Self {
        // Fails if another test in this process has installed the provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build();
        let (public_key, secret_key) = (public_key.to_owned(), secret_key.to_owned());
        Self { http: http.expect("an HTTP client"), base: format!("{origin}/api/v1"), public_key, secret_key }
    }

    /// Returns a copy for another client, with its own connections.
    #[must_use]
    pub fn with_own_connections(&self) -> Self {
        Self::new(self.base.trim_end_matches("/api/v1"), &self.public_key, &self.secret_key)
    }

    /// Returns a copy with another public key.
    #[must_use]
    pub fn with_public_key(&self, key: &str) -> Self {
        Self { public_key: key.to_owned(), ..self.clone() }
    }

    /// Makes a call with the given key. `Err` if no response arrived.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<&Value>,
    ) -> Result<ApiResponse, String> {
        let began = Instant::now();
        let mut request = self.http.request(method, format!("{}{path}", self.base)).header("x-api-key", key);
        if let Some(body) = body {
            request = request.json(body);
        }
        read(request.send().await, began).await
    }

    /// Posts with the public key, as browsers and apps do.
    pub async fn track(&self, path: &str, body: &Value) -> ApiResponse {
        expect_response(self.call(Method::POST, path, &self.public_key, Some(body)).await)
    }

    /// Like [`Api::track`], as part of a trace.
    pub async fn track_traced(&self, path: &str, body: &Value, traceparent: &str) -> ApiResponse {
        let began = Instant::now();
        let request = self.http.post(format!("{}{path}", self.base)).header("x-api-key", &self.public_key);
        let request = request.header("traceparent", traceparent).json(body);
        expect_response(read(request.send().await, began).await)
    }

    /// Posts with the secret key, like all methods below.
    pub async fn post(&self, path: &str, body: &Value) -> ApiResponse {
        expect_response(self.call(Method::POST, path, &self.secret_key, Some(body)).await)
    }

    pub async fn put(&self, path: &str, body: &Value) -> ApiResponse {
        expect_response(self.call(Method::PUT, path, &self.secret_key, Some(body)).await)
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        expect_response(self.call(Method::GET, path, &self.secret_key, None).await)
    }

    /// Posts with the secret key and an `Idempotency-Key`. `Err` if no response arrived.
    pub async fn post_with_key(&self, key: &str, path: &str, body: &Value) -> Result<ApiResponse, String> {
        let began = Instant::now();
        let request = self.http.post(format!("{}{path}", self.base)).header("x-api-key", &self.secret_key);
        read(request.header("idempotency-key", key).json(body).send().await, began).await
    }

    /// Imports lines of NDJSON with an `Idempotency-Key`. `Err` if no response arrived.
    pub async fn import(&self, key: &str, lines: String) -> Result<ApiResponse, String> {
        let began = Instant::now();
        let request = self.http.post(format!("{}/users/import", self.base)).header("x-api-key", &self.secret_key);
        let request = request.header("idempotency-key", key).header("content-type", "application/x-ndjson").body(lines);
        read(request.send().await, began).await
    }

    /// Returns the lines of an export.
    pub async fn export(&self, path: &str) -> Vec<Value> {
        let request = self.http.get(format!("{}{path}", self.base)).header("x-api-key", &self.secret_key);
        let response = request.send().await.unwrap_or_else(|error| panic!("no response: {error:?}"));
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let text = response.text().await.unwrap_or_else(|error| panic!("incomplete response: {error:?}"));
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// Creates a resource and returns its ID.
    pub async fn create(&self, path: &str, body: &Value) -> String {
        let created = self.post(path, body).await.expect(201);
        created["id"].as_str().unwrap_or_else(|| panic!("no id in {created}")).to_owned()
    }

    /// Polls until the response meets the condition; panics with the last response at the timeout.
    pub async fn until(&self, path: &str, within: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
        let probe = async || {
            let answer = self.get(path).await;
            if answer.status == 200 && wanted(&answer.json) { Ok(answer.json) } else { Err(answer) }
        };
        eventually(within, probe).await
    }
}

async fn read(sent: reqwest::Result<reqwest::Response>, began: Instant) -> Result<ApiResponse, String> {
    let response = sent.map_err(|error| format!("{error:?}"))?;
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").and_then(|v| v.to_str().ok()?.parse().ok());
    let text = response.text().await.map_err(|error| format!("{error:?}"))?;
    let json = serde_json::from_str(&text).unwrap_or_default();
    Ok(ApiResponse { status, retry_after, json, took: began.elapsed() })
}

#[track_caller]
fn expect_response(outcome: Result<ApiResponse, String>) -> ApiResponse {
    outcome.unwrap_or_else(|error| panic!("no response: {error}"))
}
