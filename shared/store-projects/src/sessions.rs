//! Login sessions. Only a hash of a session's ID is stored, so that reading the table does not allow anyone to log in.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::accounts::Account;
use database::StoreError;
use kernel::ids;

/// SHA-256 of a session's ID.
pub type SessionHash = [u8; 32];

/// A session that has not expired.
#[derive(Clone, Debug)]
pub struct StoredSession {
    pub account: Account,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A session to be created.
pub struct NewSession<'a> {
    pub hash: SessionHash,
    pub account: Uuid,
    /// The stored hash that the password was checked against.
    pub password_hash: &'a str,
    /// The browser's `User-Agent`.
    pub user_agent: &'a str,
    pub expires_at: Timestamp,
}

/// A session as the account holder sees it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    pub id: Uuid,
    pub hash: SessionHash,
    pub user_agent: String,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Creates a session; returns false if the account's password has changed since it was checked.
pub async fn insert(db: &impl GenericClient, new: &NewSession<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let id = ids::fresh(now.as_millisecond());
    // The row lock orders this with a password change, which ends all sessions that were created before it.
    let sql = "INSERT INTO session (hash, id, account_id, user_agent, created_at, used_at, expires_at) \
               SELECT $1::bytea, $2::uuid, a.id, $4::text, $5::timestamptz, $5, $6::timestamptz FROM account a WHERE a.id = $3 AND a.password_hash = $7 FOR SHARE";
    let (hash, of) = (&new.hash[..], &new.account);
    Ok(db.execute(sql, &[&hash, &id, of, &new.user_agent, &now, &new.expires_at, &new.password_hash]).await? == 1)
}

/// Returns the account's sessions that have not expired, newest first.
pub async fn list(
    db: &impl GenericClient,
    account: Uuid,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<ListedSession>, StoreError> {
    let sql = "SELECT id, hash, user_agent, created_at, used_at, expires_at FROM session \
               WHERE account_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id DESC LIMIT $3";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&account, &now, &limit]).await?;
    rows.iter().map(listed).collect()
}

fn listed(row: &Row) -> Result<ListedSession, StoreError> {
    let hash: &[u8] = row.try_get("hash")?;
    Ok(ListedSession {
        id: row.try_get("id")?,
        hash: hash.try_into().map_err(|_| StoreError::Corrupt("a session's hash".to_owned()))?,
        user_agent: row.try_get("user_agent")?,
        created_at: row.try_get("created_at")?,
        used_at: row.try_get("used_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

pub async fn find(
    db: &impl GenericClient,
    hash: &SessionHash,
    now: Timestamp,
) -> Result<Option<StoredSession>, StoreError> {
    let sql = "SELECT a.id, a.email, a.name, a.verified_at IS NOT NULL AS is_verified, s.created_at, s.used_at, \
               s.expires_at FROM session s JOIN account a ON a.id = s.account_id \
               WHERE s.hash = $1 AND s.expires_at > $2";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&&hash[..], &now]).await? else { return Ok(None) };
    Ok(Some(StoredSession {
        account: Account {
            id: row.try_get("id")?,
            email: row.try_get("email")?,
            name: row.try_get("name")?,
            is_verified: row.try_get("is_verified")?,
        },
        created_at: row.try_get("created_at")?,
        used_at: row.try_get("used_at")?,
        expires_at: row.try_get("expires_at")?,
    }))
}

/// Records that a session was used, and extends it.
pub async fn extend(
    db: &impl GenericClient,
    hash: &SessionHash,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE session SET expires_at = greatest(expires_at, $2), used_at = $3 WHERE hash = $1";
    db.execute(sql, &[&&hash[..], &expires_at, &now]).await?;
    Ok(())
}

/// Ends one of an account's sessions; returns false if it does not exist.
pub async fn end_one(db: &impl GenericClient, account: Uuid, id: Uuid) -> Result<bool, StoreError> {
    Ok(db.execute("DELETE FROM session WHERE account_id = $1 AND id = $2", &[&account, &id]).await? == 1)
}

pub async fn end(db: &impl GenericClient, hash: &SessionHash) -> Result<(), StoreError> {
    db.execute("DELETE FROM session WHERE hash = $1", &[&&hash[..]]).await?;
    Ok(())
}

/// Ends all sessions of an account except `keep`; returns how many.
pub async fn end_others(db: &impl GenericClient, account: Uuid, keep: Option<&SessionHash>) -> Result<u64, StoreError> {
    let keep: &[u8] = keep.map_or(&[], |hash| hash);
    Ok(db.execute("DELETE FROM session WHERE account_id = $1 AND hash <> $2", &[&account, &keep]).await?)
}

/// Removes expired sessions; returns how many.
pub async fn forget_expired(db: &impl GenericClient, now: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM session WHERE expires_at <= $1", &[&now]).await?)
}
