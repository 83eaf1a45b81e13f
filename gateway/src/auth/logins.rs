//! Checking who somebody says they are: ten wrong passwords for one address within a quarter of an hour are the most.
//!
//! The count is in the database, for all gateways, and no password is looked at where it cannot be read: who cannot be
//! counted cannot log in. An address without an account is treated alike in every way.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use shared::store::accounts::{self, Account};
use shared::store::login_attempts::{self, Attempt};
use tokio::sync::Mutex;

use super::passwords::Passwords;
use crate::app::App;
use crate::error::ApiError;

const MOST_WRONG: i32 = 10;
const WINDOW: Duration = Duration::from_mins(15);
const TURN: Duration = Duration::from_secs(15);

pub const REFUSED: ApiError = ApiError::Unauthorized("wrong email address or password");

pub struct Logins {
    pub passwords: Passwords,
    /// One try at a time for an address: a try counts as wrong until it turns out right, and several right ones at once
    /// must not shut one another out.
    turns: [Mutex<()>; 64],
}

impl Default for Logins {
    fn default() -> Self {
        Self { passwords: Passwords::default(), turns: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl Logins {
    fn turn(&self, email: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        email.to_lowercase().hash(&mut hasher);
        &self.turns[hasher.finish() as usize % self.turns.len()]
    }
}

/// The account of an address, if the password is its own.
pub async fn check(app: &App, email: &str, password: &str) -> Result<Account, ApiError> {
    let turn = tokio::time::timeout(TURN, app.logins.turn(email).lock()).await;
    let _turn = turn.map_err(|_| ApiError::Unavailable("too many people are logging in"))?;
    let now = app.clock.now();
    let found = {
        let db = app.store.connection().await?;
        if let Attempt::Refused { until } = login_attempts::count(&db, email, MOST_WRONG, WINDOW, now).await? {
            let wait = until.duration_since(now).as_secs().clamp(1, WINDOW.as_secs() as i64);
            return Err(ApiError::TooManyAttempts { retry_after: wait as u32 });
        }
        accounts::find(&db, email).await?
    };
    let (account, hash) = found.map(|found| (found.account, found.password_hash)).unzip();
    let fits = app.logins.passwords.fits(password, hash).await?;
    let account = account.filter(|_| fits).ok_or(REFUSED)?;
    login_attempts::clear(&app.store.connection().await?, email).await?;
    Ok(account)
}
