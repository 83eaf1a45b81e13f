//! In-app inboxes: each delivered in-app message, until its retention ends or the user is erased.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{MAX_COUNTED, PageStart, Total};
use kernel::ids::{self, ProjectId};

/// A message in a user's inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxItem {
    /// ID of the message.
    pub id: Uuid,
    pub title: String,
    pub body: String,
    /// When it arrived.
    pub created_at: Timestamp,
    pub read_at: Option<Timestamp>,
}

fn from_row(row: &Row) -> Result<InboxItem, StoreError> {
    Ok(InboxItem {
        id: row.try_get("id")?,
        title: row.try_get("title")?,
        body: row.try_get("body")?,
        created_at: row.try_get("created_at")?,
        read_at: row.try_get("read_at")?,
    })
}

/// A message that was rendered for a user.
#[derive(Clone, Copy, Debug)]
pub struct NewInboxItem<'a> {
    pub id: Uuid,
    pub user_id: Uuid,
    pub title: &'a str,
    pub body: &'a str,
}

/// Inserts a message into its user's inbox. Returns false if the user no longer exists. Idempotent.
///
/// The user's row is locked against an erasure, which waits and then finds the message. Concurrent arrivals serialize
/// on the owner's row, so that the later one also has the later time.
pub async fn put(
    db: &impl GenericClient,
    project: ProjectId,
    arrival: NewInboxItem<'_>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    // Through UTC: otherwise the sum would depend on the session's timezone, which a distributed store refuses here.
    let sql = "WITH person AS (SELECT id FROM users WHERE project_id = $1 AND id = $2 FOR KEY SHARE), \
               owner AS (INSERT INTO inbox_owner AS o (project_id, user_id, last_at) SELECT $1, id, $3 FROM person \
               ON CONFLICT (project_id, user_id) DO UPDATE \
               SET last_at = greatest(excluded.last_at, (o.last_at AT TIME ZONE 'UTC' + interval '1 microsecond') AT TIME ZONE 'UTC') \
               RETURNING user_id, last_at), \
               arrived AS (INSERT INTO inbox (project_id, id, user_id, title, body, created_at) \
               SELECT $1, $4, user_id, $5, $6, last_at FROM owner ON CONFLICT (project_id, id) DO NOTHING) \
               SELECT EXISTS (SELECT FROM person) AS is_there";
    let NewInboxItem { id, user_id, title, body } = arrival;
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&project, &user_id, &now, &id, &title, &body]).await?.try_get("is_there")?)
}

/// Filters a list of a user's messages.
#[derive(Clone, Debug)]
pub struct InboxFilter {
    /// All internal IDs of the user.
    pub user_ids: Vec<Uuid>,
    pub unread_only: bool,
}

/// Returns a page of a user's messages, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    of: &InboxFilter,
    start: &PageStart<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<InboxItem>, StoreError> {
    let (at, id) = match start {
        PageStart::After(position) => *position,
        PageStart::Offset(_) => (Timestamp::MAX, Uuid::max()),
    };
    let sql = if of.unread_only {
        "SELECT id, title, body, created_at, read_at FROM inbox WHERE project_id = $1 AND user_id = ANY($2) \
         AND read_at IS NULL AND (created_at, id) < ($3, $4) ORDER BY created_at DESC, id DESC OFFSET $5 LIMIT $6"
    } else {
        "SELECT id, title, body, created_at, read_at FROM inbox WHERE project_id = $1 AND user_id = ANY($2) \
         AND (created_at, id) < ($3, $4) ORDER BY created_at DESC, id DESC OFFSET $5 LIMIT $6"
    };
    let rows =
        db.query(&db.prepare_cached(sql).await?, &[&project, &of.user_ids, &at, &id, &start.offset(), &limit]).await?;
    rows.iter().map(from_row).collect()
}

pub async fn total(db: &impl GenericClient, project: ProjectId, of: &InboxFilter) -> Result<Total, StoreError> {
    let sql = if of.unread_only {
        "SELECT count(*) AS count FROM (SELECT 1 FROM inbox WHERE project_id = $1 AND user_id = ANY($2) \
         AND read_at IS NULL LIMIT $3) AS found"
    } else {
        "SELECT count(*) AS count FROM (SELECT 1 FROM inbox WHERE project_id = $1 AND user_id = ANY($2) \
         LIMIT $3) AS found"
    };
    let max = MAX_COUNTED + 1;
    let row = db.query_one(&db.prepare_cached(sql).await?, &[&project, &of.user_ids, &max]).await?;
    Ok(Total::from_count(row.try_get("count")?))
}

/// Returns the messages that arrived after a given one, oldest first.
pub async fn after(
    db: &impl GenericClient,
    project: ProjectId,
    user_ids: &[Uuid],
    (at, id): (Timestamp, Uuid),
    limit: i64,
) -> Result<Vec<InboxItem>, StoreError> {
    let sql = "SELECT id, title, body, created_at, read_at FROM inbox WHERE project_id = $1 AND user_id = ANY($2) \
               AND (created_at, id) > ($3, $4) ORDER BY created_at, id LIMIT $5";
    db.query(&db.prepare_cached(sql).await?, &[&project, &user_ids, &at, &id, &limit])
        .await?
        .iter()
        .map(from_row)
        .collect()
}

/// Marks a message of these users as read. Keeps the time at which it was first read. Returns `None` if there is no
/// such message.
pub async fn mark_read(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    user_ids: &[Uuid],
    now: Timestamp,
) -> Result<Option<InboxItem>, StoreError> {
    let sql = "UPDATE inbox SET read_at = coalesce(read_at, $4) WHERE project_id = $1 AND id = $2 \
               AND user_id = ANY($3) RETURNING id, title, body, created_at, read_at";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&project, &id, &user_ids, &now]).await?.as_ref().map(from_row).transpose()
}

/// Maximum number of messages removed by one statement.
pub const SLICE: i64 = 1_000;

/// Removes at most [`SLICE`] of a project's messages that arrived before a time, oldest first. Returns how many. Finds
/// them by their IDs, which contain their creation time.
pub async fn remove_slice(db: &impl GenericClient, project: ProjectId, before: Timestamp) -> Result<u64, StoreError> {
    let bound = ids::lower_bound(before.as_millisecond());
    let sql = "DELETE FROM inbox WHERE project_id = $1 AND id = ANY (ARRAY( \
               SELECT id FROM inbox WHERE project_id = $1 AND id < $2 AND created_at < $3 ORDER BY id LIMIT $4))";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, &[&project, &bound, &before, &SLICE]).await?)
}
