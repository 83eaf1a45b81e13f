//! Detaches expired partitions while the table is in use.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::Range;
use crate::{StoreError, by_project};
use kernel::ids;

/// Comment on a table that this module detached. A table that an operator detached to keep it lacks the comment and is
/// left alone.
const DETACHED_COMMENT: &str = "rekindle: past every retention";

/// A partition to detach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    table: &'static str,
    range: Range,
    /// Whether a detach was started and not finished.
    is_pending: bool,
}

impl Expired {
    pub fn name(&self) -> &str {
        &self.range.name
    }

    /// Returns the times of the IDs that it holds, in Unix milliseconds.
    pub fn times_ms(&self) -> std::ops::Range<i64> {
        self.range.from_ms..self.range.to_ms
    }

    /// Returns whether a detach was started and not finished.
    pub fn is_pending(&self) -> bool {
        self.is_pending
    }
}

/// Returns the partitions that end by `until_ms` (Unix milliseconds), and those with an unfinished detach. The latter
/// come first, because PostgreSQL detaches no other partition before them.
pub async fn expired(db: &impl GenericClient, table: &'static str, until_ms: i64) -> Result<Vec<Expired>, StoreError> {
    let sql = "SELECT p.name, p.bounds[1] AS from_id, p.bounds[2] AS to_id, p.pending \
               FROM (SELECT c.oid::regclass::text AS name, i.inhdetachpending AS pending, \
               obj_description(c.oid, 'pg_class') AS mark, regexp_match(pg_get_expr(c.relpartbound, c.oid), \
               'FROM \\(''([0-9a-f-]{36})''\\) TO \\(''([0-9a-f-]{36})''\\)') AS bounds \
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass) p \
               WHERE p.bounds[2]::uuid <= $2 OR (p.pending AND p.mark = $3) ORDER BY p.pending DESC, p.bounds[2]";
    let rows = db.query(sql, &[&table, &ids::lower_bound(until_ms), &DETACHED_COMMENT]).await?;
    let time = |row: &Row, column: &str| -> Result<i64, StoreError> {
        let bound: String = row.try_get(column)?;
        uuid::Uuid::try_parse(&bound).map(ids::time_ms).map_err(|e| StoreError::Corrupt(format!("a bound: {e}")))
    };
    let expired = |row: &Row| {
        let range = Range { name: row.try_get("name")?, from_ms: time(row, "from_id")?, to_ms: time(row, "to_id")? };
        Ok(Expired { table, range, is_pending: row.try_get("pending")? })
    };
    rows.iter().map(expired).collect()
}

/// Detaches a partition, so that its rows are no longer found.
///
/// Blocks no other session, but waits for current readers and writers of the table. If they take too long, it stays
/// pending ([`StoreError::is_statement_timeout`]). Cannot run in a transaction.
pub async fn detach(db: &impl GenericClient, expired: &Expired) -> Result<(), StoreError> {
    // The names come from the database's catalog, quoted where necessary.
    let Expired { table, range: Range { name, .. }, is_pending } = expired;
    if *is_pending {
        return Ok(db.batch_execute(&format!("ALTER TABLE {table} DETACH PARTITION {name} FINALIZE")).await?);
    }
    db.batch_execute(&format!("COMMENT ON TABLE {name} IS '{DETACHED_COMMENT}'")).await?;
    // Citus does not detach concurrently; there, all users of the table wait briefly.
    let concurrently = if by_project::is_distributed() { "" } else { " CONCURRENTLY" };
    Ok(db.batch_execute(&format!("ALTER TABLE {table} DETACH PARTITION {name}{concurrently}")).await?)
}

/// Returns the detached tables that still exist.
pub async fn detached(db: &impl GenericClient, table: &'static str) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_class of ON of.oid = $1::text::regclass \
               WHERE c.relnamespace = of.relnamespace AND c.relkind = 'r' AND NOT c.relispartition \
               AND c.relname LIKE of.relname || '\\_%' AND obj_description(c.oid, 'pg_class') = $2 ORDER BY c.relname";
    let rows = db.query(sql, &[&table, &DETACHED_COMMENT]).await?;
    rows.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Drops a detached table.
pub async fn remove(db: &impl GenericClient, name: &str) -> Result<(), StoreError> {
    Ok(db.batch_execute(&format!("DROP TABLE {name}")).await?)
}
