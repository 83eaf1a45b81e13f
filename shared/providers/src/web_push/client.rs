//! Web push client: one call per browser, to the push service that its subscription names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use bytes::Bytes;
use domain::push_token::Subscription;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{Request, Uri};
use http_client::HttpClient;
use kernel::clock::Clock;
use serde_json::json;
use tokio::time::Instant;

use super::config::WebPushConfig;
use super::encrypt::{MAX_TEXT_BYTES, encrypt};
use super::error::{outcome, unanswered};
use crate::push::{Push, TTL_SECS};
use crate::{Outcome, TOO_LARGE};

/// How long a token is valid, and how long it is used. Push services accept at most a day.
const TOKEN_SECS: i64 = 12 * 3_600;
const TOKEN_REUSE: Duration = Duration::from_hours(6);
/// Maximum push services whose tokens are cached: an attacker can register any number of them.
const MAX_CACHED_TOKENS: usize = 1_000;

pub struct Client {
    config: WebPushConfig,
    http: HttpClient,
    clock: Clock,
    /// By the push service's origin.
    tokens: Mutex<HashMap<String, (String, Instant)>>,
}

impl Client {
    pub fn new(config: WebPushConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, http, clock, tokens: Mutex::default() }
    }

    pub async fn send(&self, push: &Push) -> Outcome {
        let (uri, request) = match self.request(push) {
            Ok(request) => request,
            Err(why) => return Outcome::Rejected(why),
        };
        if let Err(why) = self.check_port(&uri).await {
            return Outcome::Rejected(why);
        }
        match self.http.call(request).await {
            Ok(answer) => outcome(&answer, &push.id.to_string(), self.clock.now()),
            Err(error) => unanswered(error),
        }
    }

    fn request(&self, push: &Push) -> Result<(Uri, Request<Bytes>), String> {
        let subscription = Subscription::parse(&push.token)?;
        let uri: Uri = subscription.endpoint.parse().map_err(|_| "the subscription's endpoint is not a URL")?;
        let text = push.payload().to_string();
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("{TOO_LARGE}: {} bytes, but browsers accept at most {MAX_TEXT_BYTES}", text.len()));
        }
        let own = PrivateKey::generate(&ECDH_P256).map_err(|_| "a key pair could not be generated")?;
        let body = encrypt(text.as_bytes(), &subscription, &own, &rand::random())
            .map_err(|_| "the subscription's p256dh is not a key")?;
        let authorization = self.authorization(&uri)?;
        let request = Request::post(&uri)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("ttl", TTL_SECS)
            .header("urgency", "high")
            // A newer push with the same topic replaces an undelivered one.
            .header("topic", push.id.simple().to_string())
            .body(Bytes::from(body))
            .map_err(|e| e.to_string())?;
        Ok((uri, request))
    }

    fn authorization(&self, uri: &Uri) -> Result<String, String> {
        let origin = format!("https://{}", uri.authority().map_or("", http::uri::Authority::as_str));
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = tokens.get(&origin).filter(|(_, until)| Instant::now() < *until).map(|(token, _)| token.clone());
        let token = match cached {
            Some(token) => token,
            None => {
                let mut claims = json!({ "aud": origin, "exp": self.clock.now().as_second() + TOKEN_SECS });
                if let Some(subject) = &self.config.subject {
                    claims["sub"] = subject.as_str().into();
                }
                let token = self.config.key.token(None, &claims).map_err(|e| format!("the VAPID key {e}"))?;
                if tokens.len() >= MAX_CACHED_TOKENS {
                    tokens.clear();
                }
                tokens.insert(origin, (token.clone(), Instant::now() + TOKEN_REUSE));
                token
            }
        };
        Ok(format!("vapid t={token}, k={}", self.config.public))
    }

    /// Checks the port. Push services use 443; other ports are called only at addresses that the operator exempted.
    async fn check_port(&self, uri: &Uri) -> Result<(), String> {
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
        if port == 443 {
            return Ok(());
        }
        match self.http.policy().resolve(host, port).await {
            Ok(ip) if self.http.policy().exempts(ip) => Ok(()),
            Ok(_) => Err(format!("the subscription's endpoint uses port {port}, but only port 443 is allowed")),
            Err(error) => Err(error.to_string()),
        }
    }
}
