//! Reading all people of a project from the newest on, a stretch at a time: nothing is held between two stretches, and
//! one takes the same time whether many in it are wanted or nobody.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::list::UserFilter;
pub use super::place::{Place, TOP};
use super::read::{User, columns_of, from_row};
use super::search;
use database::StoreError;
use database::filter::Pin;
use kernel::ids::ProjectId;

/// How many people one stretch looks at, where they are narrowed down.
const LOOKED_AT: i64 = 5_000;

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

/// The last place that the stretch looks at; none where it goes on to the end.
async fn end(
    tx: &Transaction<'_>,
    project: ProjectId,
    (at, id): Place,
    searched: bool,
) -> Result<Option<Place>, StoreError> {
    let from = if searched { "user_search WHERE" } else { "users WHERE merged_into IS NULL AND" };
    let sql = format!(
        "SELECT created_at, id FROM {from} project_id = $1 AND (created_at, id) < ($2, $3) \
         ORDER BY created_at DESC, id DESC OFFSET {} LIMIT 1",
        LOOKED_AT - 1
    );
    let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&project, &at, &id]).await?;
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
    // Who is searched is found by the texts, which are in the same order.
    let (from, place) = match needle {
        None => ("users u", "u"),
        Some(_) => ("user_search s JOIN users u ON u.project_id = s.project_id AND u.id = s.id", "s"),
    };
    let text = if needle.is_some() { "strpos(s.text, $2) > 0" } else { "$2::text IS NULL" };
    let seen_condition = match seen {
        None => "$3::timestamptz IS NULL",
        Some((true, _)) => "u.last_seen_at >= $3",
        Some((false, _)) => "u.last_seen_at < $3",
    };
    let (end_at, end_id) = end.unwrap_or((Timestamp::UNIX_EPOCH, Uuid::nil()));
    let sql = format!(
        "SELECT {} FROM {from} WHERE {place}.project_id = $1 AND u.merged_into IS NULL AND {text} AND {seen_condition} \
         AND ({place}.created_at, {place}.id) < ($4, $5) AND ({place}.created_at, {place}.id) >= ($6, $7) \
         ORDER BY {place}.created_at DESC, {place}.id DESC LIMIT $8",
        columns_of("u")
    );
    let time = seen.map(|(_, time)| time);
    let params: [&(dyn ToSql + Sync); 8] = [&project, needle, &time, &at, &id, &end_at, &end_id, &limit];
    let rows = tx.query(&tx.prepare_cached(&sql).await?, &params).await?;
    rows.iter().map(from_row).collect()
}

/// Where the person of an internal id stands in the list.
pub async fn place_of(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Place>, StoreError> {
    let sql = "SELECT created_at, id FROM users WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    row.map_or(Ok(None), |row| Ok(Some((row.try_get("created_at")?, row.try_get("id")?))))
}
