//! Rate limits over a sliding window: passwords tried for an email address, and invitations created by an account.
//!
//! The rows belong to no project, so deleting a project resets no count.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use database::StoreError;

/// The subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// Passwords tried for an email address.
    Passwords(&'a str),
    /// Invitations that an account creates, over all projects.
    Invitations(Uuid),
}

impl Subject<'_> {
    /// Returns the key of the row. The two kinds cannot collide, because no email address contains the NUL character
    /// that the other kind hashes.
    fn hash(self) -> Vec<u8> {
        match self {
            Self::Passwords(email) => Sha256::digest(email.to_ascii_lowercase().as_bytes()).to_vec(),
            Self::Invitations(account) => {
                Sha256::new().chain_update(b"invitations\0").chain_update(account.as_bytes()).finalize().to_vec()
            }
        }
    }
}

/// The outcome of counting an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Admitted, and counted until it leaves the window or [`clear`] removes it.
    Counted,
    /// The limit is reached; the oldest counted attempt leaves the window at `until`.
    Refused { until: Timestamp },
}

/// Counts an attempt, unless `max` are already counted within `window`. Concurrent attempts cannot exceed the limit,
/// because the row is locked.
///
/// Passwords must be counted before they are checked.
pub async fn count(
    db: &impl GenericClient,
    subject: Subject<'_>,
    max: i32,
    window: Duration,
    now: Timestamp,
) -> Result<Attempt, StoreError> {
    let (hash, since, expires_at) = (subject.hash(), now - window, now + window);
    let sql = "INSERT INTO login_attempt AS a (address_hash, failed_at, expires_at) VALUES ($1, ARRAY[$2::timestamptz], $3) \
               ON CONFLICT (address_hash) DO UPDATE SET expires_at = excluded.expires_at, \
               failed_at = ARRAY(SELECT t FROM unnest(a.failed_at) t WHERE t > $4 ORDER BY t) || $2::timestamptz \
               WHERE (SELECT count(*) FROM unnest(a.failed_at) t WHERE t > $4) < $5";
    if db.execute(sql, &[&hash, &now, &expires_at, &since, &i64::from(max)]).await? == 1 {
        return Ok(Attempt::Counted);
    }
    let sql = "SELECT min(t) AS oldest FROM login_attempt, unnest(failed_at) t WHERE address_hash = $1 AND t > $2";
    let oldest: Option<Timestamp> = db.query_one(sql, &[&hash, &since]).await?.try_get("oldest")?;
    Ok(Attempt::Refused { until: oldest.unwrap_or(now) + window })
}

/// Removes the attempts of an email address after a correct password.
pub async fn clear(db: &impl GenericClient, email: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM login_attempt WHERE address_hash = $1", &[&Subject::Passwords(email).hash()]).await?;
    Ok(())
}

/// Removes rows without attempts in their window; returns the number of rows.
pub async fn forget_expired(db: &impl GenericClient, now: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM login_attempt WHERE expires_at <= $1", &[&now]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn email_address_and_account_have_separate_counts() {
        let account = Uuid::from_u128(7);
        let invitations = Subject::Invitations(account).hash();
        assert_ne!(invitations, Subject::Invitations(Uuid::from_u128(8)).hash());
        assert_ne!(invitations, Subject::Passwords(&account.to_string()).hash());
        assert_eq!(Subject::Passwords("Ann@Example.com").hash(), Subject::Passwords("ann@example.com").hash());
    }
}
