//! Reads all users of a project, newest first, one page at a time. No transaction is held between two pages, and a page
//! takes about the same time whether many users match or none.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::list::UserFilter;
pub use super::position::{FIRST_POSITION, ListPosition};
use super::read::{User, from_row};
use super::search;
use database::StoreError;
use database::filter::ForcedPlan;
use kernel::ids::ProjectId;

/// A page of the export.
#[derive(Debug)]
pub struct UserPage {
    pub users: Vec<User>,
    /// Position to continue after; none at the end.
    pub next: Option<ListPosition>,
}

/// Returns up to `limit` matching users after a position.
pub async fn page(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &UserFilter,
    after: ListPosition,
    limit: i64,
) -> Result<UserPage, StoreError> {
    let needle = match &wanted.search {
        Some(text) => match search::needle(text) {
            Some(needle) => Some(needle),
            None => return Ok(UserPage { users: Vec::new(), next: None }),
        },
        None => None,
    };
    let narrowed = needle.is_some() || wanted.seen_since.is_some();
    let tx = ForcedPlan::Ordered.begin(db).await?;
    let end = if narrowed { end(&tx, project, after, needle.is_some()).await? } else { None };
    let users = users(&tx, project, (&needle, wanted.seen_since), (after, end), limit).await?;
    tx.commit().await?;
    // A full page may end before the bound of the scan.
    let full = users.len() as i64 == limit;
    let next = if full { users.last().map(|user| (user.created_at, user.id)) } else { end };
    Ok(UserPage { users, next })
}

/// Returns the position of the 5,000th user, at which a filtered scan stops; none if fewer remain.
async fn end(
    tx: &Transaction<'_>,
    project: ProjectId,
    (at, id): ListPosition,
    searched: bool,
) -> Result<Option<ListPosition>, StoreError> {
    let sql = if searched {
        "SELECT created_at, id FROM user_search WHERE project_id = $1 AND (created_at, id) < ($2, $3) \
         ORDER BY created_at DESC, id DESC OFFSET 4999 LIMIT 1"
    } else {
        "SELECT created_at, id FROM users WHERE merged_into IS NULL AND project_id = $1 \
         AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC OFFSET 4999 LIMIT 1"
    };
    let row = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &at, &id]).await?;
    row.map_or(Ok(None), |row| Ok(Some((row.try_get("created_at")?, row.try_get("id")?))))
}

/// Returns matching users between two positions, including the second.
async fn users(
    tx: &Transaction<'_>,
    project: ProjectId,
    (needle, seen): (&Option<String>, Option<(bool, Timestamp)>),
    ((at, id), end): (ListPosition, Option<ListPosition>),
    limit: i64,
) -> Result<Vec<User>, StoreError> {
    let (end_at, end_id) = end.unwrap_or((Timestamp::UNIX_EPOCH, Uuid::nil()));
    // A search reads `user_search`, which is in the same order as `users`.
    let sql = match (needle, seen) {
        (None, None) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM users u WHERE u.project_id = $1 AND u.merged_into IS NULL \
             AND $2::text IS NULL AND $3::timestamptz IS NULL AND (u.created_at, u.id) < ($4, $5) \
             AND (u.created_at, u.id) >= ($6, $7) ORDER BY u.created_at DESC, u.id DESC LIMIT $8"
        }
        (None, Some((true, _))) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM users u WHERE u.project_id = $1 AND u.merged_into IS NULL \
             AND $2::text IS NULL AND u.last_seen_at >= $3 AND (u.created_at, u.id) < ($4, $5) \
             AND (u.created_at, u.id) >= ($6, $7) ORDER BY u.created_at DESC, u.id DESC LIMIT $8"
        }
        (None, Some((false, _))) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM users u WHERE u.project_id = $1 AND u.merged_into IS NULL \
             AND $2::text IS NULL AND u.last_seen_at < $3 AND (u.created_at, u.id) < ($4, $5) \
             AND (u.created_at, u.id) >= ($6, $7) ORDER BY u.created_at DESC, u.id DESC LIMIT $8"
        }
        (Some(_), None) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM user_search s JOIN users u ON u.project_id = s.project_id \
             AND u.id = s.id WHERE s.project_id = $1 AND u.merged_into IS NULL AND strpos(s.text, $2) > 0 \
             AND $3::timestamptz IS NULL AND (s.created_at, s.id) < ($4, $5) AND (s.created_at, s.id) >= ($6, $7) \
             ORDER BY s.created_at DESC, s.id DESC LIMIT $8"
        }
        (Some(_), Some((true, _))) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM user_search s JOIN users u ON u.project_id = s.project_id \
             AND u.id = s.id WHERE s.project_id = $1 AND u.merged_into IS NULL AND strpos(s.text, $2) > 0 \
             AND u.last_seen_at >= $3 AND (s.created_at, s.id) < ($4, $5) AND (s.created_at, s.id) >= ($6, $7) \
             ORDER BY s.created_at DESC, s.id DESC LIMIT $8"
        }
        (Some(_), Some((false, _))) => {
            "SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, \
             u.last_seen_at, u.updated_at FROM user_search s JOIN users u ON u.project_id = s.project_id \
             AND u.id = s.id WHERE s.project_id = $1 AND u.merged_into IS NULL AND strpos(s.text, $2) > 0 \
             AND u.last_seen_at < $3 AND (s.created_at, s.id) < ($4, $5) AND (s.created_at, s.id) >= ($6, $7) \
             ORDER BY s.created_at DESC, s.id DESC LIMIT $8"
        }
    };
    let time = seen.map(|(_, time)| time);
    let params: [&(dyn ToSql + Sync); 8] = [&project, needle, &time, &at, &id, &end_at, &end_id, &limit];
    let rows = tx.query(&tx.prepare_cached(sql).await?, &params).await?;
    rows.iter().map(from_row).collect()
}

/// Returns the list position of the user with an internal ID.
pub async fn position_of(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<ListPosition>, StoreError> {
    let sql = "SELECT created_at, id FROM users WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    row.map_or(Ok(None), |row| Ok(Some((row.try_get("created_at")?, row.try_get("id")?))))
}
