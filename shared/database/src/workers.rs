//! Who is at work, as far as the database was told.

use deadpool_postgres::GenericClient;

use crate::StoreError;

/// Removes those who have not been seen for ten minutes past what they promised; returns how many. Counted, as their
/// promises are, in the database's own time.
pub async fn forget_stale(db: &impl GenericClient) -> Result<u64, StoreError> {
    let sql = "DELETE FROM worker WHERE seen_until < clock_timestamp() - interval '10 minutes'";
    Ok(db.execute(sql, &[]).await?)
}
