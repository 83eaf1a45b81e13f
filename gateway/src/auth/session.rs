//! Sessions: a random ID in a cookie, stored as a hash, and a token against cross-site request forgery.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use http::Method;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use store_projects::accounts::{Account, Credentials};
use store_projects::sessions::{self, NewSession, SessionHash};
use subtle::ConstantTimeEq;

use super::cookie;
use super::logins::WRONG_CREDENTIALS;
use super::state::Auth;
use crate::http::error::ApiError;
use crate::http::request::Request;

/// A session ends after this time without use.
const IDLE_TIMEOUT: Duration = Duration::from_hours(7 * 24);
/// A session ends after this time in any case.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);
/// Minimum time between two updates of a session's last use and expiry.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_hours(1);
/// Maximum length of a stored user agent.
const USER_AGENT_CHARS: usize = 200;
pub const SESSION_REQUIRED: ApiError =
    ApiError::Unauthorized("the session is missing or has ended: log in with POST /auth/login");

/// The session of a logged-in account.
pub struct Session {
    /// The cookie's value.
    id: String,
    pub account: Account,
}

impl Session {
    pub fn hash(&self) -> SessionHash {
        hash(&self.id)
    }

    /// Returns the token that unsafe requests must send in `X-CSRF-Token`. It is derived from the session ID but does not reveal it.
    pub fn csrf_token(&self) -> String {
        csrf_token(&self.id)
    }

    /// Returns the `Set-Cookie` value that stores the session in the browser.
    pub fn cookie(&self, request: &Request<'_>) -> String {
        cookie::set(&self.id, MAX_AGE, request.is_secure())
    }
}

fn hash(id: &str) -> SessionHash {
    Sha256::digest(id.as_bytes()).into()
}

fn csrf_token(id: &str) -> String {
    // HMAC takes a key of any length, so this cannot fail.
    let mac = Hmac::<Sha256>::new_from_slice(id.as_bytes()).map(|mac| mac.chain_update(b"csrf").finalize());
    mac.map(|tag| hex::encode(tag.into_bytes())).unwrap_or_default()
}

/// Returns when a session that is used at `now` expires.
fn expiry(created_at: Timestamp, now: Timestamp) -> Timestamp {
    (now + IDLE_TIMEOUT).min(created_at + MAX_AGE)
}

/// Begins a session and ends the one that the browser already has.
pub async fn begin(auth: &Auth, request: &Request<'_>, credentials: Credentials) -> Result<Session, ApiError> {
    let Credentials { account, password_hash } = credentials;
    let session = Session { id: hex::encode(rand::random::<[u8; 32]>()), account };
    let now = auth.clock.now();
    let db = auth.store.connection().await?;
    if let Some(id) = cookie::value(request.headers, request.is_secure()) {
        sessions::end(&db, &hash(id)).await?;
    }
    let user_agent = request.header("user-agent").unwrap_or("").chars().take(USER_AGENT_CHARS).collect::<String>();
    let (account, hash) = (session.account.id, session.hash());
    let (password_hash, user_agent) = (&*password_hash, &*user_agent);
    let new = NewSession { hash, account, password_hash, user_agent, expires_at: expiry(now, now) };
    if !sessions::insert(&db, &new, now).await? {
        return Err(WRONG_CREDENTIALS);
    }
    tracing::info!(%account, request_id = request.request_id, "signed in");
    Ok(session)
}

/// Returns the hash of the session that a request names, valid or not.
pub fn hash_of(request: &Request<'_>) -> Option<SessionHash> {
    cookie::value(request.headers, request.is_secure()).map(hash)
}

/// Returns the valid session of a request, if it has one. Fails with 403 if an unsafe request lacks its CSRF token.
pub async fn authenticate(auth: &Auth, request: &Request<'_>) -> Result<Option<Session>, ApiError> {
    let Some(id) = cookie::value(request.headers, request.is_secure()).filter(|id| id.len() == 64) else {
        return Ok(None);
    };
    let hash = hash(id);
    if !auth.recent_sessions.contains(&hash) {
        auth.check_auth_failures(request)?;
    }
    let permit = auth.lookup_permits.acquire().await?;
    let now = auth.clock.now();
    let db = auth.store.connection().await?;
    let Some(stored) = sessions::find(&db, &hash, now).await? else {
        auth.recent_sessions.remove(&hash);
        return Ok(None);
    };
    auth.recent_sessions.insert(hash);
    let end = expiry(stored.created_at, now);
    if end - MIN_UPDATE_INTERVAL > stored.expires_at || stored.used_at + MIN_UPDATE_INTERVAL < now {
        sessions::extend(&db, &hash, end, now).await?;
    }
    drop((permit, db));
    let session = Session { id: id.to_owned(), account: stored.account };
    check_csrf_token(request, &session)?;
    Ok(Some(session))
}

/// Ends a session. Returns the `Set-Cookie` value that deletes it from the browser.
pub async fn finish(auth: &Auth, request: &Request<'_>, session: &Session) -> Result<String, ApiError> {
    sessions::end(&auth.store.connection().await?, &session.hash()).await?;
    Ok(cookie::clear(request.is_secure()))
}

fn check_csrf_token(request: &Request<'_>, session: &Session) -> Result<(), ApiError> {
    if matches!(*request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    refuse_cross_site(request)?;
    let sent = request.header("x-csrf-token").unwrap_or("");
    if bool::from(sent.as_bytes().ct_eq(session.csrf_token().as_bytes())) {
        return Ok(());
    }
    Err(ApiError::Forbidden("send the session's `csrfToken` as X-CSRF-Token: GET /auth/session returns it"))
}

/// Refuses requests that another site initiated, according to the browser. Also protects login, which has no token yet.
pub fn refuse_cross_site(request: &Request<'_>) -> Result<(), ApiError> {
    match request.header("sec-fetch-site") {
        Some("cross-site") => Err(ApiError::Forbidden("this request was initiated by another site")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_expiry_slides_up_to_the_maximum_age() {
        let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
        assert_eq!(expiry(at(0), at(0)), at(7 * 24));
        assert_eq!(expiry(at(0), at(10 * 24)), at(17 * 24));
        assert_eq!(expiry(at(0), at(29 * 24)), at(30 * 24));
    }

    #[test]
    fn csrf_token_is_unique_per_session_and_hides_its_id() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        assert_eq!(csrf_token(&a), csrf_token(&a));
        assert_ne!(csrf_token(&a), csrf_token(&b));
        assert!(csrf_token(&a).len() == 64 && csrf_token(&a) != a && csrf_token(&a) != hex::encode(hash(&a)));
    }
}
