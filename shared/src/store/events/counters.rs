//! The exact numbers of events by day and name.

use deadpool_postgres::GenericClient;

use crate::ids::ProjectId;
use crate::store::StoreError;

/// The exact number of events, of all names or of some.
pub async fn total(db: &impl GenericClient, project: ProjectId, names: Option<&[String]>) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(count), 0)::bigint FROM event_count WHERE project_id = $1 AND ($2::text[] IS NULL OR name = ANY($2))";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &names]).await?.try_get(0)?)
}
