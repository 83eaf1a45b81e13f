//! Checks passwords: at most ten failed attempts for one email address within 15 minutes.
//!
//! The count is stored in the database and shared by all gateways. If an attempt cannot be counted, no password is checked.
//! An address without an account behaves the same in every way.

use std::time::Duration;

use store_projects::accounts::{self, Credentials};
use store_projects::login_attempts::{self, Attempt, Subject};

use super::passwords;
use super::state::Auth;
use crate::http::error::ApiError;
use crate::http::request::Request;

const MAX_FAILED_ATTEMPTS: i32 = 10;
const WINDOW: Duration = Duration::from_mins(15);

pub const WRONG_CREDENTIALS: ApiError = ApiError::Unauthorized("wrong email address or password");

/// Checks the password for the account with this email address. Logs contain the account's ID, never the address.
pub async fn check(auth: &Auth, request: &Request<'_>, email: &str, password: &str) -> Result<Credentials, ApiError> {
    let permit = auth.sign_in_queue.acquire(request.client_ip(), email).await?;
    let now = auth.clock.now();
    let (found, attempt) = {
        let db = auth.store.connection().await?;
        let found = accounts::find(&db, email).await?;
        (found, login_attempts::count(&db, Subject::Passwords(email), MAX_FAILED_ATTEMPTS, WINDOW, now).await?)
    };
    let id = found.as_ref().map_or_else(|| "none".to_owned(), |found| found.account.id.to_string());
    let request_id = request.request_id;
    if let Attempt::Refused { until } = attempt {
        tracing::warn!(account = id, request_id, "password not checked: too many failed attempts");
        let wait = until.duration_since(now).as_secs().clamp(1, WINDOW.as_secs() as i64);
        return Err(ApiError::TooManyAttempts { retry_after: wait as u32 });
    }
    let hash = found.as_ref().map(|found| found.password_hash.clone());
    let is_correct = passwords::verify(&permit, password, hash).await?;
    let Some(credentials) = found.filter(|_| is_correct) else {
        tracing::info!(account = id, request_id, "wrong password");
        return Err(WRONG_CREDENTIALS);
    };
    login_attempts::clear(&auth.store.connection().await?, email).await?;
    Ok(credentials)
}

/// Hashes a new password for the account with this email address.
pub async fn hash(auth: &Auth, request: &Request<'_>, email: &str, password: &str) -> Result<String, ApiError> {
    let permit = auth.sign_in_queue.acquire(request.client_ip(), email).await?;
    passwords::hash(&permit, password).await
}
