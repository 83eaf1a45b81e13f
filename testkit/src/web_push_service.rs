//! A browser and its push service: subscriptions with one application server's key, and messages decrypted as in a browser, by code other
//! than the product's (the receiver's side of RFC 8188, 8291 and 8292).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aes_gcm::aead::Aead;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use p256::ecdh::diffie_hellman;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::jwt::Token;
use crate::must;
use crate::provider_server::{Received, Reply, Vendor};

struct Browser {
    key: SecretKey,
    auth: [u8; 16],
    gone: bool,
}

/// Accepts pushes of one application server.
pub struct WebPushService {
    /// An uncompressed point.
    application_key: Vec<u8>,
    browsers: Mutex<HashMap<String, Browser>>,
    accepted: Mutex<Vec<Value>>,
}

impl WebPushService {
    pub fn new(application_key: &[u8]) -> Self {
        let (browsers, accepted) = (Mutex::default(), Mutex::default());
        Self { application_key: application_key.to_vec(), browsers, accepted }
    }

    /// Creates a subscription and returns its JSON, as a browser does.
    pub fn subscribe(&self, url: &str) -> String {
        let key = must("a key", SecretKey::from_slice(&rand::random::<[u8; 32]>()));
        let auth: [u8; 16] = rand::random();
        let p256dh = URL_SAFE_NO_PAD.encode(key.public_key().to_sec1_point(false).as_bytes());
        let path = format!("/push/{}", crate::random_name());
        let subscription = json!({
            "endpoint": format!("{url}{path}"), "expirationTime": null,
            "keys": { "p256dh": p256dh, "auth": URL_SAFE_NO_PAD.encode(auth) },
        });
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner).insert(path, Browser { key, auth, gone: false });
        subscription.to_string()
    }

    /// Withdraws every subscription of this service, as a user can.
    pub fn unsubscribe_all(&self) {
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner).values_mut().for_each(|b| b.gone = true);
    }

    /// Returns the decrypted messages.
    pub fn accepted(&self) -> Vec<Value> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_authorized(&self, request: &Received) -> bool {
        let Some(parameters) = request.header("authorization").strip_prefix("vapid ") else { return false };
        let parameter = |name: &str| parameters.split(", ").find_map(|p| p.strip_prefix(name)?.strip_prefix('='));
        let (Some(token), Some(key)) = (parameter("t").and_then(Token::parse), parameter("k")) else { return false };
        let audience = token.claims["aud"].as_str().unwrap_or("");
        let host = request.headers.get("host").and_then(|h| h.to_str().ok()).unwrap_or("localhost");
        URL_SAFE_NO_PAD.decode(key).is_ok_and(|key| key == self.application_key)
            && token.is_signed_by(&self.application_key)
            && audience.starts_with("https://")
            && (audience.ends_with(host) || audience.starts_with("https://localhost:"))
            && token.seconds_from_now("exp").is_some_and(|s| (1..=86_400).contains(&s))
    }
}

/// Decrypts a message (RFC 8188 and 8291).
fn decrypt(browser: &Browser, body: &[u8]) -> Option<Vec<u8>> {
    let (salt, rest) = body.split_at_checked(16)?;
    let (record_size, rest) = rest.split_at_checked(4)?;
    let (length, rest) = rest.split_first()?;
    let (sender, record) = rest.split_at_checked(usize::from(*length))?;
    if u32::from_be_bytes(record_size.try_into().ok()?) < record.len() as u32 {
        return None;
    }
    let theirs = PublicKey::from_sec1_bytes(sender).ok()?;
    let shared = diffie_hellman(browser.key.to_nonzero_scalar(), theirs.as_affine());
    let own = browser.key.public_key().to_sec1_point(false);
    let info = [b"WebPush: info\0", own.as_bytes(), sender].concat();
    let mut input = [0; 32];
    Hkdf::<Sha256>::new(Some(&browser.auth), shared.raw_secret_bytes()).expand(&info, &mut input).ok()?;
    let (mut key, mut nonce) = ([0; 16], [0; 12]);
    let keys = Hkdf::<Sha256>::new(Some(salt), &input);
    keys.expand(b"Content-Encoding: aes128gcm\0", &mut key).ok()?;
    keys.expand(b"Content-Encoding: nonce\0", &mut nonce).ok()?;
    let mut text = Aes128Gcm::new(&key.into()).decrypt(&Nonce::from(nonce), record).ok()?;
    while text.last() == Some(&0) {
        text.pop();
    }
    (text.pop()? == 2).then_some(text)
}

impl Vendor for WebPushService {
    fn respond(&self, request: &Received) -> Reply {
        let browsers = self.browsers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(browser) = browsers.get(&request.path).filter(|b| !b.gone) else { return Reply::empty(410) };
        if request.method != http::Method::POST || request.header("content-encoding") != "aes128gcm" {
            return Reply::empty(400);
        }
        if !self.is_authorized(request) {
            return Reply {
                status: 403,
                headers: Vec::new(),
                body: "the VAPID credentials do not match the subscription".to_owned(),
            };
        }
        let topic = request.header("topic");
        if request.header("ttl").parse::<u32>().is_err() || topic.len() > 32 || topic.is_empty() {
            return Reply::empty(400);
        }
        if request.body.len() > 4_096 {
            return Reply::empty(413);
        }
        let Some(text) = decrypt(browser, &request.body) else { return Reply::empty(400) };
        let shown: Value = serde_json::from_slice(&text).unwrap_or_default();
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(shown);
        Reply::empty(201).with("location", format!("/message/{}", crate::random_name()))
    }
}
