//! Push provider client: one call per device, with an idempotency key.

use bytes::Bytes;
use domain::push_token::Platform;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_client::HttpClient;
use kernel::clock::Clock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::config::OneSignalConfig;
use super::error::outcome;
use crate::push::{Push, TTL_SECS};
use crate::{Outcome, http::unanswered};

pub struct Client {
    config: OneSignalConfig,
    http: HttpClient,
    clock: Clock,
}

/// Whether a token is the provider's own ID of a device, which no other service accepts.
pub fn is_subscription(token: &str) -> bool {
    token.len() == 36 && Uuid::try_parse(token).is_ok()
}

impl Client {
    pub fn new(config: OneSignalConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, http, clock }
    }

    pub async fn send(&self, push: &Push) -> Outcome {
        let request = Request::post(self.config.base.join("/notifications"))
            .header(AUTHORIZATION, format!("Key {}", self.config.app.rest_key))
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from(notification(push, &self.config.app.id).to_string()));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::Misconfigured(error.to_string()),
        };
        match self.http.call(request).await {
            Ok(answer) => outcome(&answer, self.clock.now()),
            Err(error) => unanswered(error),
        }
    }
}

fn notification(push: &Push, app: &str) -> Value {
    // The provider refuses notifications without a text.
    let (title, text) = if push.body.is_empty() { ("", &push.title) } else { (push.title.as_str(), &push.body) };
    let mut notification = json!({
        "app_id": app,
        "target_channel": "push",
        "contents": { "en": text },
        "data": { "messageId": push.id },
        "collapse_id": push.id,
        "ttl": TTL_SECS,
        "priority": 10,
        // Derived from message and device, because each device of a user gets its own call.
        "idempotency_key": Uuid::new_v5(&push.id, push.token.as_bytes()),
    });
    // The provider's SDK opens absolute URLs; only the app can resolve a path.
    match &push.url {
        Some(path) if path.starts_with('/') => notification["data"]["url"] = json!(path),
        Some(url) => notification["url"] = json!(url),
        None => {}
    }
    if !title.is_empty() {
        notification["headings"] = json!({ "en": title });
    }
    let target = match push.platform {
        _ if is_subscription(&push.token) => "include_subscription_ids",
        Platform::Ios => "include_ios_tokens",
        Platform::Android | Platform::Web => "include_android_reg_ids",
    };
    notification[target] = json!([push.token]);
    notification
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_addressed_as_registered() {
        let push = |platform, token: &str| Push {
            id: Uuid::from_u128(1),
            title: "T".to_owned(),
            body: "B".to_owned(),
            url: None,
            platform,
            token: token.to_owned(),
        };
        let subscription = "1dd608f2-c6a1-11e3-851d-000c2940e62c";
        for (platform, token, target) in [
            (Platform::Ios, "aa01", "include_ios_tokens"),
            (Platform::Android, "fcm:1", "include_android_reg_ids"),
            (Platform::Ios, subscription, "include_subscription_ids"),
            (Platform::Android, subscription, "include_subscription_ids"),
        ] {
            assert_eq!(notification(&push(platform, token), "app")[target], json!([token]));
        }
        let key = |push: &Push| notification(push, "app")["idempotency_key"].clone();
        let (one, other) = (push(Platform::Ios, "aa01"), push(Platform::Ios, "aa02"));
        assert_eq!(key(&one), key(&one.clone()));
        assert_ne!(key(&one), key(&other));
        let opens = |url: &str| {
            let notification = notification(&Push { url: Some(url.to_owned()), ..one.clone() }, "app");
            (notification["url"].clone(), notification["data"]["url"].clone())
        };
        assert_eq!(opens("myapp://order/1"), (json!("myapp://order/1"), json!(null)));
        assert_eq!(opens("/orders/1"), (json!(null), json!("/orders/1")));
        let untitled = notification(&Push { title: "only".to_owned(), body: String::new(), ..one }, "app");
        assert_eq!((&untitled["contents"]["en"], &untitled["headings"]), (&json!("only"), &json!(null)));
    }
}
