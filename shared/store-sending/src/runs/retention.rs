//! Removes runs that are past their project's retention.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::{self, ProjectId};

/// Maximum number of runs processed by one transaction.
pub const SLICE: i64 = 5_000;

/// Removes up to [`SLICE`] runs of a project that ended before a time and have IDs after `after`, with their listeners.
/// Returns the last ID, or `None` if there are no more.
///
/// If a user may enter the automation only once, the run's row prevents re-entry. It stays, without the data of the
/// trigger and the steps.
pub async fn remove_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    after: Uuid,
    before: Timestamp,
) -> Result<Option<Uuid>, StoreError> {
    let once =
        "SELECT id FROM automation WHERE project_id = $1 AND deleted_at IS NULL AND definition ->> 'reentry' = 'once'";
    let rows = tx.query(&tx.prepare_cached(once).await?, &[&project]).await?;
    let once: Vec<Uuid> = rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?;

    // A run starts at the time in its ID, and ends later.
    let sql = "SELECT id, user_id, automation_id = ANY($4) AS once FROM run WHERE project_id = $1 AND id > $2 \
               AND id < $3 AND ended_at < $5 ORDER BY id LIMIT $6";
    let bound = ids::lower_bound(before.as_millisecond());
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &after, &bound, &once, &before, &SLICE]).await?;
    let (mut gone, mut users, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let (id, user): (Uuid, Uuid) = (row.try_get("id")?, row.try_get("user_id")?);
        if row.try_get("once")? {
            emptied.push(id);
        } else {
            gone.push(id);
            users.push(user);
        }
    }
    let sql = "DELETE FROM run_listener l USING unnest($2::uuid[], $3::uuid[]) AS g (run, person) \
               WHERE l.project_id = $1 AND l.user_id = g.person AND l.run_id = g.run";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &gone, &users]).await?;
    let sql = "DELETE FROM run WHERE project_id = $1 AND id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &gone]).await?;
    let sql = "UPDATE run SET context = '{}', memory = '{}', trail = '[]', reason = NULL, trace = NULL \
               WHERE project_id = $1 AND id = ANY($2) AND context <> '{}'";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &emptied]).await?;
    Ok(rows.last().map(|row| row.try_get("id")).transpose()?)
}
