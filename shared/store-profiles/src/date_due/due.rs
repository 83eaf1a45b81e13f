//! Due dates, to be published to the broker.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use database::due::{self, DueColumn};
use kernel::ids::ProjectId;

/// A due date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateDue {
    pub automation: Uuid,
    pub user_id: Uuid,
    /// Partition of the ingest stream.
    pub partition: i16,
    pub due_at: Timestamp,
}

/// Returns up to `max` projects with due dates, the project with the oldest due date first.
pub async fn projects(db: &impl GenericClient, now: Timestamp, max: i64) -> Result<Vec<ProjectId>, StoreError> {
    due::projects(db, DueColumn { table: "date_due", column: "look_at" }, now, max).await
}

/// Claims up to `max` of a project's due dates, earliest first.
///
/// They become due again at `retry_at`, in case the publish fails or the scheduler dies.
pub async fn claim(
    db: &impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    retry_at: Timestamp,
    max: i64,
) -> Result<Vec<DateDue>, StoreError> {
    let sql = "WITH due AS (SELECT automation_id, user_id FROM date_due WHERE project_id = $1 AND look_at <= $2 \
               ORDER BY look_at LIMIT $4 FOR UPDATE SKIP LOCKED) \
               UPDATE date_due d SET look_at = $3 FROM due \
               WHERE d.project_id = $1 AND d.automation_id = due.automation_id AND d.user_id = due.user_id \
               RETURNING d.automation_id, d.user_id, d.partition, d.due_at";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &now, &retry_at, &max]).await?;
    let mut taken = Vec::with_capacity(rows.len());
    for row in rows {
        taken.push(DateDue {
            automation: row.try_get("automation_id")?,
            user_id: row.try_get("user_id")?,
            partition: row.try_get("partition")?,
            due_at: row.try_get("due_at")?,
        });
    }
    taken.sort_unstable_by_key(|date| (date.due_at, date.automation, date.user_id));
    Ok(taken)
}

/// Removes dates that the broker has acknowledged.
///
/// Keeps a row whose date has changed since the claim, and skips a row that is locked: that date is published again and
/// recognised as a duplicate.
pub async fn delete(db: &impl GenericClient, project: ProjectId, published: &[DateDue]) -> Result<(), StoreError> {
    let automations: Vec<Uuid> = published.iter().map(|d| d.automation).collect();
    let users: Vec<Uuid> = published.iter().map(|d| d.user_id).collect();
    let due: Vec<Timestamp> = published.iter().map(|d| d.due_at).collect();
    let sql = "WITH gone AS (SELECT d.automation_id, d.user_id FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[]) AS v(a, u, due) \
               JOIN date_due d ON d.automation_id = v.a AND d.user_id = v.u AND d.due_at = v.due \
               WHERE d.project_id = $1 FOR UPDATE OF d SKIP LOCKED) \
               DELETE FROM date_due d USING gone g WHERE d.project_id = $1 AND d.automation_id = g.automation_id AND d.user_id = g.user_id";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &automations, &users, &due]).await?;
    Ok(())
}
