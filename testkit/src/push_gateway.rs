//! The device vendor's gateway (FCM) with its token service: verifies its service account's assertions, issues access tokens, and accepts
//! pushes by both APIs.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::jwt::Token;
use crate::must;
use crate::provider_server::{Received, Reply, Vendor};

/// Serves one project, `shop`, with one service account and one server key.
pub struct PushGateway {
    private_pem: String,
    public: Vec<u8>,
    pub server_key: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    granted: usize,
    accepted: Vec<Value>,
}

impl PushGateway {
    pub fn new() -> Self {
        let pair = must("an RSA key", KeyPair::generate(KeySize::Rsa2048));
        let der = must("an RSA key's text", AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair));
        let text = STANDARD.encode(der.as_ref());
        Self {
            private_pem: format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"),
            public: pair.public_key().as_ref().to_vec(),
            server_key: "AAAAserver-key".to_owned(),
            state: Mutex::default(),
        }
    }

    /// Returns the service account as JSON, with its token URL at this server.
    pub fn account(&self, url: &str) -> Value {
        json!({
            "type": "service_account", "project_id": "shop", "private_key_id": "key-1", "private_key": self.private_pem,
            "client_email": "push@shop.example", "token_uri": format!("{url}/token"),
        })
    }

    /// Returns the number of access tokens issued.
    pub fn granted(&self) -> usize {
        self.state().granted
    }

    /// Returns the accepted messages of both APIs.
    pub fn accepted(&self) -> Vec<Value> {
        self.state().accepted.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grant(&self, request: &Received) -> Reply {
        let rejected = |why: &str| Reply::json(400, &json!({ "error": "invalid_grant", "error_description": why }));
        let form = String::from_utf8_lossy(&request.body).into_owned();
        let prefix = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
        let Some(token) = form.strip_prefix(prefix).and_then(Token::parse) else { return rejected("no assertion") };
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public);
        if token.header["alg"] != "RS256" || key.verify(&token.signed, &token.signature).is_err() {
            return rejected("Invalid JWT Signature.");
        }
        let claims = &token.claims;
        let lifetime = claims["exp"].as_i64().unwrap_or(0) - claims["iat"].as_i64().unwrap_or(0);
        let aud = claims["aud"].as_str().is_some_and(|aud| aud.ends_with("/token"));
        let scope = claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging";
        let recent = token.seconds_from_now("iat").is_some_and(|s| (-60..=60).contains(&s));
        if claims["iss"] != "push@shop.example" || !aud || !scope || !recent || !(1..=3_600).contains(&lifetime) {
            return rejected("Invalid JWT: the claims are wrong");
        }
        let mut state = self.state();
        state.granted += 1;
        let token = format!("access-{}", state.granted);
        Reply::json(200, &json!({ "access_token": token, "expires_in": 3_599, "token_type": "Bearer" }))
    }

    fn v1(&self, request: &Received) -> Reply {
        let latest = format!("Bearer access-{}", self.granted());
        if request.header("authorization") != latest {
            return problem(401, "UNAUTHENTICATED", None, "Request had invalid authentication credentials.");
        }
        let message = request.json()["message"].clone();
        let token = message["token"].as_str().unwrap_or("");
        if !message["notification"]["title"].is_string() || !message["data"]["messageId"].is_string() {
            return problem(400, "INVALID_ARGUMENT", Some("INVALID_ARGUMENT"), "Invalid value at 'message'");
        }
        match token {
            "" => problem(400, "INVALID_ARGUMENT", Some("INVALID_ARGUMENT"), "The registration token is not valid"),
            gone if gone.starts_with("dead") => {
                problem(404, "NOT_FOUND", Some("UNREGISTERED"), "Requested entity was not found.")
            }
            _ => {
                let mut state = self.state();
                state.accepted.push(message);
                Reply::json(200, &json!({ "name": format!("projects/shop/messages/{}", state.accepted.len()) }))
            }
        }
    }

    fn legacy(&self, request: &Received) -> Reply {
        if request.header("authorization") != format!("key={}", self.server_key) {
            return Reply { status: 401, headers: Vec::new(), body: "<TITLE>INVALID_KEY</TITLE>".to_owned() };
        }
        let message = request.json();
        let result = match message["to"].as_str().unwrap_or("") {
            "" => return Reply { status: 400, headers: Vec::new(), body: "MissingRegistration".to_owned() },
            gone if gone.starts_with("dead") => json!({ "error": "NotRegistered" }),
            _ => {
                self.state().accepted.push(message);
                json!({ "message_id": "0:1" })
            }
        };
        let failed = u8::from(result["error"].is_string());
        Reply::json(200, &json!({ "multicast_id": 1, "success": 1 - failed, "failure": failed, "results": [result] }))
    }
}

impl Default for PushGateway {
    fn default() -> Self {
        Self::new()
    }
}

fn problem(status: u16, general: &str, code: Option<&str>, message: &str) -> Reply {
    let details: Vec<Value> = code
        .map(|code| json!({ "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code }))
        .into_iter()
        .collect();
    let error = json!({ "code": status, "status": general, "message": message, "details": details });
    Reply::json(status, &json!({ "error": error }))
}

impl Vendor for PushGateway {
    fn respond(&self, request: &Received) -> Reply {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/token") => self.grant(request),
            ("POST", "/v1/projects/shop/messages:send") => self.v1(request),
            ("POST", "/fcm/send") => self.legacy(request),
            _ => Reply::empty(404),
        }
    }
}
