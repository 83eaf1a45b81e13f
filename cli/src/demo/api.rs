//! A client that sees the service as its customers do: HTTP calls, each with a timeout, retried while the service is
//! unavailable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use super::retry::{Next, Outcome, next};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long one call is retried before the demo gives up: far longer than any restart takes.
const MAX_RETRY_TIME: Duration = Duration::from_mins(5);

pub struct Api {
    http: Client,
    base: Url,
    public_key: String,
    secret_key: String,
    retries: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{call}: {status}: {message}")]
    Refused { call: String, status: u16, message: String },
    #[error("{call}: still failing after {} s: {last}", MAX_RETRY_TIME.as_secs())]
    GaveUp { call: String, last: String },
    #[error("{call}: the response does not match the specification: {problem}")]
    UnexpectedResponse { call: String, problem: String },
}

#[derive(Clone, Copy, Debug)]
pub enum Key {
    Public,
    Secret,
}

impl Api {
    pub fn new(base_url: &str, public_key: String, secret_key: String, connections: usize) -> anyhow::Result<Self> {
        let mut text = base_url.trim_end_matches('/').to_owned();
        if !text.ends_with("/api/v1") {
            text.push_str("/api/v1");
        }
        let http = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .pool_max_idle_per_host(connections)
            .build()?;
        let base = Url::parse(&text).map_err(|e| anyhow::anyhow!("base URL {base_url:?}: {e}"))?;
        anyhow::ensure!(matches!(base.scheme(), "http" | "https"), "base URL {base_url:?}: neither http nor https");
        Ok(Self { http, base, public_key, secret_key, retries: AtomicU64::new(0) })
    }

    /// Returns the number of retries of all calls.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Sends a `POST`. `build` adds the body and further headers for each attempt.
    pub async fn post(
        &self,
        key: Key,
        path: &[&str],
        build: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value, ApiError> {
        let url = self.url(path, &[]);
        let call = format!("POST {}", url.path());
        let key = match key {
            Key::Public => &self.public_key,
            Key::Secret => &self.secret_key,
        };
        self.call_with_retries(&call, || {
            let request = self.http.post(url.clone()).header("x-api-key", key);
            build(request.header("content-type", "application/json"))
        })
        .await
    }

    pub async fn put(&self, path: &[&str], body: &Value) -> Result<Value, ApiError> {
        let url = self.url(path, &[]);
        let call = format!("PUT {}", url.path());
        self.call_with_retries(&call, || self.http.put(url.clone()).bearer_auth(&self.secret_key).json(body)).await
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, ApiError> {
        let url = self.url(path, query);
        let call = format!("GET {}", &url.as_str()[url.origin().ascii_serialization().len()..]);
        self.call_with_retries(&call, || self.http.get(url.clone()).bearer_auth(&self.secret_key)).await
    }

    /// Like `get`, but returns `None` if the resource does not exist.
    pub async fn find(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Option<Value>, ApiError> {
        match self.get(path, query).await {
            Ok(value) => Ok(Some(value)),
            Err(ApiError::Refused { status: 404, .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns all items of a list, following its pages if it has any.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>, ApiError> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let query = cursor.as_deref().map(|cursor| ("cursor", cursor));
            let page = self.get(&[path], query.as_slice()).await?;
            items.extend(page[path].as_array().cloned().unwrap_or_default());
            match page["nextCursor"].as_str() {
                Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
                _ => return Ok(items),
            }
        }
    }

    async fn call_with_retries(&self, call: &str, build: impl Fn() -> RequestBuilder) -> Result<Value, ApiError> {
        let began = tokio::time::Instant::now();
        let mut failures = 0;
        loop {
            let (outcome, answer) = attempt(build()).await;
            failures += 1;
            match next(outcome, failures, rand::random()) {
                Next::Done => {
                    return serde_json::from_str(&answer)
                        .map_err(|e| ApiError::UnexpectedResponse { call: call.to_owned(), problem: e.to_string() });
                }
                Next::Stop => {
                    let Outcome::Response { status, .. } = outcome else { continue };
                    return Err(ApiError::Refused { call: call.to_owned(), status, message: reason(&answer) });
                }
                Next::Retry { .. } if began.elapsed() > MAX_RETRY_TIME => {
                    return Err(ApiError::GaveUp { call: call.to_owned(), last: reason(&answer) });
                }
                Next::Retry { after } => {
                    self.retries.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(after).await;
                }
            }
        }
    }
}

/// Makes one attempt. Returns its outcome, and the body or the reason why there is no response.
async fn attempt(request: RequestBuilder) -> (Outcome, String) {
    let response = match request.send().await {
        Ok(response) => response,
        Err(e) => return (Outcome::NoResponse, format!("{e:?}")),
    };
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").and_then(|v| v.to_str().ok()?.trim().parse().ok());
    match response.text().await {
        Ok(body) => (Outcome::Response { status, retry_after }, body),
        // The connection broke in the middle of the body, so the outcome is unknown.
        Err(e) => (Outcome::NoResponse, format!("{e:?}")),
    }
}

/// Returns the message of an error in the API's error format, or else the beginning of the body.
fn reason(answer: &str) -> String {
    let shape: Option<Value> = serde_json::from_str(answer).ok();
    match shape.as_ref().and_then(|error| error["message"].as_str()) {
        Some(message) => {
            let details = shape.as_ref().map(|error| &error["details"]).filter(|details| !details.is_null());
            details.map_or_else(|| message.to_owned(), |details| format!("{message} {details}"))
        }
        None => answer.chars().take(300).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(base: &str) -> Api {
        // The TLS provider is global to the process, and another test may have installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Api::new(base, "pk".into(), "sk".into(), 1).unwrap()
    }

    #[test]
    fn the_version_prefix_is_added_once() {
        for base in
            ["http://localhost:1", "http://localhost:1/", "http://localhost:1/api/v1", "http://localhost:1/api/v1/"]
        {
            assert_eq!(api(base).url(&["events", "batch"], &[]).as_str(), "http://localhost:1/api/v1/events/batch");
        }
    }

    #[test]
    fn ids_survive_a_path_and_a_query() {
        let url = api("http://localhost:1").url(&["users", "zoë/42?a#b%2F"], &[("user", "a+b & c")]);
        assert_eq!(url.as_str(), "http://localhost:1/api/v1/users/zo%C3%AB%2F42%3Fa%23b%252F?user=a%2Bb+%26+c");
    }

    #[test]
    fn error_message_of_the_service_is_returned() {
        assert_eq!(reason(r#"{"error":"Conflict","message":"in use","status":409}"#), "in use");
        assert_eq!(reason("<html>"), "<html>");
    }
}
