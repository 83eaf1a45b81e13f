//! A mail service with Resend's API. It checks API keys, and deduplicates by idempotency key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::provider_server::{Received, Reply, Vendor};

/// Accepts mail under one API key, from one verified domain.
pub struct MailService {
    api_key: String,
    domain: String,
    accepted: Mutex<Accepted>,
}

#[derive(Default)]
struct Accepted {
    mails: Vec<Value>,
    /// The request and the returned ID, by idempotency key.
    keys: HashMap<String, (Bytes, String)>,
}

impl MailService {
    pub fn new(api_key: &str, domain: &str) -> Self {
        Self { api_key: api_key.to_owned(), domain: domain.to_owned(), accepted: Mutex::default() }
    }

    /// Returns every accepted mail, once each.
    pub fn mails(&self) -> Vec<Value> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).mails.clone()
    }

    fn problem(mail: &Value) -> Option<&'static str> {
        let is_address = |text: &str| {
            let bare = text.rsplit_once('<').map_or(text, |(_, rest)| rest.trim_end_matches('>'));
            bare.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && domain.contains('.'))
        };
        if !mail["to"].as_array().is_some_and(|to| to.len() == 1 && to[0].as_str().is_some_and(is_address)) {
            return Some("Invalid `to` field.");
        }
        if mail["subject"].as_str().is_none_or(|s| s.is_empty() || s.contains('\n')) {
            return Some("Invalid `subject` field.");
        }
        if mail["html"].as_str().is_none() || mail["text"].as_str().is_none() {
            return Some("Missing `html` or `text` field.");
        }
        None
    }
}

fn rejected(status: u16, name: &str, message: &str) -> Reply {
    Reply::json(status, &json!({ "statusCode": status, "name": name, "message": message }))
}

impl Vendor for MailService {
    fn respond(&self, request: &Received) -> Reply {
        if (request.method.as_str(), request.path.as_str()) != ("POST", "/emails") {
            return rejected(404, "not_found", "The requested endpoint does not exist");
        }
        match request.header("authorization").strip_prefix("Bearer ") {
            None => return rejected(401, "missing_api_key", "Missing API key in the authorization header"),
            Some(key) if key != self.api_key => return rejected(403, "invalid_api_key", "API key is invalid"),
            Some(_) => {}
        }
        if request.header("content-type") != "application/json" {
            return rejected(422, "invalid_parameter", "The body is not JSON");
        }
        let mail = request.json();
        if !mail["from"].as_str().unwrap_or("").trim_end_matches('>').ends_with(&format!("@{}", self.domain)) {
            return rejected(403, "validation_error", "The domain is not verified");
        }
        if let Some(problem) = Self::problem(&mail) {
            return rejected(422, "invalid_parameter", problem);
        }
        let key = request.header("idempotency-key").to_owned();
        if !(1..=256).contains(&key.len()) {
            return rejected(400, "invalid_idempotency_key", "The key must be between 1 and 256 chars");
        }
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((body, id)) = accepted.keys.get(&key) {
            return if *body == request.body {
                Reply::json(200, &json!({ "id": id }))
            } else {
                rejected(409, "invalid_idempotent_request", "Same idempotency key used with a different payload")
            };
        }
        let id = format!("mail-{}", accepted.mails.len() + 1);
        accepted.mails.push(mail);
        accepted.keys.insert(key, (request.body.clone(), id.clone()));
        Reply::json(200, &json!({ "id": id }))
    }
}
