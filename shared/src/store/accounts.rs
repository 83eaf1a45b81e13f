//! The people who work with the dashboard, and the projects they belong to.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::StoreError;
use crate::ids::ProjectId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Admin,
    Member,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "ADMIN",
            Self::Member => "MEMBER",
        }
    }
}

/// Makes an account, or gives the existing one of that email address a new password; returns its id.
/// `password_hash` is an argon2id PHC string.
pub async fn upsert(
    tx: &Transaction<'_>,
    id: Uuid,
    email: &str,
    password_hash: &str,
    now: Timestamp,
) -> Result<Uuid, StoreError> {
    let sql = "INSERT INTO account (id, email, password_hash, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) \
               ON CONFLICT (lower(email)) DO UPDATE SET password_hash = excluded.password_hash, updated_at = excluded.updated_at \
               RETURNING id";
    Ok(tx.query_one(sql, &[&id, &email, &password_hash, &now]).await?.try_get(0)?)
}

/// Makes the account a member of a project, or changes its role.
pub async fn join(
    tx: &Transaction<'_>,
    project: ProjectId,
    account: Uuid,
    role: Role,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO member (project_id, account_id, role, created_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (project_id, account_id) DO UPDATE SET role = excluded.role";
    tx.execute(sql, &[&project, &account, &role.as_str(), &now]).await?;
    Ok(())
}
