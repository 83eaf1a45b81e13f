//! A third-party push provider with OneSignal's API: it knows its apps, the devices that are gone, and what it was sent
//! before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::provider_server::{Received, Reply, Vendor};

/// Takes pushes for the apps that it knows by their keys. A token that begins with `dead` is no more.
pub struct PushProviderService {
    apps: HashMap<String, String>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    notifications: Vec<Value>,
    /// By idempotency key.
    keys: HashMap<String, String>,
}

const TARGETS: [&str; 3] = ["include_subscription_ids", "include_ios_tokens", "include_android_reg_ids"];

impl PushProviderService {
    /// Of pairs of an app's id and its REST key.
    pub fn new(apps: &[(&str, &str)]) -> Self {
        let apps = apps.iter().map(|(id, key)| ((*id).to_owned(), (*key).to_owned())).collect();
        Self { apps, taken: Mutex::default() }
    }

    /// Every notification that was taken, once each.
    pub fn taken(&self) -> Vec<Value> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).notifications.clone()
    }
}

fn refused(status: u16, words: &str) -> Reply {
    Reply::json(status, &json!({ "errors": [words] }))
}

impl Vendor for PushProviderService {
    fn answer(&self, request: &Received) -> Reply {
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
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = taken.keys.get(key) {
            return Reply::json(200, &json!({ "id": id, "external_id": key }));
        }
        let id = format!("notification-{}", taken.notifications.len() + 1);
        taken.keys.insert(key.to_owned(), id.clone());
        taken.notifications.push(notification.clone());
        Reply::json(200, &json!({ "id": id, "external_id": key }))
    }
}
