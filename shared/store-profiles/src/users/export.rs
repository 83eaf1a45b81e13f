//! Reading all people of a project from the newest on, a stretch at a time: nothing is held between two stretches, and
//! one takes the same time whether many in it are wanted or nobody.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::list::UserFilter;
pub use super::place::{Place, TOP};
use super::read::{User, from_row};
use super::search;
use database::StoreError;
use database::filter::Pin;
use kernel::ids::ProjectId;

/// A stretch of the list.
#[derive(Debug)]
pub struct Stretch {
    pub people: Vec<User>,
    /// Where to go on; none at the end.
    pub next: Option<Place>,
}

/// The people behind a place who are wanted, at most `limit`.
pub async fn stretch(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &UserFilter,
    behind: Place,
    limit: i64,
) -> Result<Stretch, StoreError> {
    let needle = match &wanted.search {
        Some(text) => match search::needle(text) {
            Some(needle) => Some(needle),
            None => return Ok(Stretch { people: Vec::new(), next: None }),
        },
        None => None,
    };
    let narrowed = needle.is_some() || wanted.seen_since.is_some();
    let tx = Pin::Ordered.begin(db).await?;
    let end = if narrowed { end(&tx, project, behind, needle.is_some()).await? } else { None };
    let people = people(&tx, project, (&needle, wanted.seen_since), (behind, end), limit).await?;
    tx.commit().await?;
    // A full page may have ended before the stretch did.
    let full = people.len() as i64 == limit;
    let next = if full { people.last().map(|user| (user.created_at, user.id)) } else { end };
    Ok(Stretch { people, next })
}

/// The last place that the stretch looks at, where people are narrowed down: the 5,000th. None where it goes on to the end.
async fn end(
    tx: &Transaction<'_>,
    project: ProjectId,
    (at, id): Place,
    searched: bool,
) -> Result<Option<Place>, StoreError> {
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

/// Those between two places, the second one included.
async fn people(
    tx: &Transaction<'_>,
    project: ProjectId,
    (needle, seen): (&Option<String>, Option<(bool, Timestamp)>),
    ((at, id), end): (Place, Option<Place>),
    limit: i64,
) -> Result<Vec<User>, StoreError> {
    let (end_at, end_id) = end.unwrap_or((Timestamp::UNIX_EPOCH, Uuid::nil()));
    // Who is searched is found by the texts, which are in the same order.
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

/// Where the person of an internal id stands in the list.
pub async fn place_of(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Place>, StoreError> {
    let sql = "SELECT created_at, id FROM users WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    row.map_or(Ok(None), |row| Ok(Some((row.try_get("created_at")?, row.try_get("id")?))))
}
