//! Columns of sealed secrets, and resealing them under another master key.

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;
use secrets::MasterKeys;

/// A column that holds sealed secrets.
#[derive(Clone, Copy)]
pub struct Sealed {
    pub table: &'static str,
    pub column: &'static str,
    /// SQL expression of type text that identifies a row within its project.
    pub(super) key: &'static str,
    /// Returns the context that a row's secret is sealed for, by the row's key.
    pub(super) context: fn(&str) -> String,
}

/// Project and key of the last row processed.
pub type RowPosition = (ProjectId, String);

/// Returns the position before the first row.
pub fn first_position() -> RowPosition {
    (ProjectId(Uuid::nil()), String::new())
}

/// The result of one step.
#[derive(Debug, Default)]
pub struct ResealStep {
    pub resealed: u64,
    /// Rows whose secret is altered or sealed under an unknown key; they are not changed.
    pub unreadable: Vec<RowPosition>,
    /// Where the next step continues; none after the last row.
    pub next: Option<RowPosition>,
}

/// Counts the secrets that are not sealed under the current sealing key.
pub async fn count_remaining(db: &impl GenericClient, of: Sealed, keys: &MasterKeys) -> Result<i64, StoreError> {
    let Sealed { table, column, .. } = of;
    let sql = format!("SELECT count(*) AS count FROM {table} WHERE substr({column}, 1, 8) <> $1");
    Ok(db.query_one(&sql, &[&&keys.sealing_id()[..]]).await?.try_get("count")?)
}

/// Counts the secrets of a column that none of these keys opens.
///
/// Tries one secret of each key that was used for sealing, as a sample for all secrets of that key.
pub async fn count_unreadable(db: &impl GenericClient, of: Sealed, keys: &MasterKeys) -> Result<i64, StoreError> {
    let Sealed { table, column, key, context } = of;
    let sql = format!(
        "SELECT DISTINCT ON (substr({column}, 1, 8)) project_id, {key} AS key, {column} AS sealed, \
         count(*) OVER (PARTITION BY substr({column}, 1, 8)) AS count FROM {table} WHERE {column} IS NOT NULL"
    );
    let mut unreadable = 0;
    for row in &db.query(&sql, &[]).await? {
        let (project, key): RowPosition = (row.try_get("project_id")?, row.try_get("key")?);
        if keys.open(project, &context(&key), row.try_get("sealed")?).is_err() {
            unreadable += row.try_get::<_, i64>("count")?;
        }
    }
    Ok(unreadable)
}

/// Reseals up to `max` of a column's secrets that are sealed under another key.
///
/// Concurrent readers see the old or the new form; concurrent writers wait for the end of the transaction.
pub async fn reseal(
    tx: &Transaction<'_>,
    of: Sealed,
    keys: &MasterKeys,
    (project, key): &RowPosition,
    max: i64,
) -> Result<ResealStep, StoreError> {
    let Sealed { table, column, key: expression, context } = of;
    let next = format!(
        "SELECT project_id, {expression} AS key FROM {table} WHERE substr({column}, 1, 8) <> $1 \
         AND (project_id, {expression}) > ($2, $3::text) ORDER BY 1, 2 LIMIT $4"
    );
    let sealing = keys.sealing_id();
    let rows = tx.query(&next, &[&&sealing[..], project, key, &max]).await?;
    // Locked one by one and in order, because Citus locks rows of one project only. Rows that were resealed meanwhile
    // are skipped.
    let lock = format!(
        "SELECT {column} AS sealed FROM {table} WHERE project_id = $1 AND {expression} = $2::text \
         AND substr({column}, 1, 8) <> $3 FOR UPDATE"
    );
    let lock = tx.prepare_cached(&lock).await?;
    let write = format!("UPDATE {table} SET {column} = $3 WHERE project_id = $1 AND {expression} = $2::text");
    let write = tx.prepare_cached(&write).await?;
    let mut step = ResealStep::default();
    for row in &rows {
        let at: RowPosition = (row.try_get("project_id")?, row.try_get("key")?);
        if let Some(held) = tx.query_opt(&lock, &[&at.0, &at.1, &&sealing[..]]).await? {
            match keys.reseal(at.0, &context(&at.1), held.try_get("sealed")?) {
                Ok(resealed) => {
                    tx.execute(&write, &[&at.0, &at.1, &resealed]).await?;
                    step.resealed += 1;
                }
                Err(_) => step.unreadable.push(at.clone()),
            }
        }
        step.next = Some(at);
    }
    if i64::try_from(rows.len()).unwrap_or(i64::MAX) < max {
        step.next = None;
    }
    Ok(step)
}
