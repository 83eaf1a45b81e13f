//! What can be tried again by hand: messages that failed and not by their own fault (rows of the ledger), and items that
//! could not be recorded (`dead_item`). The view `dead_letter` shows both.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::StoreError;
use super::filter::{Filter, Start, Total};
use crate::ids::ProjectId;
use crate::send::Channel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message that failed.
    Message,
    /// Something accepted that could not be recorded, or read by whoever sends.
    Item,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Message, Self::Item];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "MESSAGE",
            Self::Item => "ITEM",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub id: Uuid,
    pub kind: Kind,
    /// Whom it is for or about.
    pub user_id: Option<Uuid>,
    /// What an item is.
    pub name: Option<String>,
    pub channel: Option<Channel>,
    pub message_id: Option<Uuid>,
    pub template_id: Option<Uuid>,
    /// A code, and after a colon the details.
    pub reason: String,
    pub attempts: i32,
    pub created_at: Timestamp,
    pub died_at: Timestamp,
}

/// An item of the dead-letter stream, and how it is published again.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadItem {
    pub project: ProjectId,
    /// A UUIDv7 made of its place in the stream.
    pub id: Uuid,
    pub user_id: Option<Uuid>,
    pub name: String,
    pub channel: Option<Channel>,
    pub message_id: Option<Uuid>,
    pub reason: String,
    /// The ingest partition whose owner publishes it.
    pub partition: i16,
    pub subject: String,
    pub payload: Vec<u8>,
    pub created_at: Timestamp,
    pub died_at: Timestamp,
}

/// Which are meant; every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct DeadFilter {
    pub ids: Option<Vec<Uuid>>,
    pub kind: Option<Kind>,
    pub channel: Option<Channel>,
    /// The code of the reason.
    pub reason: Option<String>,
}

/// The filter's values as the tables hold them.
struct Wanted<'a> {
    ids: &'a Option<Vec<Uuid>>,
    kind: Option<&'static str>,
    channel: Option<&'static str>,
    reason: &'a Option<String>,
}

impl DeadFilter {
    fn wanted(&self) -> Wanted<'_> {
        let (kind, channel) = (self.kind.map(Kind::as_str), self.channel.map(Channel::as_str));
        Wanted { ids: &self.ids, kind, channel, reason: &self.reason }
    }

    fn is_open(&self) -> bool {
        self.ids.is_none() && self.kind.is_none() && self.channel.is_none() && self.reason.is_none()
    }
}

impl Wanted<'_> {
    fn apply<'a>(&'a self, filter: &mut Filter<'a>) {
        if self.ids.is_some() {
            filter.and("id = ANY(?1)", &[self.ids]);
        }
        if self.kind.is_some() {
            filter.and("kind = ?1", &[&self.kind]);
        }
        if self.channel.is_some() {
            filter.and("channel = ?1", &[&self.channel]);
        }
        if self.reason.is_some() {
            filter.and("split_part(reason, ':', 1) = ?1", &[self.reason]);
        }
    }
}

const COLUMNS: &str = "id, kind, user_id, name, channel, message_id, template_id, reason, attempt, created_at, died_at";

fn from_row(row: &Row) -> Result<DeadLetter, StoreError> {
    let (kind, channel): (&str, Option<&str>) = (row.try_get(1)?, row.try_get(4)?);
    let kind = Kind::ALL.into_iter().find(|k| k.as_str() == kind);
    Ok(DeadLetter {
        id: row.try_get(0)?,
        kind: kind.ok_or_else(|| StoreError::Corrupt("a dead letter of no kind".to_owned()))?,
        user_id: row.try_get(2)?,
        name: row.try_get(3)?,
        channel: channel.and_then(Channel::parse),
        message_id: row.try_get(5)?,
        template_id: row.try_get(6)?,
        reason: row.try_get::<_, Option<String>>(7)?.unwrap_or_default(),
        attempts: row.try_get(8)?,
        created_at: row.try_get(9)?,
        died_at: row.try_get(10)?,
    })
}

/// Newest first. A page may begin behind an id.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &DeadFilter,
    start: &Start<Uuid>,
    limit: i64,
) -> Result<Vec<DeadLetter>, StoreError> {
    let wanted = wanted.wanted();
    let mut filter = Filter::of(&project);
    wanted.apply(&mut filter);
    if let Start::After(id) = start {
        filter.and("id < ?1", &[id]);
    }
    filter.page(db, (COLUMNS, "dead_letter", "id DESC"), &start.offset(), &limit).await?.iter().map(from_row).collect()
}

pub async fn total(db: &impl GenericClient, project: ProjectId, wanted: &DeadFilter) -> Result<Total, StoreError> {
    if wanted.is_open() {
        let statement = db.prepare_cached("SELECT count(*) FROM dead_letter WHERE project_id = $1").await?;
        return Ok(Total::exact(db.query_one(&statement, &[&project]).await?.try_get(0)?));
    }
    let wanted = wanted.wanted();
    let mut filter = Filter::of(&project);
    wanted.apply(&mut filter);
    filter.count_capped(db, "dead_letter").await
}

/// Keeps an item of the stream; once, however often it is read, until it is published again.
pub async fn keep(db: &impl GenericClient, item: &DeadItem) -> Result<(), StoreError> {
    let sql = "INSERT INTO dead_item (project_id, id, user_id, name, channel, message_id, reason, partition, subject, payload, \
               created_at, died_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (project_id, id) DO NOTHING";
    let (i, channel) = (item, item.channel.map(Channel::as_str));
    db.execute(
        &db.prepare_cached(sql).await?,
        &[
            &i.project,
            &i.id,
            &i.user_id,
            &i.name,
            &channel,
            &i.message_id,
            &i.reason,
            &i.partition,
            &i.subject,
            &i.payload,
            &i.created_at,
            &i.died_at,
        ],
    )
    .await?;
    Ok(())
}

/// How many were given another try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub messages: u64,
    pub items: u64,
}

impl Replayed {
    pub fn sum(self) -> u64 {
        self.messages + self.items
    }
}

/// Gives up to `most` of each kind another try; they are dead letters no longer. A message is queued under its own id, due
/// now, with all its attempts before it; an item goes to the outbox. What somebody else is giving another try just now is
/// left to them, so that nothing is sent for two calls.
pub async fn replay(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
) -> Result<Replayed, StoreError> {
    let is_wanted = |kind| wanted.kind.is_none_or(|k| k == kind);
    let messages = if is_wanted(Kind::Message) { replay_messages(tx, project, wanted, most, now).await? } else { 0 };
    let items = if is_wanted(Kind::Item) { replay_items(tx, project, wanted, most, now).await? } else { 0 };
    Ok(Replayed { messages, items })
}

async fn replay_messages(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
) -> Result<u64, StoreError> {
    // Of a campaign that was cancelled or deleted nothing is sent any more.
    let sql = "SELECT id FROM message m WHERE project_id = $1 AND dead AND ($2::uuid[] IS NULL OR id = ANY($2)) \
               AND ($3::text IS NULL OR channel = $3) AND ($4::text IS NULL OR split_part(status_reason, ':', 1) = $4) \
               AND (campaign_id IS NULL OR EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
               AND c.status IN ('SENDING', 'SCHEDULED', 'COMPLETED', 'PAUSED'))) \
               ORDER BY id LIMIT $5 FOR UPDATE OF m SKIP LOCKED";
    let channel = wanted.channel.map(Channel::as_str);
    let rows = tx.query(sql, &[&project, &wanted.ids, &channel, &wanted.reason, &most]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(0) };
    let sql = "UPDATE message SET status = 'queued', status_reason = NULL, dead = false, failures = 0, forgiven = ambiguous, \
               failed_at = NULL, due_at = $5, updated_at = $5 \
               WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4";
    Ok(tx.execute(sql, &[&project, &ids, first, last, &now]).await?)
}

async fn replay_items(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "WITH gone AS (DELETE FROM dead_item WHERE project_id = $1 AND id IN (SELECT id FROM dead_item \
               WHERE project_id = $1 AND ($2::uuid[] IS NULL OR id = ANY($2)) AND ($3::text IS NULL OR channel = $3) \
               AND ($4::text IS NULL OR split_part(reason, ':', 1) = $4) ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED) \
               RETURNING partition, id, subject, payload), \
               out AS (INSERT INTO outbox (partition, id, subject, payload, created_at) \
               SELECT partition, id, subject, payload, $6 FROM gone ON CONFLICT DO NOTHING) \
               SELECT count(*) FROM gone";
    let channel = wanted.channel.map(Channel::as_str);
    let row = tx.query_one(sql, &[&project, &wanted.ids, &channel, &wanted.reason, &most, &now]).await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}
