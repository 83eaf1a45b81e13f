//! Removes single events.

use deadpool_postgres::Transaction;
use uuid::Uuid;

use super::counters::{self, QuarterHourCount};
use database::StoreError;
use database::months::Month;
use kernel::ids::ProjectId;

/// Removes an event by its row ID and subtracts it from the counters; returns false if it does not exist.
///
/// The ID under which it was sent can be used again, unless it is a lasting one.
pub async fn remove(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<bool, StoreError> {
    let month = Month::of(id);
    let within = month.condition("id");
    let sql = format!(
        "WITH gone AS (DELETE FROM events WHERE project_id = $1 AND id = $2 AND {within} \
         RETURNING client_id, name, received_at), names AS (DELETE FROM client_id USING gone g WHERE project_id = $1 \
         AND id = g.client_id AND substr(id::text, 15, 1) <> '8') SELECT received_at, name FROM gone"
    );
    let Some(row) = tx.query_opt(&month.prepare(tx, &sql).await?, &[&project, &id]).await? else { return Ok(false) };
    let removed = QuarterHourCount { from: row.try_get("received_at")?, name: row.try_get("name")?, count: 1 };
    counters::subtract(tx, project, &[removed]).await?;
    Ok(true)
}
