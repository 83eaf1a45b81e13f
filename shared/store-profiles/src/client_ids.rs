//! IDs chosen by clients, and the event or resource that each of them identifies.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use database::{StoreError, by_project};
use kernel::ids::ProjectId;

/// Derives the ID under which an idempotency key is stored. Each kind of resource has its own namespace, separate from
/// the events'.
pub fn resource_key(project: ProjectId, resource: &str, idempotency_key: &str) -> Uuid {
    Uuid::new_v5(&project.0, format!("{resource}:{idempotency_key}").as_bytes())
}

/// Claims a key and returns `fresh`; if the key is already in use, returns the ID of its first use.
pub async fn claim_or_get(
    db: &impl GenericClient,
    project: ProjectId,
    key: Uuid,
    fresh: Uuid,
    now: Timestamp,
) -> Result<Uuid, StoreError> {
    let insert = "INSERT INTO client_id (project_id, id, event_id, created_at) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (project_id, id) DO NOTHING";
    if db.execute(&db.prepare_cached(insert).await?, &[&project, &key, &fresh, &now]).await? == 1 {
        return Ok(fresh);
    }
    let sql = "SELECT event_id FROM client_id WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &key]).await?;
    let first = row.map(|row| row.try_get::<_, Option<Uuid>>("event_id")).transpose()?.flatten();
    // The row was removed between the two statements, so the key is free again.
    Ok(first.unwrap_or(fresh))
}

/// Pages of a table that one statement reads.
const PAGES_PER_RANGE: i64 = 2_000;

/// A range of pages of one partition of `client_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRange {
    table: String,
    /// None covers the whole partition: on Citus, its pages are on the worker nodes.
    first_page: Option<i64>,
}

/// Lists the page ranges of all partitions.
pub async fn page_ranges(db: &impl GenericClient) -> Result<Vec<PageRange>, StoreError> {
    let sql = "SELECT t.name, s.page FROM (SELECT inhrelid::regclass::text AS name, \
               pg_relation_size(inhrelid) / current_setting('block_size')::bigint AS pages FROM pg_inherits \
               WHERE inhparent = 'client_id'::regclass) t, generate_series(0, t.pages - 1, $1::bigint) AS s(page) ORDER BY 1, 2";
    let whole = "SELECT inhrelid::regclass::text AS name, NULL::bigint AS page FROM pg_inherits \
                 WHERE inhparent = 'client_id'::regclass ORDER BY 1";
    let rows = if by_project::is_distributed() {
        db.query(whole, &[]).await?
    } else {
        db.query(sql, &[&PAGES_PER_RANGE]).await?
    };
    rows.iter().map(|row| Ok(PageRange { table: row.try_get("name")?, first_page: row.try_get("page")? })).collect()
}

/// Removes the IDs in a range that were created before `before`; returns how many.
///
/// Retention removes the IDs of events together with the events; this removes the others. It scans pages, because rows
/// are stored in the order of their creation, and an index by age would cost every event that has a client ID.
///
/// IDs from [`lasting_update_id`](kernel::ids::lasting_update_id) (UUID version 8) are kept, here and where events are
/// removed.
pub async fn forget(db: &impl GenericClient, range: &PageRange, before: Timestamp) -> Result<u64, StoreError> {
    let PageRange { table, first_page } = range;
    let pages = |first: i64| format!("ctid >= '({first},0)' AND ctid < '({},0)' AND ", first + PAGES_PER_RANGE);
    let pages = first_page.map(pages).unwrap_or_default();
    let sql = format!("DELETE FROM {table} WHERE {pages}created_at < $1 AND substr(id::text, 15, 1) <> '8'");
    Ok(db.execute(&sql, &[&before]).await?)
}
