//! A third-party push provider with OneSignal's API. It knows its apps and expired devices, and deduplicates by idempotency key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::provider_server::{Received, Reply, Vendor};

/// Accepts pushes for its apps, authenticated by their keys. Tokens that begin with `dead` have expired.
pub struct PushProviderService {
    apps: HashMap<String, String>,
    accepted: Mutex<Accepted>,
}

#[derive(Default)]
struct Accepted {
    notifications: Vec<Value>,
    /// By idempotency key.
    keys: HashMap<String, String>,
}

const TARGETS: [&str; 3] = ["include_subscription_ids", "include_ios_tokens", "include_android_reg_ids"];

impl PushProviderService {
    /// Creates a provider with pairs of app ID and REST key.
    pub fn new(apps: &[(&str, &str)]) -> Self {
        let apps = apps.iter().map(|(id, key)| ((*id).to_owned(), (*key).to_owned())).collect();
        Self { apps, accepted: Mutex::default() }
    }

    /// Returns every accepted notification, once each.
    pub fn accepted(&self) -> Vec<Value> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).notifications.clone()
    }
}

fn refused(status: u16, words: &str) -> Reply {
    Reply::json(status, &json!({ "errors": [words] }))
}

impl Vendor for PushProviderService {
    fn respond(&self, request: &Received) -> Reply {
        if (request.method.as_str(), request.path.as_str()) != ("POST", "/notifications") {
            return refused(404, "Not Found");
        }
        let notification = request.json();
        let Some(key) = notification["app_id"].as_str().and_then(|app| self.apps.get(app)) else {
            return refused(400, "app_id not found. You may be missing a Content-Type: application/json header.");
        };
        if request.header("authorization").strip_prefix("Key ") != Some(key) {
            return refused(403, "Access denied. Please include an 'Authorization: ...' header with a valid API key");
        }
        if notification["contents"]["en"].as_str().is_none_or(str::is_empty) {
            return refused(400, "Message Notifications must have English language content");
        }
        let targets: Vec<&str> = TARGETS.into_iter().filter(|name| notification[*name].is_array()).collect();
        let [target] = targets[..] else { return refused(400, "You must include exactly one way to target devices") };
        let Some([Value::String(token)]) = notification[target].as_array().map(Vec::as_slice) else {
            return refused(400, "Targets must be strings");
        };
        let Some(key) = notification["idempotency_key"].as_str().filter(|k| uuid::Uuid::try_parse(k).is_ok()) else {
            return refused(400, "idempotency_key must be a UUID");
        };
        if token.starts_with("dead") {
            return Reply::json(200, &json!({ "id": "", "errors": ["All included players are not subscribed"] }));
        }
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = accepted.keys.get(key) {
            return Reply::json(200, &json!({ "id": id, "external_id": key }));
        }
        let id = format!("notification-{}", accepted.notifications.len() + 1);
        accepted.keys.insert(key.to_owned(), id.clone());
        accepted.notifications.push(notification.clone());
        Reply::json(200, &json!({ "id": id, "external_id": key }))
    }
}
