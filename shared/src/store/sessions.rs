//! Who is logged in. A session's id is kept as a hash, so that whoever reads the table can log in as nobody.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use super::StoreError;
use super::accounts::Account;

/// The SHA-256 of a session's id.
pub type SessionHash = [u8; 32];

/// A session that holds.
#[derive(Clone, Debug)]
pub struct StoredSession {
    pub account: Account,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

pub async fn insert(
    db: &impl GenericClient,
    hash: &SessionHash,
    account: Uuid,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO session (hash, account_id, created_at, expires_at) VALUES ($1, $2, $3, $4)";
    db.execute(sql, &[&&hash[..], &account, &now, &expires_at]).await?;
    Ok(())
}

pub async fn find(
    db: &impl GenericClient,
    hash: &SessionHash,
    now: Timestamp,
) -> Result<Option<StoredSession>, StoreError> {
    let sql = "SELECT a.id, a.email, a.name, s.created_at, s.expires_at FROM session s \
               JOIN account a ON a.id = s.account_id WHERE s.hash = $1 AND s.expires_at > $2";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&&hash[..], &now]).await? else { return Ok(None) };
    Ok(Some(StoredSession {
        account: Account { id: row.try_get(0)?, email: row.try_get(1)?, name: row.try_get(2)? },
        created_at: row.try_get(3)?,
        expires_at: row.try_get(4)?,
    }))
}

/// Moves a session's end on.
pub async fn extend(db: &impl GenericClient, hash: &SessionHash, expires_at: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE session SET expires_at = $2 WHERE hash = $1 AND expires_at < $2";
    db.execute(sql, &[&&hash[..], &expires_at]).await?;
    Ok(())
}

pub async fn end(db: &impl GenericClient, hash: &SessionHash) -> Result<(), StoreError> {
    db.execute("DELETE FROM session WHERE hash = $1", &[&&hash[..]]).await?;
    Ok(())
}

/// Ends all sessions of an account, but for one.
pub async fn end_others(db: &impl GenericClient, account: Uuid, keep: Option<&SessionHash>) -> Result<u64, StoreError> {
    let keep: &[u8] = keep.map_or(&[], |hash| hash);
    Ok(db.execute("DELETE FROM session WHERE account_id = $1 AND hash <> $2", &[&account, &keep]).await?)
}

/// Removes what has ended; returns how many.
pub async fn forget_expired(db: &impl GenericClient, now: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM session WHERE expires_at <= $1", &[&now]).await?)
}
