//! Removes events that are older than their project's retention. Removed events no longer count, and the client IDs
//! under which they were sent can be used again.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use super::counters::{self, QuarterHourCount};
use database::StoreError;
use database::months::Month;
use kernel::clock::from_ms;
use kernel::ids::{self, ProjectId};

/// Rows removed at a time; the statement of [`remove_slice`] repeats the number.
pub const SLICE: i64 = 5_000;
/// Key of the advisory lock of retention: "rkretai" in ASCII.
const LOCK: i64 = 0x72_6b72_6574_6169;
const QUARTER_MS: i64 = 900_000;
const HOUR_MS: i64 = 3_600_000;

/// Acquires the retention lock for this connection, until [`end`]; returns false if another connection holds it.
pub async fn begin(db: &impl GenericClient) -> Result<bool, StoreError> {
    Ok(db.query_one("SELECT pg_try_advisory_lock($1) AS is_locked", &[&LOCK]).await?.try_get("is_locked")?)
}

pub async fn end(db: &impl GenericClient) -> Result<(), StoreError> {
    db.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    Ok(())
}

/// Removes up to [`SLICE`] of a project's oldest events in a month that are older than `before`; returns how many.
pub async fn remove_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    before: Timestamp,
) -> Result<i64, StoreError> {
    let (before, within) = (ids::lower_bound(before.as_millisecond()), month.condition("id"));
    let sql =
        format!("SELECT id FROM events WHERE project_id = $1 AND id < $2 AND {within} ORDER BY id OFFSET 5000 LIMIT 1");
    let row = tx.query_opt(&month.prepare(tx, &sql).await?, &[&project, &before]).await?;
    let end: Uuid = row.map(|row| row.try_get("id")).transpose()?.unwrap_or(before);
    let sql = format!(
        "DELETE FROM events WHERE project_id = $1 AND id < $2 AND {within} RETURNING received_at, name, client_id"
    );
    let removed = tx.query(&month.prepare(tx, &sql).await?, &[&project, &end]).await?;
    let mut counts: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    let mut client_ids: Vec<Uuid> = Vec::new();
    for row in &removed {
        let received: Timestamp = row.try_get("received_at")?;
        *counts.entry((received.as_millisecond().div_euclid(QUARTER_MS), row.try_get("name")?)).or_default() += 1;
        client_ids.extend(row.try_get::<_, Option<Uuid>>("client_id")?.filter(|id| !ids::is_lasting(*id)));
    }
    // By ID instead of a join, whose plan might read all client IDs.
    let sql = "DELETE FROM client_id WHERE project_id = $1 AND id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &client_ids]).await?;
    let counted = |((quarter, name), count): ((i64, &str), i64)| QuarterHourCount {
        from: from_ms(quarter * QUARTER_MS),
        name: name.to_owned(),
        count,
    };
    counters::subtract(tx, project, &counts.into_iter().map(counted).collect::<Vec<_>>()).await?;
    Ok(removed.len() as i64)
}

/// Subtracts the events of a detached partition, which is about to be dropped, from the counters of these projects.
/// Client IDs are removed separately, by their own age.
///
/// Reads hour by hour, with a statement timeout of 10 minutes: an hour of a busy project may take long, and nothing
/// waits for it.
pub async fn subtract_counts(
    tx: &Transaction<'_>,
    table: &str,
    projects: &HashSet<ProjectId>,
) -> Result<(), StoreError> {
    tx.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let next = format!(
        "SELECT project_id, id FROM {table} WHERE (project_id, id) >= ($1, $2) ORDER BY project_id, id LIMIT 1"
    );
    let of_hour = format!(
        "SELECT date_bin('15 minutes', received_at, 'epoch') AS quarter, name, count(*) AS total FROM {table} \
         WHERE project_id = $1 AND id >= $2 AND id < $3 GROUP BY 1, 2"
    );
    let (next, of_hour) = (tx.prepare(&next).await?, tx.prepare(&of_hour).await?);
    let mut from = (Uuid::nil(), Uuid::nil());
    while let Some(row) = tx.query_opt(&next, &[&from.0, &from.1]).await? {
        let (project, id): (ProjectId, Uuid) = (row.try_get("project_id")?, row.try_get("id")?);
        if !projects.contains(&project) {
            from = (project.0, Uuid::max());
            continue;
        }
        let hour = ids::time_ms(id).div_euclid(HOUR_MS);
        let end = ids::lower_bound((hour + 1) * HOUR_MS);
        let rows = tx.query(&of_hour, &[&project, &id, &end]).await?;
        let counts: Vec<QuarterHourCount> = rows.iter().map(QuarterHourCount::of).collect::<Result<_, _>>()?;
        counters::subtract(tx, project, &counts).await?;
        from = (project.0, end);
    }
    Ok(())
}
