//! The people who work with the dashboard.

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
    /// Whether the address was proven to be the account holder's, by a mailed link or by the operator's word.
    pub is_verified: bool,
}

/// An account with what its password is checked against.
pub struct Credentials {
    pub account: Account,
    /// An argon2id PHC string.
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

/// By address, without regard to case.
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

/// Holds an account until the transaction's end, so that what it does twice at once takes turns.
pub async fn lock(tx: &Transaction<'_>, id: Uuid) -> Result<(), StoreError> {
    tx.execute("SELECT FROM account WHERE id = $1 FOR UPDATE", &[&id]).await?;
    Ok(())
}

/// Gives an unverified account to the holder of its mailbox: their name and password, and verified. Returns false if the
/// account was verified meanwhile. The caller ends the sessions of the account's former holder.
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

/// Marks an account's address as proven; returns false if it was already.
pub async fn set_verified(tx: &Transaction<'_>, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE account SET verified_at = $2, updated_at = $2 WHERE id = $1 AND verified_at IS NULL";
    Ok(tx.execute(sql, &[&id, &now]).await? == 1)
}

/// Makes an account; false when there is one of that address.
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

/// Makes a verified account, or gives the existing one of that address a new password; returns its id.
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
