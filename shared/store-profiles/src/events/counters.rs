//! Exact event counts by name and day, in the project's timezone.
//!
//! A recording transaction of thousands of events changes about as many counts, and updating a row for each would cost
//! more than recording the events. The transaction therefore inserts one row of deltas for each project and day
//! (`event_count_new`) and waits for no row lock; [`fold`] adds these rows to the sums (`event_count_sum`) later. The
//! view `event_count` combines both. It is exact at any time, because `fold` removes and adds in one statement.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use jiff::civil::Date;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;
use store_projects::projects;

/// Event counts by name.
pub type NameCounts<'a> = BTreeMap<&'a str, i64>;

/// Adds deltas to the counts, under an ID that is unique to the transaction.
pub async fn add(
    tx: &Transaction<'_>,
    transaction: Uuid,
    counts: &BTreeMap<(ProjectId, Date), NameCounts<'_>>,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = counts.keys().map(|(p, _)| *p).collect();
    let days: Vec<Date> = counts.keys().map(|(_, d)| *d).collect();
    let json = |names: &NameCounts<'_>| serde_json::to_string(names).map_err(|e| StoreError::Corrupt(e.to_string()));
    let counted = counts.values().map(json).collect::<Result<Vec<String>, _>>()?;
    let sql = "INSERT INTO event_count_new (project_id, id, day, counts) \
               SELECT p, $1, d, c::jsonb FROM unnest($2::uuid[], $3::date[], $4::text[]) AS v(p, d, c)";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&transaction, &projects, &days, &counted]).await?;
    Ok(())
}

/// Returns the exact number of events, for all names or only the given ones.
pub async fn total(db: &impl GenericClient, project: ProjectId, names: Option<&[String]>) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(count), 0)::bigint AS total FROM event_count WHERE project_id = $1 \
               AND ($2::text[] IS NULL OR name = ANY($2))";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &names]).await?.try_get("total")?)
}

/// Returns the event counts from `first` to `last`, both inclusive. Days without events are missing.
///
/// After a change of the timezone, removing older events can make the count of a day negative; it is returned as 0.
pub async fn by_day(
    db: &impl GenericClient,
    project: ProjectId,
    first: Date,
    last: Date,
) -> Result<Vec<(Date, i64)>, StoreError> {
    let sql = "SELECT day, greatest(sum(count), 0)::bigint AS total FROM event_count WHERE project_id = $1 \
               AND day BETWEEN $2 AND $3 GROUP BY day";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &first, &last]).await?;
    rows.iter().map(|row| Ok((row.try_get("day")?, row.try_get("total")?))).collect()
}

/// Returns the most frequent event names between two days, most frequent first.
pub async fn most_frequent(
    db: &impl GenericClient,
    project: ProjectId,
    first: Date,
    last: Date,
    limit: i64,
) -> Result<Vec<(String, i64)>, StoreError> {
    let sql = "SELECT name, sum(count)::bigint AS total FROM event_count WHERE project_id = $1 \
               AND day BETWEEN $2 AND $3 GROUP BY name HAVING sum(count) > 0 ORDER BY 2 DESC, name LIMIT $4";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &first, &last, &limit]).await?;
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("total")?))).collect()
}

/// Adds a project's deltas to its sums; returns the number of delta rows.
///
/// One statement, so that a reader sees each delta once. Sums that reach zero are removed: an event name may be
/// personal data, and its last event may have belonged to an erased user.
pub async fn fold(db: &impl GenericClient, project: ProjectId) -> Result<u64, StoreError> {
    let sql = "WITH gone AS (DELETE FROM event_count_new WHERE project_id = $1 RETURNING day, counts), \
               added AS (SELECT g.day, c.key AS name, sum(c.value::bigint)::bigint AS count FROM gone g, jsonb_each_text(g.counts) c GROUP BY 1, 2), \
               put AS (INSERT INTO event_count_sum (project_id, day, name, count) SELECT $1, day, name, count FROM added ORDER BY day, name \
               ON CONFLICT (project_id, day, name) DO UPDATE SET count = event_count_sum.count + excluded.count) \
               SELECT (SELECT count(*) FROM gone) AS folded, array_agg(day) AS days, array_agg(name) AS names \
               FROM added WHERE count <= 0";
    let row = db.query_one(&db.prepare_cached(sql).await?, &[&project]).await?;
    let (rows, days, names): (i64, Option<Vec<Date>>, Option<Vec<String>>) =
        (row.try_get("folded")?, row.try_get("days")?, row.try_get("names")?);
    if let (Some(days), Some(names)) = (days, names) {
        let sql = "DELETE FROM event_count_sum s USING unnest($2::date[], $3::text[]) AS v(d, n) \
                   WHERE s.project_id = $1 AND s.day = v.d AND s.name = v.n AND s.count = 0";
        db.execute(&db.prepare_cached(sql).await?, &[&project, &days, &names]).await?;
    }
    Ok(rows as u64)
}

/// Removes zero counts of days before `before`; returns how many.
pub async fn forget_empty(db: &impl GenericClient, project: ProjectId, before: Date) -> Result<u64, StoreError> {
    let sql = "DELETE FROM event_count_sum WHERE project_id = $1 AND day < $2 AND count = 0";
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &before]).await?)
}

/// Returns the projects that have deltas to fold.
pub async fn projects_to_fold(db: &impl GenericClient) -> Result<Vec<ProjectId>, StoreError> {
    let rows = db.query("SELECT DISTINCT project_id FROM event_count_new", &[]).await?;
    rows.iter().map(|r| Ok(r.try_get("project_id")?)).collect()
}

/// Number of events of one name received within 15 minutes. Timezone offsets are multiples of 15 minutes, so the period is
/// within one day everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarterHourCount {
    pub from: Timestamp,
    pub name: String,
    pub count: i64,
}

impl QuarterHourCount {
    /// Reads the columns `quarter`, `name` and `total`.
    pub fn of(row: &Row) -> Result<Self, StoreError> {
        Ok(Self { from: row.try_get("quarter")?, name: row.try_get("name")?, count: row.try_get("total")? })
    }
}

/// Subtracts events from the counts, using the days of the project's current timezone.
pub async fn subtract(tx: &Transaction<'_>, project: ProjectId, events: &[QuarterHourCount]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let zone = projects::timezone(tx, project).await?;
    let mut counts: BTreeMap<(ProjectId, Date), NameCounts<'_>> = BTreeMap::new();
    for QuarterHourCount { from, name, count } in events {
        let day = from.to_zoned(zone.clone()).date();
        *counts.entry((project, day)).or_default().entry(name).or_default() -= count;
    }
    add(tx, Uuid::from_u128(rand::random()), &counts).await
}
