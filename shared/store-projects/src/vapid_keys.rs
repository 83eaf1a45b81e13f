//! The VAPID key pair of each project. It is created on first use and never changes, because browser subscriptions are
//! bound to it.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::sealed::Sealed;
use database::StoreError;
use kernel::ids::ProjectId;
use secrets::MasterKeys;
use secrets::vapid::VapidKeys;

/// The context that the private key is sealed for.
const SEAL_CONTEXT: &str = "vapid";
pub(super) const SEALED: Sealed =
    Sealed { table: "vapid_key", column: "private_key", key: "''", context: |_| SEAL_CONTEXT.to_owned() };

pub async fn get(
    db: &impl GenericClient,
    keys: &MasterKeys,
    project: ProjectId,
) -> Result<Option<VapidKeys>, StoreError> {
    let sql = "SELECT public_key, private_key FROM vapid_key WHERE project_id = $1";
    let Some(row) = db.query_opt(&db.prepare_cached(sql).await?, &[&project]).await? else { return Ok(None) };
    let private = keys
        .open(project, SEAL_CONTEXT, row.try_get("private_key")?)
        .map_err(|e| StoreError::Corrupt(format!("the VAPID key of project {project}: {e}")))?;
    Ok(Some(VapidKeys { public: row.try_get("public_key")?, private }))
}

/// Stores a project's key pair unless it has one; of two concurrent inserts, the first wins.
pub async fn insert(
    db: &impl GenericClient,
    keys: &MasterKeys,
    project: ProjectId,
    new: &VapidKeys,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sealed = keys.seal(project, SEAL_CONTEXT, &new.private);
    let sql = "INSERT INTO vapid_key (project_id, public_key, private_key, created_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (project_id) DO NOTHING";
    db.execute(sql, &[&project, &new.public, &sealed, &now]).await?;
    Ok(())
}
