//! APNs client: one call per device, over shared HTTP/2 connections.

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_client::HttpClient;
use kernel::clock::Clock;
use serde_json::json;

use super::config::ApnsConfig;
use super::error::{outcome, says_expired};
use super::token::Tokens;
use crate::http::unanswered;
use crate::push::{MAX_PAYLOAD_BYTES, Push, TTL_SECS};
use crate::{Outcome, TOO_LARGE};

pub struct Client {
    config: ApnsConfig,
    tokens: Tokens,
    http: HttpClient,
    clock: Clock,
}

impl Client {
    pub fn new(config: ApnsConfig, tokens: Tokens, http: &HttpClient, clock: Clock) -> Self {
        let http = tokens.connections(&config, http);
        Self { config, tokens, http, clock }
    }

    pub async fn send(&self, push: &Push) -> Outcome {
        // The token becomes part of the path and must not change it.
        if push.token.is_empty() || !push.token.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Outcome::Rejected(
                "the device token is not an APNs token, which consists of hexadecimal digits".to_owned(),
            );
        }
        let mut payload = push.data();
        payload["aps"] = json!({
            "alert": { "title": push.title, "body": push.body }, "sound": "default", "mutable-content": 1,
        });
        let payload = payload.to_string();
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Outcome::Rejected(format!("{TOO_LARGE}: {} bytes", payload.len()));
        }
        let token = match self.tokens.get(&self.config, &self.clock) {
            Ok(token) => token,
            Err(error) => return Outcome::Misconfigured(format!("iosPushPrivateKey {error}")),
        };
        let id = push.id.to_string();
        let request = Request::post(self.config.base.join(&format!("/3/device/{}", push.token)))
            .header(AUTHORIZATION, format!("bearer {token}"))
            .header(CONTENT_TYPE, "application/json")
            .header("apns-topic", &self.config.bundle_id)
            .header("apns-push-type", "alert")
            .header("apns-priority", "10")
            .header("apns-expiration", self.clock.now().as_second() + TTL_SECS)
            .header("apns-id", &id)
            // Devices replace the first copy with a repeat.
            .header("apns-collapse-id", &id)
            .body(Bytes::from(payload));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::Misconfigured(error.to_string()),
        };
        let answer = match self.http.call_h2(request).await {
            Ok(answer) => answer,
            Err(error) => return unanswered(error),
        };
        if says_expired(&answer) {
            self.tokens.expired(&self.config, &token);
        }
        outcome(&answer, &id, self.clock.now())
    }
}
