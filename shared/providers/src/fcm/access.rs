//! Access tokens (OAuth 2, RFC 7523), requested with a signed assertion and cached until shortly before they expire.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_client::{CallError, HttpClient};
use kernel::clock::Clock;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::config::ServiceAccount;
use crate::Outcome;
use crate::http::{by_status, describe, unanswered};

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// How long before its expiry a token is no longer used.
const EXPIRY_MARGIN: Duration = Duration::from_mins(5);
const ASSERTION_SECS: i64 = 3_600;

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: u64,
}

#[derive(Deserialize)]
struct TokenError {
    error: String,
    #[serde(default)]
    error_description: String,
}

#[derive(Clone)]
struct CachedToken {
    token: String,
    until: Instant,
}

/// The cached token of one account. Only one request for a new token is made at a time.
#[derive(Default)]
pub struct Access(Mutex<Option<CachedToken>>);

impl Access {
    pub async fn token(&self, account: &ServiceAccount, http: &HttpClient, clock: &Clock) -> Result<String, Outcome> {
        let mut cached = self.0.lock().await;
        if let Some(cached) = cached.as_ref().filter(|k| Instant::now() < k.until) {
            return Ok(cached.token.clone());
        }
        let granted = request_token(account, http, clock).await?;
        let lifetime = Duration::from_secs(granted.expires_in.min(86_400)).saturating_sub(EXPIRY_MARGIN);
        *cached = Some(CachedToken { token: granted.access_token.clone(), until: Instant::now() + lifetime });
        Ok(granted.access_token)
    }

    /// Discards a refused token. Returns true if it was the cached one.
    pub async fn forget(&self, token: &str) -> bool {
        let mut cached = self.0.lock().await;
        cached.take_if(|cached| cached.token == token).is_some()
    }
}

/// Requests a token. No part of the message was sent yet, so no failure here is ambiguous.
async fn request_token(account: &ServiceAccount, http: &HttpClient, clock: &Clock) -> Result<TokenResponse, Outcome> {
    let now = clock.now();
    let issued = now.as_second();
    let claims = json!({
        "iss": account.email, "scope": SCOPE, "aud": account.token_address, "iat": issued, "exp": issued + ASSERTION_SECS,
    });
    let assertion = account.key.token(account.key_id.as_deref(), &claims);
    let assertion = assertion.map_err(|e| Outcome::Misconfigured(format!("the service account's key {e}")))?;
    let form = format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
    let request = Request::post(&account.token_address)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Bytes::from(form))
        .map_err(|e| Outcome::Misconfigured(e.to_string()))?;
    let answer = match http.call(request).await {
        Ok(answer) => answer,
        Err(CallError::Unanswered(why)) => return Err(Outcome::unavailable(format!("access token: {why}"))),
        Err(error) => return Err(unanswered(error)),
    };
    if answer.status.is_success() {
        return answer
            .json::<TokenResponse>()
            .filter(|g| !g.access_token.is_empty() && g.access_token.bytes().all(|b| b.is_ascii_graphic()))
            .ok_or_else(|| Outcome::unavailable("the token service's response contains no token"));
    }
    if let Some(refused) = answer.json::<TokenError>().filter(|_| answer.status.is_client_error()) {
        let why = describe(answer.status, &format!("{}: {}", refused.error, refused.error_description));
        return Err(Outcome::Misconfigured(why));
    }
    Err(match by_status(&answer, answer.text(), now) {
        Outcome::Ambiguous(why) => Outcome::unavailable(why),
        Outcome::Rejected(why) => Outcome::Misconfigured(why),
        other => other,
    })
}
