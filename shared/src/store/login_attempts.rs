//! Wrong passwords of late, by address.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::StoreError;

/// What a try was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Let in, and counted as wrong until [`clear`] says otherwise.
    Counted,
    /// There were too many; the first of them no longer counts from this time on.
    Refused { until: Timestamp },
}

fn address_hash(email: &str) -> Vec<u8> {
    Sha256::digest(email.to_ascii_lowercase().as_bytes()).to_vec()
}

/// Counts a try at an address before its password is looked at, so that tries at the same time cannot slip through
/// together. At most `most` count within `window`.
pub async fn count(
    db: &impl GenericClient,
    email: &str,
    most: i32,
    window: Duration,
    now: Timestamp,
) -> Result<Attempt, StoreError> {
    let (hash, since, expires_at) = (address_hash(email), now - window, now + window);
    let sql = "INSERT INTO login_attempt AS a (address_hash, failed_at, expires_at) VALUES ($1, ARRAY[$2::timestamptz], $3) \
               ON CONFLICT (address_hash) DO UPDATE SET expires_at = excluded.expires_at, \
               failed_at = ARRAY(SELECT t FROM unnest(a.failed_at) t WHERE t > $4 ORDER BY t) || $2::timestamptz \
               WHERE (SELECT count(*) FROM unnest(a.failed_at) t WHERE t > $4) < $5";
    if db.execute(sql, &[&hash, &now, &expires_at, &since, &i64::from(most)]).await? == 1 {
        return Ok(Attempt::Counted);
    }
    let sql = "SELECT min(t) FROM login_attempt, unnest(failed_at) t WHERE address_hash = $1 AND t > $2";
    let oldest: Option<Timestamp> = db.query_one(sql, &[&hash, &since]).await?.try_get(0)?;
    Ok(Attempt::Refused { until: oldest.unwrap_or(now) + window })
}

/// Forgets the tries at an address: the password was right.
pub async fn clear(db: &impl GenericClient, email: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM login_attempt WHERE address_hash = $1", &[&address_hash(email)]).await?;
    Ok(())
}

/// Removes what no longer counts; returns how many addresses.
pub async fn forget_expired(db: &impl GenericClient, now: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM login_attempt WHERE expires_at <= $1", &[&now]).await?)
}
