//! Apple's push service: verifies the caller's token, knows its devices, and responds with the vendor's reasons.

use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use p256::pkcs8::EncodePrivateKey;
use serde_json::{Value, json};

use crate::jwt::Token;
use crate::must;
use crate::provider_server::{Received, Reply, Vendor};

/// Serves the app of one team.
pub struct ApnsService {
    pub key_id: String,
    pub team_id: String,
    pub topic: String,
    /// The signing key that the team downloaded, as PEM.
    pub key_file: String,
    public: Vec<u8>,
    accepted: Mutex<Vec<Value>>,
}

impl ApnsService {
    pub fn new(key_id: &str, team_id: &str, topic: &str) -> Self {
        let key = must("a key", p256::SecretKey::from_slice(&rand::random::<[u8; 32]>()));
        let der = must("a key's text", key.to_pkcs8_der());
        let text = STANDARD.encode(der.as_bytes());
        Self {
            key_id: key_id.to_owned(),
            team_id: team_id.to_owned(),
            topic: topic.to_owned(),
            key_file: format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"),
            public: key.public_key().to_sec1_bytes().to_vec(),
            accepted: Mutex::default(),
        }
    }

    /// Returns the accepted payloads, each with its `token` and its `collapseId`.
    pub fn accepted(&self) -> Vec<Value> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refusal_of_caller(&self, request: &Received) -> Option<&'static str> {
        let Some(token) = request.header("authorization").strip_prefix("bearer ") else {
            return Some("MissingProviderToken");
        };
        let Some(token) = Token::parse(token) else { return Some("InvalidProviderToken") };
        let known = token.header["kid"] == self.key_id.as_str() && token.claims["iss"] == self.team_id.as_str();
        if !known || !token.is_signed_by(&self.public) {
            return Some("InvalidProviderToken");
        }
        match token.seconds_from_now("iat") {
            Some(-3_600..=60) => None,
            _ => Some("ExpiredProviderToken"),
        }
    }

    fn refusal_of_message(&self, request: &Received) -> Option<(u16, &'static str)> {
        let payload = request.json();
        match () {
            () if request.body.len() > 4_096 => Some((413, "PayloadTooLarge")),
            () if request.header("apns-topic") != self.topic => Some((400, "TopicDisallowed")),
            () if request.header("apns-push-type") != "alert" => Some((400, "InvalidPushType")),
            () if request.header("apns-priority") != "10" => Some((400, "BadPriority")),
            () if request.header("apns-id").len() != 36 => Some((400, "BadMessageId")),
            () if !(1..=64).contains(&request.header("apns-collapse-id").len()) => Some((400, "BadCollapseId")),
            () if request.header("apns-expiration").parse::<i64>().is_err() => Some((400, "BadExpirationDate")),
            () if !payload["aps"]["alert"].is_object() => Some((400, "PayloadEmpty")),
            () => None,
        }
    }
}

fn refused(status: u16, reason: &str) -> Reply {
    Reply::json(status, &json!({ "reason": reason }))
}

impl Vendor for ApnsService {
    fn respond(&self, request: &Received) -> Reply {
        if !request.http2 || request.method != http::Method::POST {
            return refused(405, "MethodNotAllowed");
        }
        let Some(device) = request.path.strip_prefix("/3/device/") else { return refused(404, "BadPath") };
        if let Some(reason) = self.refusal_of_caller(request) {
            return refused(403, reason);
        }
        if let Some((status, reason)) = self.refusal_of_message(request) {
            return refused(status, reason);
        }
        // Tokens of the production environment begin with `aa`; those of removed apps with `dead`.
        if device.starts_with("dead") {
            return refused(410, "Unregistered");
        }
        if !device.starts_with("aa") {
            return refused(400, "BadDeviceToken");
        }
        let mut accepted = request.json();
        accepted["token"] = device.into();
        accepted["collapseId"] = request.header("apns-collapse-id").into();
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
        Reply::empty(200).with("apns-id", request.header("apns-id").to_uppercase())
    }
}
