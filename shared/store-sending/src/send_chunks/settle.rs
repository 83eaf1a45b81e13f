//! Marks members of begun chunks as done.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use uuid::Uuid;

use super::Bits;
use database::StoreError;
use kernel::ids::ProjectId;

/// Locks begun chunks and returns which of their members are done. A missing chunk was taken over after its lease had
/// ended, or is settled completely.
pub async fn lock(
    tx: &Transaction<'_>,
    project: ProjectId,
    chunks: &[Uuid],
) -> Result<BTreeMap<Uuid, Bits>, StoreError> {
    let sql = "SELECT id, done::text AS done FROM send_chunk WHERE project_id = $1 AND id = ANY($2) \
               ORDER BY id FOR UPDATE";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &chunks]).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, Bits::parse(row.try_get("done")?)))).collect()
}

/// Writes which members of locked chunks are done. Deletes chunks without pending members.
pub async fn write(tx: &Transaction<'_>, project: ProjectId, chunks: &BTreeMap<Uuid, Bits>) -> Result<(), StoreError> {
    let (done, pending): (Vec<_>, Vec<_>) = chunks.iter().partition(|(_, bits)| bits.all_set());
    if !done.is_empty() {
        let ids: Vec<Uuid> = done.into_iter().map(|(id, _)| *id).collect();
        let sql = "DELETE FROM send_chunk WHERE project_id = $1 AND id = ANY($2)";
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &ids]).await?;
    }
    if !pending.is_empty() {
        let (ids, bits): (Vec<Uuid>, Vec<String>) = pending.into_iter().map(|(id, bits)| (*id, bits.text())).unzip();
        let sql = "UPDATE send_chunk c SET done = v.done::varbit FROM unnest($2::uuid[], $3::text[]) AS v (id, done) \
                   WHERE c.project_id = $1 AND c.id = v.id";
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &ids, &bits]).await?;
    }
    Ok(())
}
