//! FCM client: one call per push, by either API.

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_client::{HttpClient, HttpResponse};
use kernel::clock::Clock;
use serde_json::{Value, json};

use super::access::Access;
use super::config::{FcmConfig, GatewayKey, ServiceAccount};
use super::error;
use crate::Outcome;
use crate::http::unanswered;
use crate::push::{Push, TTL_SECS};

pub struct Client {
    config: FcmConfig,
    access: Access,
    http: HttpClient,
    clock: Clock,
}

impl Client {
    pub fn new(config: FcmConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, access: Access::default(), http, clock }
    }

    pub async fn send(&self, push: &Push) -> Outcome {
        match &self.config.key {
            GatewayKey::Server(key) => self.legacy(key, push).await,
            GatewayKey::Account(account) => self.v1(account, push).await,
        }
    }

    async fn v1(&self, account: &ServiceAccount, push: &Push) -> Outcome {
        let token = match self.access.token(account, &self.http, &self.clock).await {
            Ok(token) => token,
            Err(outcome) => return outcome,
        };
        let path = format!("/v1/projects/{}/messages:send", account.project);
        let answer = match self.call(&path, format!("Bearer {token}"), &v1_message(push)).await {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        // A token may be revoked before it expires: the next attempt requests a new one.
        if answer.status.as_u16() == 401
            && !error::is_about_apns_credentials(&answer)
            && self.access.forget(&token).await
        {
            return Outcome::unavailable(error::error_text(&answer));
        }
        error::v1(&answer, self.clock.now())
    }

    async fn legacy(&self, key: &str, push: &Push) -> Outcome {
        match self.call("/fcm/send", format!("key={key}"), &legacy_message(push)).await {
            Ok(answer) => error::legacy(&answer, self.clock.now()),
            Err(outcome) => outcome,
        }
    }

    async fn call(&self, path: &str, authorization: String, message: &Value) -> Result<HttpResponse, Outcome> {
        let request = Request::post(self.config.base.join(path))
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from(message.to_string()))
            .map_err(|e| Outcome::Misconfigured(e.to_string()))?;
        self.http.call(request).await.map_err(unanswered)
    }
}

/// Returns the body of an HTTP v1 call. Because of the tag, devices replace the first copy with a repeat.
fn v1_message(push: &Push) -> Value {
    let id = push.id.to_string();
    json!({ "message": {
        "token": push.token,
        "notification": { "title": push.title, "body": push.body },
        "data": push.data(),
        "android": { "priority": "HIGH", "ttl": format!("{TTL_SECS}s"), "notification": { "tag": id } },
        "apns": { "headers": { "apns-collapse-id": id, "apns-priority": "10" }, "payload": { "aps": { "sound": "default" } } },
    }})
}

fn legacy_message(push: &Push) -> Value {
    let id = push.id.to_string();
    json!({
        "to": push.token,
        "priority": "high",
        "time_to_live": TTL_SECS,
        "notification": { "title": push.title, "body": push.body, "tag": id, "sound": "default" },
        "data": push.data(),
    })
}
