//! The accounts that created projects; projects that the operator created have none.

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;

/// Records the account that created a project.
pub async fn set(tx: &Transaction<'_>, id: ProjectId, account: Uuid) -> Result<(), StoreError> {
    tx.execute("UPDATE project SET created_by = $2 WHERE project_id = $1", &[&id, &account]).await?;
    Ok(())
}

/// Counts the projects that an account created and that still exist.
pub async fn count_projects(db: &impl GenericClient, account: Uuid) -> Result<u32, StoreError> {
    let statement = db.prepare_cached("SELECT count(*) FROM project WHERE created_by = $1").await?;
    let count: i64 = db.query_one(&statement, &[&account]).await?.try_get(0)?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}
