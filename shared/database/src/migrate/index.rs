//! Creates an index concurrently on a table in use. Each step may be repeated, so that an interrupted build continues.
//!
//! PostgreSQL cannot do so for a partitioned table. There the index is declared on the table, and later partitions
//! inherit it. It is created on each existing partition and attached, and becomes valid once all partitions have it.

use anyhow::bail;

use super::LOCK_TIMEOUT;
use crate::migrations::Index;
use crate::{Connection, StoreError};

/// The longest name that PostgreSQL keeps, in bytes.
const MAX_NAME_BYTES: usize = 63;

pub async fn create(client: &mut Connection, index: &Index<'_>) -> anyhow::Result<()> {
    let sql = "SELECT relkind = 'p' AS is_partitioned FROM pg_class WHERE oid = $1::text::regclass";
    let kind = client.query_one(sql, &[&index.table]).await;
    if !kind.map_err(StoreError::from)?.try_get::<_, bool>("is_partitioned")? {
        return Ok(create_on_table(client, index, index.name, index.table).await?);
    }
    let Index { name, table, definition, .. } = index;
    execute_with_lock_timeout(
        client,
        &format!("CREATE {} IF NOT EXISTS {name} ON ONLY {table} {definition}", index_keyword(index)),
    )
    .await?;
    while let Some(partition) = next_partition_without(client, index).await? {
        let own = format!("{name}_{partition}");
        if own.len() > MAX_NAME_BYTES {
            bail!("the index name {own} is too long");
        }
        create_on_table(client, index, &own, &partition).await?;
        execute_with_lock_timeout(client, &format!("ALTER INDEX {name} ATTACH PARTITION {own}")).await?;
    }
    if !is_valid(client, name).await?.unwrap_or(false) {
        bail!("the index {name} is invalid although every partition of {table} has it");
    }
    Ok(())
}

fn index_keyword(index: &Index<'_>) -> &'static str {
    if index.unique { "UNIQUE INDEX" } else { "INDEX" }
}

/// Creates the index on one table that has no partitions.
async fn create_on_table(client: &Connection, index: &Index<'_>, name: &str, table: &str) -> Result<(), StoreError> {
    // An invalid index that an interrupted build left serves no reader and slows every writer.
    if is_valid(client, name).await? == Some(false) {
        client.batch_execute(&format!("DROP INDEX CONCURRENTLY {name}")).await?;
    }
    // It waits for older transactions, but blocks no reader or writer.
    let sql =
        format!("CREATE {} CONCURRENTLY IF NOT EXISTS {name} ON {table} {}", index_keyword(index), index.definition);
    Ok(client.batch_execute(&sql).await?)
}

/// Returns `None` if there is no such index.
async fn is_valid(client: &Connection, name: &str) -> Result<Option<bool>, StoreError> {
    let sql = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)";
    Ok(client.query_opt(sql, &[&name]).await?.map(|row| row.try_get("indisvalid")).transpose()?)
}

/// Returns the next partition whose index is not attached.
async fn next_partition_without(client: &Connection, index: &Index<'_>) -> Result<Option<String>, StoreError> {
    let sql = "SELECT c.relname::text AS name FROM pg_inherits p JOIN pg_class c ON c.oid = p.inhrelid \
               WHERE p.inhparent = $1::text::regclass AND NOT p.inhdetachpending AND NOT EXISTS (\
                   SELECT FROM pg_inherits a JOIN pg_index x ON x.indexrelid = a.inhrelid \
                   WHERE a.inhparent = $2::text::regclass AND x.indrelid = c.oid) \
               ORDER BY 1 LIMIT 1";
    Ok(client.query_opt(sql, &[&index.table, &index.name]).await?.map(|row| row.try_get("name")).transpose()?)
}

/// Runs a statement that locks a table briefly, with [`LOCK_TIMEOUT`].
async fn execute_with_lock_timeout(client: &mut Connection, sql: &str) -> Result<(), StoreError> {
    let tx = client.transaction().await?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = {}; {sql}", LOCK_TIMEOUT.as_millis())).await?;
    Ok(tx.commit().await?)
}
