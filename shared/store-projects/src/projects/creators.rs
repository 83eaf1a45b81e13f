//! The accounts that created projects; projects that the operator created have none.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;

use database::StoreError;
use kernel::ids::{OwnerId, ProjectId};

/// Records the account that created a project.
pub async fn set(tx: &Transaction<'_>, id: ProjectId, account: Uuid) -> Result<(), StoreError> {
    tx.execute("UPDATE project SET created_by = $2 WHERE project_id = $1", &[&id, &account]).await?;
    Ok(())
}

/// Counts the projects that an account created and that still exist.
pub async fn count_projects(db: &impl GenericClient, account: Uuid) -> Result<u32, StoreError> {
    let statement = db.prepare_cached("SELECT count(*) AS count FROM project WHERE created_by = $1").await?;
    let count: i64 = db.query_one(&statement, &[&account]).await?.try_get("count")?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns the owners of projects. A project that no longer exists is its own owner, like one without a creator.
pub async fn owners(
    db: &impl GenericClient,
    projects: &[ProjectId],
) -> Result<HashMap<ProjectId, OwnerId>, StoreError> {
    let mut owners: HashMap<ProjectId, OwnerId> = projects.iter().map(|id| (*id, OwnerId::from(*id))).collect();
    let sql = "SELECT project_id, created_by FROM project WHERE project_id = ANY($1) AND created_by IS NOT NULL";
    for row in db.query(&db.prepare_cached(sql).await?, &[&projects]).await? {
        owners.insert(row.try_get("project_id")?, OwnerId(row.try_get("created_by")?));
    }
    Ok(owners)
}
