//! Lists of users, newest first.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::position::{FoundPage, ListPosition, counted_page, start_position};
use super::read::{User, from_row};
use super::search::Search;
use database::StoreError;
use database::filter::{ForcedPlan, PageStart, Total};
use kernel::ids::ProjectId;

/// Filter of a list of users.
#[derive(Clone, Debug, Default)]
pub struct UserFilter {
    /// Text in the email address, name or external ID, in lower case.
    pub search: Option<String>,
    /// Last seen at or after (true) or before (false) a time.
    pub seen_since: Option<(bool, Timestamp)>,
    /// Whether the search is known to match more users than totals count, so that counting can be skipped.
    pub is_many: bool,
}

/// Returns one page, optionally after a position, and the total, which is exact from the counters if no filter is set.
pub async fn list(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &UserFilter,
    start: &PageStart<ListPosition>,
    limit: i64,
) -> Result<(Vec<User>, Total), StoreError> {
    let found = match (&wanted.search, wanted.seen_since) {
        (Some(text), seen_since) => {
            Search { project, text, seen_since, is_many: wanted.is_many, start, limit }.run(db).await?
        }
        (None, Some(seen)) => seen_since(db, project, seen, start, limit).await?,
        (None, None) => {
            FoundPage { page: newest(db, project, None, start, limit).await?, total: total(db, project).await? }
        }
    };
    Ok((in_order(db, project, &found.page).await?, found.total))
}

async fn total(db: &impl GenericClient, project: ProjectId) -> Result<Total, StoreError> {
    let sql = "SELECT coalesce(sum(count), 0)::bigint AS total FROM user_count WHERE project_id = $1";
    let row = db.query_one(&db.prepare_cached(sql).await?, &[&project]).await?;
    Ok(Total::exact(row.try_get("total")?))
}

/// Returns the users at the positions of a page.
async fn in_order(db: &impl GenericClient, project: ProjectId, page: &[ListPosition]) -> Result<Vec<User>, StoreError> {
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = page.iter().map(|(_, id)| *id).collect();
    let sql = "SELECT id, external_id, anonymous_id, email, name, properties, created_at, last_seen_at, updated_at \
               FROM users WHERE project_id = $1 AND id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let users: Result<HashMap<Uuid, User>, StoreError> =
        rows.iter().map(|row| from_row(row).map(|u| (u.id, u))).collect();
    let mut users = users?;
    Ok(ids.iter().filter_map(|id| users.remove(id)).collect())
}

/// Returns the positions of matching users, newest first.
async fn newest(
    db: &mut impl GenericClient,
    project: ProjectId,
    seen: Option<(bool, Timestamp)>,
    start: &PageStart<ListPosition>,
    limit: i64,
) -> Result<Vec<ListPosition>, StoreError> {
    let sql = match seen {
        None => {
            "SELECT created_at, id FROM users WHERE project_id = $1 AND merged_into IS NULL \
             AND $2::timestamptz IS NULL AND (created_at, id) < ($3, $4) ORDER BY created_at DESC, id DESC OFFSET $5 \
             LIMIT $6"
        }
        Some((true, _)) => {
            "SELECT created_at, id FROM users WHERE project_id = $1 AND merged_into IS NULL AND last_seen_at >= $2 \
             AND (created_at, id) < ($3, $4) ORDER BY created_at DESC, id DESC OFFSET $5 LIMIT $6"
        }
        // No user was last seen before they were created.
        Some((false, _)) => {
            "SELECT created_at, id FROM users WHERE project_id = $1 AND merged_into IS NULL AND last_seen_at < $2 \
             AND created_at < $2 AND (created_at, id) < ($3, $4) ORDER BY created_at DESC, id DESC OFFSET $5 LIMIT $6"
        }
    };
    let ((at, id), offset, time) = (start_position(start), start.offset(), seen.map(|(_, time)| time));
    let params: [&(dyn ToSql + Sync); 6] = [&project, &time, &at, &id, &offset, &limit];
    let rows = if seen.is_none() {
        db.query(&db.prepare_cached(sql).await?, &params).await?
    } else {
        let tx = ForcedPlan::Ordered.begin(db).await?;
        let rows = tx.query(&tx.prepare_cached(sql).await?, &params).await?;
        tx.commit().await?;
        rows
    };
    rows.iter().map(|row| Ok((row.try_get("created_at")?, row.try_get("id")?))).collect()
}

/// Returns users last seen at or after, or before, a time.
///
/// Few matches are all read. If there are more than totals count, scanning from the newest user soon fills the page.
async fn seen_since(
    db: &mut impl GenericClient,
    project: ProjectId,
    (since, time): (bool, Timestamp),
    start: &PageStart<ListPosition>,
    limit: i64,
) -> Result<FoundPage, StoreError> {
    let sql = if since {
        "WITH f AS MATERIALIZED (SELECT created_at, id FROM users WHERE project_id = $1 AND merged_into IS NULL \
         AND seen_day >= $2 AND last_seen_at >= $3 LIMIT 10001) SELECT n.count, p.created_at, p.id FROM \
         (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) \
         ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true"
    } else {
        "WITH f AS MATERIALIZED (SELECT created_at, id FROM users WHERE project_id = $1 AND merged_into IS NULL \
         AND seen_day <= $2 AND last_seen_at < $3 LIMIT 10001) SELECT n.count, p.created_at, p.id FROM \
         (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) \
         ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true"
    };
    let day: Date = time.to_zoned(TimeZone::UTC).date();
    let ((at, id), offset) = (start_position(start), start.offset());
    let tx = ForcedPlan::Indexed.begin(db).await?;
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&project, &day, &time, &at, &id, &offset, &limit]).await?;
    tx.commit().await?;
    let found = counted_page(&rows)?;
    if !found.total.capped {
        return Ok(found);
    }
    Ok(FoundPage { page: newest(db, project, Some((since, time)), start, limit).await?, total: found.total })
}
