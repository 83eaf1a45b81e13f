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
pub struct Due {
    pub table: &'static str,
    pub at: &'static str,
}

/// Returns the earliest due time in the table, past or future.
pub async fn oldest(db: &impl GenericClient, Due { table, at }: Due) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!("SELECT {at} AS at FROM {table} WHERE {at} IS NOT NULL ORDER BY {at} LIMIT 1");
    let row = db.query_opt(&db.prepare_cached(&sql).await?, &[]).await?;
    Ok(row.map(|row| row.try_get("at")).transpose()?)
}

/// Returns up to `most` projects with due rows, the project with the oldest due row first. Takes no locks: Citus
/// refuses locks across projects.
pub async fn projects(
    db: &impl GenericClient,
    due: Due,
    now: Timestamp,
    most: i64,
) -> Result<Vec<ProjectId>, StoreError> {
    let mut found: Vec<(Timestamp, ProjectId)> =
        oldest_by_project(db, due, now, most).await?.into_iter().map(|(project, at)| (at, project)).collect();
    found.sort_unstable();
    found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(_, project)| project).collect())
}

/// Returns at least the `most` projects with the oldest due rows, and the due time of each one's oldest row.
///
/// Reads the [`WINDOW`] oldest due rows. If there are more, it also probes the index once for each project, so that one
/// project's backlog hides no other project. A poll with little due reads only the due rows, however many projects
/// exist.
async fn oldest_by_project(
    db: &impl GenericClient,
    due: Due,
    now: Timestamp,
    most: i64,
) -> Result<BTreeMap<ProjectId, Timestamp>, StoreError> {
    let Due { table, at } = due;
    let sql = format!(
        "SELECT project_id, min(at) AS at, count(*) AS count FROM (SELECT project_id, {at} AS at FROM {table} \
         WHERE {at} <= $1 ORDER BY {at} LIMIT $2) AS due GROUP BY project_id"
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
        oldest.extend(probe_each(db, due, now, most).await?);
    }
    Ok(oldest)
}

/// Returns up to `most` projects with due rows and the due time of each one's oldest row.
async fn probe_each(
    db: &impl GenericClient,
    Due { table, at }: Due,
    now: Timestamp,
    most: i64,
) -> Result<Vec<(ProjectId, Timestamp)>, StoreError> {
    let sql = format!(
        "SELECT p.project_id, due.at FROM project p CROSS JOIN LATERAL (SELECT d.{at} AS at FROM {table} d \
         WHERE d.project_id = p.project_id AND d.{at} <= $1 ORDER BY d.{at} LIMIT 1) AS due \
         ORDER BY due.at LIMIT $2"
    );
    let rows = db.query(&db.prepare_cached(&sql).await?, &[&now, &most]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("at")?))).collect()
}

/// Counts up to `most` rows with a due time earlier than `before`.
pub async fn overdue(
    db: &impl GenericClient,
    Due { table, at }: Due,
    before: Timestamp,
    most: i64,
) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) AS count FROM (SELECT FROM {table} WHERE {at} < $1 LIMIT $2) AS found");
    Ok(db.query_one(&sql, &[&before, &most]).await?.try_get("count")?)
}
