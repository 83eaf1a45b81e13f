//! Leases of the ingest stream's partitions: owner, epoch and applied position.
//!
//! Leases are measured by the database's clock (`statement_timestamp()`, which Citus accepts), not in product time: all
//! workers must agree, whatever their own clocks show. No lease ends more than 3 minutes ahead (`PARTITION_LEASE_MS` is
//! at most 120,000). One that does was written before the database's clock was set back. It is ignored: its worker may
//! have died, and a live worker acquires the partition again under a new epoch.

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{Connection, StoreError, by_project};
use kernel::clock::from_ms;
use wire::position::Position;

/// The epoch and applied position of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub partition: i16,
    pub epoch: i64,
    /// Sequence of the last message applied.
    pub applied_seq: i64,
    /// When the broker stored that message, in Unix nanoseconds; 0 if unknown.
    pub applied_ns: i64,
}

impl Lease {
    fn of(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            partition: row.try_get("partition")?,
            epoch: row.try_get("epoch")?,
            applied_seq: row.try_get("applied_seq")?,
            applied_ns: row.try_get("applied_ns")?,
        })
    }
}

/// Creates the rows of all partitions. If the stream was recreated, resets their positions to its start.
pub async fn ensure(db: &impl GenericClient, partitions: u16, stream_created_ms: i64) -> Result<(), StoreError> {
    let created = from_ms(stream_created_ms);
    let sql = "INSERT INTO ingest_partition (partition, stream_created) SELECT g, $2 FROM generate_series(0, $1::int - 1) g \
               ON CONFLICT (partition) DO UPDATE SET stream_created = excluded.stream_created, applied_seq = 0, applied_ns = 0, epoch = ingest_partition.epoch + 1, owner = NULL \
               WHERE ingest_partition.stream_created IS DISTINCT FROM excluded.stream_created";
    db.execute(sql, &[&i32::from(partitions), &created]).await?;
    Ok(())
}

/// Records that a worker is alive for `ttl_ms` and returns the number of live workers of its kind, itself included.
pub async fn announce(db: &impl GenericClient, worker: Uuid, kind: &str, ttl_ms: i64) -> Result<i64, StoreError> {
    let sql = "WITH me AS (INSERT INTO worker (id, kind, seen_until) \
               VALUES ($1, $2, statement_timestamp() + $3 * interval '1 millisecond') ON CONFLICT (id) DO UPDATE \
               SET seen_until = excluded.seen_until) SELECT count(*) + 1 AS count FROM worker WHERE kind = $2 \
               AND id <> $1 AND seen_until BETWEEN statement_timestamp() AND statement_timestamp() + interval \
               '3 minutes'";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&worker, &kind, &(ttl_ms as f64)]).await?.try_get("count")?)
}

/// Deletes the record that [`announce`] wrote.
pub async fn retire(db: &impl GenericClient, worker: Uuid) -> Result<(), StoreError> {
    db.execute("DELETE FROM worker WHERE id = $1", &[&worker]).await?;
    Ok(())
}

/// Renews the leases held. Returns the partitions that the worker still owns.
pub async fn renew(
    db: &impl GenericClient,
    worker: Uuid,
    held: &[(i16, i64)],
    ttl_ms: i64,
) -> Result<Vec<i16>, StoreError> {
    let (partitions, epochs): (Vec<i16>, Vec<i64>) = held.iter().copied().unzip();
    // Locks the rows in order first: an update with a join locks in any order, and two of them could deadlock.
    let sql = if by_project::is_distributed() {
        "WITH mine AS (SELECT p.partition FROM unnest($2::smallint[], $3::bigint[]) AS v(partition, epoch) \
         JOIN ingest_partition p ON p.partition = v.partition AND p.epoch = v.epoch WHERE p.owner = $1 \
         ORDER BY p.partition FOR UPDATE OF p) UPDATE ingest_partition p \
         SET lease_until = statement_timestamp() + $4 * interval '1 millisecond' FROM mine \
         WHERE p.partition = mine.partition RETURNING p.partition"
    } else {
        // Measured from when the rows are locked: a commit that waits for its standby holds them. Citus does not accept
        // `clock_timestamp()` here.
        "WITH mine AS (SELECT p.partition FROM unnest($2::smallint[], $3::bigint[]) AS v(partition, epoch) \
         JOIN ingest_partition p ON p.partition = v.partition AND p.epoch = v.epoch WHERE p.owner = $1 \
         ORDER BY p.partition FOR UPDATE OF p) UPDATE ingest_partition p \
         SET lease_until = clock_timestamp() + $4 * interval '1 millisecond' FROM mine \
         WHERE p.partition = mine.partition RETURNING p.partition"
    };
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&worker, &partitions, &epochs, &(ttl_ms as f64)]).await?;
    rows.iter().map(|r| Ok(r.try_get("partition")?)).collect()
}

/// Acquires up to `max` partitions that no worker holds. Epochs grow with time, so that a database restored from a
/// backup assigns none that was used before.
pub async fn acquire(db: &impl GenericClient, worker: Uuid, max: i64, ttl_ms: i64) -> Result<Vec<Lease>, StoreError> {
    let sql = "WITH free AS (SELECT partition FROM ingest_partition WHERE owner IS NULL \
               OR lease_until NOT BETWEEN statement_timestamp() AND statement_timestamp() + interval '3 minutes' \
               ORDER BY partition LIMIT $2 FOR UPDATE SKIP LOCKED) UPDATE ingest_partition p \
               SET owner = $1, epoch = greatest(p.epoch + 1, \
               (extract(epoch FROM statement_timestamp()) * 1000)::bigint), \
               lease_until = statement_timestamp() + $3 * interval '1 millisecond' FROM free \
               WHERE p.partition = free.partition RETURNING p.partition, p.epoch, p.applied_seq, p.applied_ns";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&worker, &max, &(ttl_ms as f64)]).await?.iter().map(Lease::of).collect()
}

/// Releases a partition.
pub async fn release(db: &impl GenericClient, worker: Uuid, partition: i16, epoch: i64) -> Result<(), StoreError> {
    let sql = "UPDATE ingest_partition SET owner = NULL, lease_until = NULL WHERE partition = $2 AND epoch = $3 AND owner = $1";
    db.execute(sql, &[&worker, &partition, &epoch]).await?;
    Ok(())
}

/// Releases a partition and sets its position back to at most `after`: the stream lost its end and has reused those
/// sequences.
pub async fn rewind(
    db: &impl GenericClient,
    worker: Uuid,
    partition: i16,
    epoch: i64,
    after: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE ingest_partition SET applied_seq = least(applied_seq, $4), applied_ns = 0, epoch = epoch + 1, owner = NULL, lease_until = NULL \
               WHERE partition = $2 AND epoch = $3 AND owner = $1";
    db.execute(sql, &[&worker, &partition, &epoch, &after]).await?;
    Ok(())
}

/// Begins a recording transaction. Its statements look up as many keys as a batch has. No plan of theirs may read a
/// whole table, which the planner would choose for some thousand keys in a table that it considers small.
pub async fn begin(db: &mut Connection) -> Result<Transaction<'_>, StoreError> {
    let tx = db.transaction().await?;
    // Citus plans by parameter values: it makes no generic plan over several shards.
    let settings = if by_project::is_distributed() {
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
         SET LOCAL plan_cache_mode = force_custom_plan"
    } else {
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
         SET LOCAL plan_cache_mode = force_generic_plan"
    };
    tx.batch_execute(settings).await?;
    Ok(tx)
}

/// An advance of a partition's position, allowed only to the holder of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    pub partition: i16,
    pub epoch: i64,
    pub from: i64,
    pub to: i64,
    /// When the broker stored the message `to`, in Unix nanoseconds; 0 if unknown.
    pub to_ns: i64,
}

/// Advances positions. Returns the partitions that were advanced. If one is missing, another worker owns it or its
/// position differs, and the transaction must not be committed.
pub async fn advance(tx: &Transaction<'_>, steps: &[Advance]) -> Result<Vec<i16>, StoreError> {
    let partitions: Vec<i16> = steps.iter().map(|s| s.partition).collect();
    let epochs: Vec<i64> = steps.iter().map(|s| s.epoch).collect();
    let from: Vec<i64> = steps.iter().map(|s| s.from).collect();
    let to: Vec<i64> = steps.iter().map(|s| s.to).collect();
    let to_ns: Vec<i64> = steps.iter().map(|s| s.to_ns).collect();
    let sql = "WITH mine AS (SELECT p.partition, v.t, v.ns FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS v(partition, epoch, f, t, ns) \
               JOIN ingest_partition p ON p.partition = v.partition AND p.epoch = v.epoch AND p.applied_seq = v.f \
               ORDER BY p.partition FOR UPDATE OF p) \
               UPDATE ingest_partition p SET applied_seq = mine.t, applied_ns = mine.ns FROM mine WHERE p.partition = mine.partition RETURNING p.partition";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&partitions, &epochs, &from, &to, &to_ns]).await?;
    rows.iter().map(|r| Ok(r.try_get("partition")?)).collect()
}

/// Returns the current epoch and position of partitions.
pub async fn current(db: &impl GenericClient, partitions: &[i16]) -> Result<Vec<Lease>, StoreError> {
    let sql = "SELECT p.partition, p.epoch, p.applied_seq, p.applied_ns FROM ingest_partition p \
               WHERE partition = ANY($1)";
    db.query(sql, &[&partitions]).await?.iter().map(Lease::of).collect()
}

/// Returns the applied position of every partition, ordered by partition.
pub async fn applied(db: &impl GenericClient) -> Result<Vec<i64>, StoreError> {
    let statement = db.prepare_cached("SELECT applied_seq FROM ingest_partition ORDER BY partition").await?;
    db.query(&statement, &[]).await?.iter().map(|r| Ok(r.try_get("applied_seq")?)).collect()
}

/// Returns the applied positions of the stream that was created at this time (Unix milliseconds).
pub async fn positions(db: &impl GenericClient, stream_created_ms: i64) -> Result<Vec<(i16, Position)>, StoreError> {
    let sql =
        "SELECT partition, applied_seq, applied_ns FROM ingest_partition WHERE stream_created = $1 ORDER BY partition";
    let rows = db.query(sql, &[&from_ms(stream_created_ms)]).await?;
    let position = |row: &Row| {
        let (seq, stored_ns) = (row.try_get::<_, i64>("applied_seq")?.unsigned_abs(), row.try_get("applied_ns")?);
        Ok((row.try_get("partition")?, Position { stream_created_ms, seq, stored_ns }))
    };
    rows.iter().map(position).collect()
}

/// Returns the number of partitions, and the partitions without an owner: never acquired, released, or with an expired
/// lease.
pub async fn orphaned(db: &impl GenericClient) -> Result<(i64, Vec<i16>), StoreError> {
    let sql = "SELECT count(*) AS count, coalesce(array_agg(partition ORDER BY partition) FILTER (WHERE owner IS NULL \
               OR lease_until NOT BETWEEN statement_timestamp() AND statement_timestamp() + interval '3 minutes'), \
               '{}') AS orphaned FROM ingest_partition";
    let row = db.query_one(sql, &[]).await?;
    Ok((row.try_get("count")?, row.try_get("orphaned")?))
}
