//! Messages for the broker, stored with the transaction that causes them until they are published.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;

/// One message. Its ID is the broker's deduplication ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// The ingest partition whose owner publishes it.
    pub partition: i16,
    pub id: Uuid,
    pub subject: String,
    pub payload: Vec<u8>,
}

pub async fn insert(tx: &Transaction<'_>, rows: &[OutboxRow], now: Timestamp) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let partitions: Vec<i16> = rows.iter().map(|r| r.partition).collect();
    let ids: Vec<Uuid> = rows.iter().map(|r| r.id).collect();
    let subjects: Vec<&str> = rows.iter().map(|r| r.subject.as_str()).collect();
    let payloads: Vec<&[u8]> = rows.iter().map(|r| r.payload.as_slice()).collect();
    let sql = "INSERT INTO outbox (partition, id, subject, payload, created_at) \
               SELECT p, i, s, b, $5 FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::bytea[]) AS v(p, i, s, b) ON CONFLICT DO NOTHING";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&partitions, &ids, &subjects, &payloads, &now]).await?;
    Ok(())
}

/// Returns up to 500 messages of partitions that were stored before a time, oldest first.
pub async fn unpublished(
    db: &impl GenericClient,
    partitions: &[i16],
    before: Timestamp,
) -> Result<Vec<OutboxRow>, StoreError> {
    let sql = "SELECT partition, id, subject, payload FROM outbox WHERE partition = ANY($1) AND created_at < $2 ORDER BY id LIMIT 500";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&partitions, &before]).await?;
    rows.iter()
        .map(|r| {
            Ok(OutboxRow {
                partition: r.try_get("partition")?,
                id: r.try_get("id")?,
                subject: r.try_get("subject")?,
                payload: r.try_get("payload")?,
            })
        })
        .collect()
}

/// Returns when the oldest message was stored.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    // By primary key: this table leaves more dead rows than any other.
    let sql = "SELECT min(first.created_at) AS oldest FROM generate_series(0, 255) AS p CROSS JOIN LATERAL \
               (SELECT created_at FROM outbox WHERE partition = p::smallint ORDER BY id LIMIT 1) AS first";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[]).await?.try_get("oldest")?)
}

/// Deletes published messages.
pub async fn delete(db: &impl GenericClient, keys: &[(i16, Uuid)]) -> Result<(), StoreError> {
    let (partitions, ids): (Vec<i16>, Vec<Uuid>) = keys.iter().copied().unzip();
    let sql = "DELETE FROM outbox o USING unnest($1::smallint[], $2::uuid[]) AS v(p, i) WHERE o.partition = v.p AND o.id = v.i";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&partitions, &ids]).await?;
    Ok(())
}

/// Counts up to `max` messages that were stored before a time.
pub async fn count_waiting(db: &impl GenericClient, before: Timestamp, max: i64) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS total FROM (SELECT FROM outbox WHERE created_at < $1 LIMIT $2) AS found";
    Ok(db.query_one(sql, &[&before, &max]).await?.try_get("total")?)
}
