//! Messages that migration 6 would delete although they are stored nowhere else.

use anyhow::bail;
use deadpool_postgres::GenericClient;

use crate::StoreError;
use crate::migrations::Migration;

/// Refuses migration 6, which empties the outbox of deliveries, while replayed direct messages are in it: until they
/// are published they have no row. Its other deliveries only refer to messages, which the migration queues by their
/// rows.
pub async fn refuse_loss(db: &impl GenericClient, migration: &Migration) -> anyhow::Result<()> {
    if migration.version != 6 {
        return Ok(());
    }
    let sql = "SELECT count(*) AS count FROM outbox WHERE subject LIKE '%send.%.direct'";
    let count: i64 = db.query_one(sql, &[]).await.map_err(StoreError::from)?.try_get("count")?;
    if count > 0 {
        bail!(
            "migration {} ({}) would delete {count} replayed direct messages that are not published yet. Start worker-automation of the previous \
             version, and NATS with that version's rights, until all of them are published; then stop worker-automation and migrate again",
            migration.version,
            migration.name
        );
    }
    Ok(())
}
