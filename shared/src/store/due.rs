//! Whose rows fall due, whatever they are.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::ids::ProjectId;
use crate::store::StoreError;

/// How many due rows one look for projects reads, from either end.
const LOOK: i64 = 5_000;

/// A table of which rows fall due, by the column that says when; an index begins with that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub table: &'static str,
    pub at: &'static str,
}

/// Since when the oldest row has been due, or when the next one falls due.
pub(super) async fn oldest(db: &impl GenericClient, Due { table, at }: Due) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!("SELECT {at} FROM {table} WHERE {at} IS NOT NULL ORDER BY {at} LIMIT 1");
    let row = db.query_opt(&db.prepare_cached(&sql).await?, &[]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// At most `most` projects with due rows, the longest due first: each look serves those who have waited longest. No locks: a
/// distributed store refuses them here.
///
/// It reads the rows that have been due for longest and those that fell due last, and no more, however many there are: so a
/// project with a million of them neither makes this slow nor hides the others.
pub(super) async fn projects(
    db: &impl GenericClient,
    Due { table, at }: Due,
    now: Timestamp,
    most: i64,
) -> Result<Vec<ProjectId>, StoreError> {
    let sql = format!(
        "SELECT project_id FROM (\
         (SELECT project_id, {at} AS at FROM {table} WHERE {at} <= $1 ORDER BY {at} LIMIT $2) UNION ALL \
         (SELECT project_id, {at} AS at FROM {table} WHERE {at} <= $1 ORDER BY {at} DESC LIMIT $2)) AS due \
         GROUP BY project_id ORDER BY min(at), project_id LIMIT $3"
    );
    let rows = db.query(&db.prepare_cached(&sql).await?, &[&now, &LOOK, &most]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Rows that have been due since before a time, counted up to `most`.
pub(super) async fn overdue(
    db: &impl GenericClient,
    Due { table, at }: Due,
    before: Timestamp,
    most: i64,
) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) FROM (SELECT FROM {table} WHERE {at} < $1 LIMIT $2) AS found");
    Ok(db.query_one(&sql, &[&before, &most]).await?.try_get(0)?)
}
