//! The workers that announced themselves in the database.

use deadpool_postgres::GenericClient;

use crate::StoreError;

/// Deletes workers whose announcement expired more than ten minutes ago, by the database's clock. Returns how many.
pub async fn delete_stale(db: &impl GenericClient) -> Result<u64, StoreError> {
    let sql = "DELETE FROM worker WHERE seen_until < clock_timestamp() - interval '10 minutes'";
    Ok(db.execute(sql, &[]).await?)
}
