//! An index of a table that is in use, made concurrently. Each step may be repeated, so that one that was cut short goes on.
//!
//! PostgreSQL makes none of a partitioned table in that way. There the index is declared for the table, which partitions that are made
//! from then on take over; it is made partition by partition and attached; and it is valid once all have it.

use anyhow::bail;

use super::LOCK_TIMEOUT;
use crate::migrations::Index;
use crate::{Connection, StoreError};

/// The longest name that PostgreSQL keeps.
const LONGEST_NAME: usize = 63;

pub async fn make(client: &mut Connection, index: &Index<'_>) -> anyhow::Result<()> {
    let sql = "SELECT relkind = 'p' AS is_partitioned FROM pg_class WHERE oid = $1::text::regclass";
    let kind = client.query_one(sql, &[&index.table]).await;
    if !kind.map_err(StoreError::from)?.try_get::<_, bool>("is_partitioned")? {
        return Ok(make_one(client, index, index.name, index.table).await?);
    }
    let Index { name, table, definition, .. } = index;
    bounded(client, &format!("CREATE {} IF NOT EXISTS {name} ON ONLY {table} {definition}", kind_of(index))).await?;
    while let Some(partition) = without(client, index).await? {
        let own = format!("{name}_{partition}");
        if own.len() > LONGEST_NAME {
            bail!("{own} is too long a name for an index");
        }
        make_one(client, index, &own, &partition).await?;
        bounded(client, &format!("ALTER INDEX {name} ATTACH PARTITION {own}")).await?;
    }
    if !is_valid(client, name).await?.unwrap_or(false) {
        bail!("the index {name} is not valid, though every partition of {table} has it");
    }
    Ok(())
}

fn kind_of(index: &Index<'_>) -> &'static str {
    if index.unique { "UNIQUE INDEX" } else { "INDEX" }
}

/// Of one table that has no partitions.
async fn make_one(client: &Connection, index: &Index<'_>, name: &str, table: &str) -> Result<(), StoreError> {
    // What an attempt that was cut short has left serves no reader, and costs every writer.
    if is_valid(client, name).await? == Some(false) {
        client.batch_execute(&format!("DROP INDEX CONCURRENTLY {name}")).await?;
    }
    // It waits for transactions that began before, and nobody waits behind it.
    let sql = format!("CREATE {} CONCURRENTLY IF NOT EXISTS {name} ON {table} {}", kind_of(index), index.definition);
    Ok(client.batch_execute(&sql).await?)
}

/// None where there is no such index.
async fn is_valid(client: &Connection, name: &str) -> Result<Option<bool>, StoreError> {
    let sql = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)";
    Ok(client.query_opt(sql, &[&name]).await?.map(|row| row.try_get("indisvalid")).transpose()?)
}

/// The next partition whose index is not attached.
async fn without(client: &Connection, index: &Index<'_>) -> Result<Option<String>, StoreError> {
    let sql = "SELECT c.relname::text AS name FROM pg_inherits p JOIN pg_class c ON c.oid = p.inhrelid \
               WHERE p.inhparent = $1::text::regclass AND NOT p.inhdetachpending AND NOT EXISTS (\
                   SELECT FROM pg_inherits a JOIN pg_index x ON x.indexrelid = a.inhrelid \
                   WHERE a.inhparent = $2::text::regclass AND x.indrelid = c.oid) \
               ORDER BY 1 LIMIT 1";
    Ok(client.query_opt(sql, &[&index.table, &index.name]).await?.map(|row| row.try_get("name")).transpose()?)
}

/// What locks a table as a whole, for a moment.
async fn bounded(client: &mut Connection, sql: &str) -> Result<(), StoreError> {
    let tx = client.transaction().await?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = {}; {sql}", LOCK_TIMEOUT.as_millis())).await?;
    Ok(tx.commit().await?)
}
