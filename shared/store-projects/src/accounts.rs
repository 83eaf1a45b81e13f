//! Accounts of dashboard users.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: Uuid,
    pub email: String,
    /// May be empty.
    pub name: String,
    /// Whether the account holder has proven the email address by a mailed link, or the operator has vouched for it.
    pub is_verified: bool,
}

/// An account with its password hash.
pub struct Credentials {
    pub account: Account,
    /// An Argon2id PHC string.
    pub password_hash: String,
}

fn from_row(row: &Row) -> Result<Credentials, StoreError> {
    let account = Account {
        id: row.try_get("id")?,
        email: row.try_get("email")?,
        name: row.try_get("name")?,
        is_verified: row.try_get("is_verified")?,
    };
    Ok(Credentials { account, password_hash: row.try_get("password_hash")? })
}

/// Finds an account by email address, ignoring case.
pub async fn find(db: &impl GenericClient, email: &str) -> Result<Option<Credentials>, StoreError> {
    let sql = "SELECT id, email, name, verified_at IS NOT NULL AS is_verified, password_hash FROM account \
               WHERE lower(email COLLATE \"C\") = lower($1 COLLATE \"C\")";
    db.query_opt(&db.prepare_cached(sql).await?, &[&email]).await?.as_ref().map(from_row).transpose()
}

pub async fn get(db: &impl GenericClient, id: Uuid) -> Result<Option<Credentials>, StoreError> {
    let sql = "SELECT id, email, name, verified_at IS NOT NULL AS is_verified, password_hash FROM account \
               WHERE id = $1";
    db.query_opt(&db.prepare_cached(sql).await?, &[&id]).await?.as_ref().map(from_row).transpose()
}

/// Locks an account until the end of the transaction, to serialize its concurrent requests.
pub async fn lock(tx: &Transaction<'_>, id: Uuid) -> Result<(), StoreError> {
    tx.execute("SELECT FROM account WHERE id = $1 FOR UPDATE", &[&id]).await?;
    Ok(())
}

/// Transfers an unverified account to the holder of its mailbox: sets their name and password, and marks the account as
/// verified. Returns false if the account was verified meanwhile.
///
/// The caller must end the sessions of the former holder.
pub async fn take_over(
    tx: &Transaction<'_>,
    id: Uuid,
    name: &str,
    password_hash: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE account SET name = $2, password_hash = $3, verified_at = $4, updated_at = $4 \
               WHERE id = $1 AND verified_at IS NULL";
    Ok(tx.execute(sql, &[&id, &name, &password_hash, &now]).await? == 1)
}

/// Marks an account's email address as proven; returns false if it already was.
pub async fn set_verified(tx: &Transaction<'_>, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE account SET verified_at = $2, updated_at = $2 WHERE id = $1 AND verified_at IS NULL";
    Ok(tx.execute(sql, &[&id, &now]).await? == 1)
}

/// Creates an account; returns false if the email address is taken.
pub async fn insert(
    tx: &Transaction<'_>,
    new: &Account,
    password_hash: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let verified_at = new.is_verified.then_some(now);
    let sql = "INSERT INTO account (id, email, name, password_hash, verified_at, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (lower(email COLLATE \"C\")) DO NOTHING";
    Ok(tx.execute(sql, &[&new.id, &new.email, &new.name, &password_hash, &verified_at, &now]).await? == 1)
}

/// Creates a verified account, or verifies the existing account with this email address and sets its password; returns
/// its ID.
pub async fn upsert(
    tx: &Transaction<'_>,
    id: Uuid,
    email: &str,
    password_hash: &str,
    now: Timestamp,
) -> Result<Uuid, StoreError> {
    let sql = "INSERT INTO account (id, email, password_hash, verified_at, created_at, updated_at) VALUES ($1, $2, $3, $4, $4, $4) \
               ON CONFLICT (lower(email COLLATE \"C\")) DO UPDATE SET password_hash = excluded.password_hash, \
               verified_at = coalesce(account.verified_at, excluded.verified_at), updated_at = excluded.updated_at RETURNING id";
    Ok(tx.query_one(sql, &[&id, &email, &password_hash, &now]).await?.try_get("id")?)
}

pub async fn set_password(
    tx: &Transaction<'_>,
    id: Uuid,
    password_hash: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE account SET password_hash = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, &[&id, &password_hash, &now]).await?;
    Ok(())
}
