//! Ids that clients chose, and what each of them came to stand for.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use database::{StoreError, by_project};
use kernel::ids::ProjectId;

/// The id by which an idempotency key is kept: each kind of resource has a name space of its own beside the events'.
pub fn resource_key(project: ProjectId, resource: &str, idempotency_key: &str) -> Uuid {
    Uuid::new_v5(&project.0, format!("{resource}:{idempotency_key}").as_bytes())
}

/// What a key stands for: `fresh` if it is new, or else the id of its first use.
pub async fn first_of(
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
    // Removed between the two statements: then it may count anew.
    Ok(first.unwrap_or(fresh))
}

/// Pages of a table that are looked at in one statement.
const PAGES: i64 = 2_000;

/// A stretch of one of the tables that the ids lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    table: String,
    /// None: all of the table. Where it is distributed, its pages lie elsewhere.
    first_page: Option<i64>,
}

/// All stretches that there are now.
pub async fn stretches(db: &impl GenericClient) -> Result<Vec<Stretch>, StoreError> {
    let sql = "SELECT t.name, s.page FROM (SELECT inhrelid::regclass::text AS name, \
               pg_relation_size(inhrelid) / current_setting('block_size')::bigint AS pages FROM pg_inherits \
               WHERE inhparent = 'client_id'::regclass) t, generate_series(0, t.pages - 1, $1::bigint) AS s(page) ORDER BY 1, 2";
    let whole = "SELECT inhrelid::regclass::text AS name, NULL::bigint AS page FROM pg_inherits \
                 WHERE inhparent = 'client_id'::regclass ORDER BY 1";
    let rows = if by_project::is_spread() { db.query(whole, &[]).await? } else { db.query(sql, &[&PAGES]).await? };
    rows.iter().map(|row| Ok(Stretch { table: row.try_get("name")?, first_page: row.try_get("page")? })).collect()
}

/// Forgets the ids of a stretch that were used before then. Those of events went with them; this is for the others. They lie
/// about in the order of their coming, so they are read as they lie: an index by age would cost every event that has one. Those
/// of [`lasting_update_id`](kernel::ids::lasting_update_id) stay, here and where events are removed: their version is 8.
pub async fn forget(db: &impl GenericClient, stretch: &Stretch, before: Timestamp) -> Result<u64, StoreError> {
    let Stretch { table, first_page } = stretch;
    let pages = |first: i64| format!("ctid >= '({first},0)' AND ctid < '({},0)' AND ", first + PAGES);
    let pages = first_page.map(pages).unwrap_or_default();
    let sql = format!("DELETE FROM {table} WHERE {pages}created_at < $1 AND substr(id::text, 15, 1) <> '8'");
    Ok(db.execute(&sql, &[&before]).await?)
}
