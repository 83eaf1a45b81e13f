//! Finds the projects that have due rows in a table.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::StoreError;
use kernel::ids::ProjectId;

/// The number of oldest due rows that one poll reads before it probes each project.
const WINDOW: i64 = 5_000;

/// A table with due rows, and the column with their due time. It needs an index that starts with that column, and one
/// on `(project_id, column)`.
#[derive(Clone, Copy, Debug)]
pub struct DueColumn {
    pub table: &'static str,
    pub column: &'static str,
}

/// Returns the earliest due time in the table, past or future.
pub async fn oldest(
    db: &impl GenericClient,
    DueColumn { table, column }: DueColumn,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!("SELECT {column} AS at FROM {table} WHERE {column} IS NOT NULL ORDER BY {column} LIMIT 1");
    let row = db.query_opt(&db.prepare_cached(&sql).await?, &[]).await?;
    Ok(row.map(|row| row.try_get("at")).transpose()?)
}

/// Returns up to `max` projects with due rows, the project with the oldest due row first. Takes no locks: Citus
/// refuses locks across projects.
pub async fn projects(
    db: &impl GenericClient,
    due: DueColumn,
    now: Timestamp,
    max: i64,
) -> Result<Vec<ProjectId>, StoreError> {
    let mut found: Vec<(Timestamp, ProjectId)> =
        oldest_by_project(db, due, now, max).await?.into_iter().map(|(project, at)| (at, project)).collect();
    found.sort_unstable();
    found.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(_, project)| project).collect())
}

/// Returns at least the `max` projects with the oldest due rows, and the due time of each one's oldest row.
///
/// Reads the [`WINDOW`] oldest due rows. If there are more, it also probes the index once for each project, so that one
/// project's backlog hides no other project. A poll with little due reads only the due rows, however many projects
/// exist.
async fn oldest_by_project(
    db: &impl GenericClient,
    due: DueColumn,
    now: Timestamp,
    max: i64,
) -> Result<BTreeMap<ProjectId, Timestamp>, StoreError> {
    let DueColumn { table, column } = due;
    let sql = format!(
        "SELECT project_id, min(at) AS at, count(*) AS count FROM (SELECT project_id, {column} AS at FROM {table} \
         WHERE {column} <= $1 ORDER BY {column} LIMIT $2) AS due GROUP BY project_id"
    );
    let (mut oldest, mut read) = (BTreeMap::new(), 0);
    for row in db.query(&db.prepare_cached(&sql).await?, &[&now, &WINDOW]).await? {
        let (project, at, count): (ProjectId, Timestamp, i64) =
            (row.try_get("project_id")?, row.try_get("at")?, row.try_get("count")?);
        oldest.insert(project, at);
        read += count;
    }
    if read >= WINDOW {
        // The rows read above include those of deleted projects, which have no row in `project`.
        oldest.extend(probe_each(db, due, now, max).await?);
    }
    Ok(oldest)
}

/// Returns up to `max` projects with due rows and the due time of each one's oldest row.
async fn probe_each(
    db: &impl GenericClient,
    DueColumn { table, column }: DueColumn,
    now: Timestamp,
    max: i64,
) -> Result<Vec<(ProjectId, Timestamp)>, StoreError> {
    let sql = format!(
        "SELECT p.project_id, due.at FROM project p CROSS JOIN LATERAL (SELECT d.{column} AS at FROM {table} d \
         WHERE d.project_id = p.project_id AND d.{column} <= $1 ORDER BY d.{column} LIMIT 1) AS due \
         ORDER BY due.at LIMIT $2"
    );
    let rows = db.query(&db.prepare_cached(&sql).await?, &[&now, &max]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("at")?))).collect()
}

/// Counts up to `max` rows with a due time earlier than `before`.
pub async fn overdue(
    db: &impl GenericClient,
    DueColumn { table, column }: DueColumn,
    before: Timestamp,
    max: i64,
) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) AS count FROM (SELECT FROM {table} WHERE {column} < $1 LIMIT $2) AS found");
    Ok(db.query_one(&sql, &[&before, &max]).await?.try_get("count")?)
}
