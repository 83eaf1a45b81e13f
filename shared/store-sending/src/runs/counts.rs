//! Counts what happened at each step of an automation.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

/// Key of a count: a version of an automation, a step (`''`: the run as a whole), what it did, and the arm (`''`:
/// none).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountKey {
    pub project: ProjectId,
    pub automation: Uuid,
    pub version: i32,
    pub step: String,
    pub did: &'static str,
    pub arm: String,
}

/// Adds to the counts. `lane` keeps concurrent recorders from updating the same rows.
pub async fn add(tx: &Transaction<'_>, lane: i16, counts: &BTreeMap<CountKey, i64>) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(counts: &'a BTreeMap<CountKey, i64>, of: impl Fn(&'a CountKey) -> T) -> Vec<T> {
        counts.keys().map(of).collect()
    }
    let sql = "INSERT INTO automation_count (project_id, automation_id, version, step, did, arm, lane, count) \
               SELECT p, a, v, s, d, arm, $7, c FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $8::bigint[]) \
               AS new (p, a, v, s, d, arm, c) ON CONFLICT (project_id, automation_id, version, step, did, arm, lane) \
               DO UPDATE SET count = automation_count.count + excluded.count";
    let values: Vec<i64> = counts.values().copied().collect();
    tx.execute(
        &tx.prepare_cached(sql).await?,
        &[
            &column(counts, |c| c.project),
            &column(counts, |c| c.automation),
            &column(counts, |c| c.version),
            &column(counts, |c| c.step.as_str()),
            &column(counts, |c| c.did),
            &column(counts, |c| c.arm.as_str()),
            &lane,
            &values,
        ],
    )
    .await?;
    Ok(())
}

/// One count of an automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub version: i32,
    pub step: String,
    pub did: String,
    pub arm: String,
    pub count: i64,
}

/// Returns all counts of an automation.
pub async fn all(db: &impl GenericClient, project: ProjectId, automation: Uuid) -> Result<Vec<Count>, StoreError> {
    let sql = "SELECT version, step, did, arm, sum(count)::bigint AS total FROM automation_count \
               WHERE project_id = $1 AND automation_id = $2 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &automation]).await?;
    let count = |row: &tokio_postgres::Row| {
        Ok(Count {
            version: row.try_get("version")?,
            step: row.try_get("step")?,
            did: row.try_get("did")?,
            arm: row.try_get("arm")?,
            count: row.try_get("total")?,
        })
    };
    rows.iter().map(count).collect()
}

/// Runs in progress of an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveRuns {
    pub runs: i64,
    /// How many of them are frozen because it is inactive.
    pub frozen: i64,
}

pub async fn under_way(
    db: &impl GenericClient,
    project: ProjectId,
    automation: Uuid,
) -> Result<ActiveRuns, StoreError> {
    let sql = "SELECT \
               (SELECT count(*) FROM run WHERE project_id = $1 AND automation_id = $2 AND ended_at IS NULL) \
               AS under_way, \
               (SELECT count(*) FROM run WHERE project_id = $1 AND automation_id = $2 AND status = 'frozen') AS frozen";
    let row = db.query_one(&db.prepare_cached(sql).await?, &[&project, &automation]).await?;
    Ok(ActiveRuns { runs: row.try_get("under_way")?, frozen: row.try_get("frozen")? })
}
