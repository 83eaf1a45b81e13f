//! Members of projects and their roles.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::{OwnerId, ProjectId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May change everything.
    Admin,
    /// May edit content, but not keys, channels, the team or the project's settings.
    Member,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "ADMIN",
            Self::Member => "MEMBER",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Admin, Self::Member].into_iter().find(|r| r.as_str() == text)
    }
}

pub(super) fn role(text: &str) -> Result<Role, StoreError> {
    Role::parse(text).ok_or_else(|| StoreError::Corrupt(format!("role {text:?}")))
}

/// A member of a project's team.
#[derive(Clone, Debug)]
pub struct Member {
    pub account_id: Uuid,
    pub email: String,
    pub name: String,
    /// Whether the account's email address is proven.
    pub is_verified: bool,
    pub role: Role,
    pub joined_at: Timestamp,
}

/// An account's membership of a project, with what authorization needs of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub project: ProjectId,
    pub owner: OwnerId,
    pub project_name: String,
    /// The project's limit, in requests per second.
    pub rate_limit: u32,
    pub role: Role,
}

/// Adds an account to a project, or changes its role.
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

fn membership(row: &Row) -> Result<Membership, StoreError> {
    Ok(Membership {
        project: row.try_get("project_id")?,
        project_name: row.try_get("name")?,
        rate_limit: row.try_get::<_, i32>("rate_limit")?.unsigned_abs(),
        role: role(row.try_get("role")?)?,
        owner: OwnerId(row.try_get("owner")?),
    })
}

/// Returns an account's membership of a project; `None` if it is not a member or the project does not exist.
pub async fn membership_of(
    db: &impl GenericClient,
    account: Uuid,
    project: ProjectId,
) -> Result<Option<Membership>, StoreError> {
    let sql = "SELECT m.project_id, p.name, p.rate_limit, m.role, coalesce(p.created_by, p.project_id) AS owner \
               FROM member m JOIN project p ON p.project_id = m.project_id WHERE m.account_id = $1 \
               AND m.project_id = $2";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&account, &project]).await?.as_ref().map(membership).transpose()
}

/// Returns all memberships of an account, oldest first.
pub async fn memberships(db: &impl GenericClient, account: Uuid) -> Result<Vec<Membership>, StoreError> {
    let sql = "SELECT m.project_id, p.name, p.rate_limit, m.role, coalesce(p.created_by, p.project_id) AS owner \
               FROM member m JOIN project p ON p.project_id = m.project_id WHERE m.account_id = $1 \
               ORDER BY m.created_at, m.project_id";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&account]).await?.iter().map(membership).collect()
}

fn member(row: &Row) -> Result<Member, StoreError> {
    Ok(Member {
        account_id: row.try_get("account_id")?,
        email: row.try_get("email")?,
        name: row.try_get("name")?,
        is_verified: row.try_get("is_verified")?,
        role: role(row.try_get("role")?)?,
        joined_at: row.try_get("created_at")?,
    })
}

/// Returns a project's team, in the order of joining.
pub async fn list(db: &impl GenericClient, project: ProjectId) -> Result<Vec<Member>, StoreError> {
    let sql = "SELECT m.account_id, a.email, a.name, a.verified_at IS NOT NULL AS is_verified, m.role, m.created_at \
               FROM member m JOIN account a ON a.id = m.account_id WHERE m.project_id = $1 \
               ORDER BY m.created_at, m.account_id";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&project]).await?.iter().map(member).collect()
}

pub async fn get(db: &impl GenericClient, project: ProjectId, account: Uuid) -> Result<Option<Member>, StoreError> {
    let sql = "SELECT m.account_id, a.email, a.name, a.verified_at IS NOT NULL AS is_verified, m.role, m.created_at \
               FROM member m JOIN account a ON a.id = m.account_id WHERE m.project_id = $1 AND m.account_id = $2";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&project, &account]).await?.as_ref().map(member).transpose()
}

/// Returns the project's admins, locked until the end of the transaction, so that two admins cannot demote each other
/// concurrently.
pub async fn lock_admins(tx: &Transaction<'_>, project: ProjectId) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT account_id FROM member WHERE project_id = $1 AND role = 'ADMIN' ORDER BY account_id FOR UPDATE";
    let rows = tx.query(sql, &[&project]).await?;
    rows.iter().map(|row| Ok(row.try_get("account_id")?)).collect()
}

pub async fn set_role(tx: &Transaction<'_>, project: ProjectId, account: Uuid, role: Role) -> Result<(), StoreError> {
    let sql = "UPDATE member SET role = $3 WHERE project_id = $1 AND account_id = $2";
    tx.execute(sql, &[&project, &account, &role.as_str()]).await?;
    Ok(())
}

pub async fn remove(tx: &Transaction<'_>, project: ProjectId, account: Uuid) -> Result<(), StoreError> {
    tx.execute("DELETE FROM member WHERE project_id = $1 AND account_id = $2", &[&project, &account]).await?;
    Ok(())
}
