//! Provider tokens, which identify a team to the vendor. A token is valid for an hour, and the vendor refuses updates more often than
//! every 20 minutes. Therefore all projects and versions of settings with the same key share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_client::HttpClient;
use kernel::clock::Clock;
use serde_json::json;
use tokio::time::Instant;

use super::config::ApnsConfig;
use crate::jwt::KeyError;

/// How long a token is used.
const TOKEN_LIFETIME: Duration = Duration::from_mins(40);
/// Minimum age of a token before it is replaced.
const MIN_TOKEN_AGE: Duration = Duration::from_mins(20);
const MAX_CACHED_KEYS: usize = 10_000;

type Key = (String, String, String);

struct CachedToken {
    token: String,
    created_at: Instant,
}

/// Tokens by key ID, team ID and key.
#[derive(Clone, Default)]
pub struct Tokens {
    tokens: Arc<Mutex<HashMap<Key, CachedToken>>>,
    connections: Arc<Mutex<HashMap<Key, HttpClient>>>,
}

impl Tokens {
    /// Returns the connections for a key: on each connection the vendor accepts only tokens of one key.
    pub fn connections(&self, config: &ApnsConfig, http: &HttpClient) -> HttpClient {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.len() >= MAX_CACHED_KEYS {
            connections.clear();
        }
        connections.entry(key(config)).or_insert_with(|| http.with_own_connections()).clone()
    }

    pub fn get(&self, config: &ApnsConfig, clock: &Clock) -> Result<String, KeyError> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(config);
        if let Some(cached) = tokens.get(&key).filter(|k| k.created_at.elapsed() < TOKEN_LIFETIME) {
            return Ok(cached.token.clone());
        }
        let claims = json!({ "iss": config.team_id, "iat": clock.now().as_second() });
        let token = config.key.token(Some(&config.key_id), &claims)?;
        if tokens.len() >= MAX_CACHED_KEYS {
            tokens.retain(|_, k| k.created_at.elapsed() < TOKEN_LIFETIME);
        }
        tokens.insert(key, CachedToken { token: token.clone(), created_at: Instant::now() });
        Ok(token)
    }

    /// Discards a token that the vendor reports as expired, unless it is younger than the minimum age.
    pub fn expired(&self, config: &ApnsConfig, token: &str) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(config);
        if tokens.get(&key).is_some_and(|k| k.token == token && k.created_at.elapsed() >= MIN_TOKEN_AGE) {
            tokens.remove(&key);
        }
    }
}

fn key(config: &ApnsConfig) -> Key {
    (config.key_id.clone(), config.team_id.clone(), config.key_text.clone())
}
