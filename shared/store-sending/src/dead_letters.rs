//! What can be tried again by hand: messages that failed and not by their own fault (rows of the ledger), and items that
//! could not be recorded (`dead_item`). Each table is read by itself and in order: put together by the database, all rows of
//! both would be read for every page.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::campaigns::counts::{self, Counts, Occurrence};
use crate::messages::{self, by_id};
use crate::send_chunks::{self, NewChunk};
use database::StoreError;
use database::filter::{Filter, MOST_COUNTED, Pin, Start, Total};
use database::months::{self, Month};
use domain::message::{Channel, DeliveryState, Queue};
use kernel::ids::ProjectId;

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

impl DeadFilter {
    fn is_open(&self) -> bool {
        self.ids.is_none() && self.kind.is_none() && self.channel.is_none() && self.reason.is_none()
    }

    fn takes(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// Where the letters of a kind lie.
struct Table {
    kind: Kind,
    name: &'static str,
    /// As [`Self::letter`] reads them.
    columns: &'static str,
    reason: &'static str,
    condition: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        kind: Kind::Message,
        name: "message",
        columns: "id, user_id, NULL::text AS name, channel, id AS message_id, template_id, status_reason AS reason, \
                  attempt, created_at, coalesce(failed_at, updated_at) AS died_at",
        reason: "status_reason",
        condition: "dead",
    },
    Table {
        kind: Kind::Item,
        name: "dead_item",
        columns: "id, user_id, name, channel, message_id, NULL::uuid AS template_id, reason, 0 AS attempt, \
                  created_at, died_at",
        reason: "reason",
        condition: "true",
    },
];

impl Table {
    /// Conditions that split the table into parts, newest first, each for a statement of its own.
    async fn parts(&self, db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
        if self.kind == Kind::Item {
            return Ok(vec!["true".to_owned()]);
        }
        let months = months::of_table(db, "message").await?;
        Ok(months.into_iter().map(|month| month.condition("id")).collect())
    }

    fn filter<'a>(
        &self,
        project: &'a ProjectId,
        wanted: &'a DeadFilter,
        channel: Option<&'a &'static str>,
    ) -> Filter<'a> {
        let mut filter = Filter::of(project);
        filter.and(self.condition, &[]);
        if wanted.ids.is_some() {
            filter.and("id = ANY(?1)", &[&wanted.ids]);
        }
        if let Some(channel) = channel {
            filter.and("channel = ?1", &[channel]);
        }
        if wanted.reason.is_some() {
            filter.and(&format!("split_part({}, ':', 1) = ?1", self.reason), &[&wanted.reason]);
        }
        filter
    }

    fn letter(&self, row: &Row) -> Result<DeadLetter, StoreError> {
        Ok(DeadLetter {
            id: row.try_get("id")?,
            kind: self.kind,
            user_id: row.try_get("user_id")?,
            name: row.try_get("name")?,
            channel: row.try_get::<_, Option<&str>>("channel")?.and_then(Channel::parse),
            message_id: row.try_get("message_id")?,
            template_id: row.try_get("template_id")?,
            reason: row.try_get::<_, Option<String>>("reason")?.unwrap_or_default(),
            attempts: row.try_get("attempt")?,
            created_at: row.try_get("created_at")?,
            died_at: row.try_get("died_at")?,
        })
    }
}

/// Newest first. A page may begin behind an id.
pub async fn list(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &DeadFilter,
    start: &Start<Uuid>,
    limit: i64,
) -> Result<Vec<DeadLetter>, StoreError> {
    let channel = wanted.channel.map(Channel::as_str);
    let (offset, most) = (start.offset(), start.offset().saturating_add(limit));
    let mut found = Vec::new();
    for table in TABLES.iter().filter(|table| wanted.takes(table.kind)) {
        let mut left = most;
        for within in table.parts(db).await? {
            let mut filter = table.filter(&project, wanted, channel.as_ref());
            filter.and(&within, &[]);
            if let Start::After(id) = start {
                filter.and("id < ?1", &[id]);
            }
            let tx = Pin::Ordered.begin(db).await?;
            let rows = filter.page(&tx, (table.columns, table.name, "id DESC"), &0, &left).await?;
            tx.commit().await?;
            left -= rows.len() as i64;
            for row in rows {
                found.push(table.letter(&row)?);
            }
            if left <= 0 {
                break;
            }
        }
    }
    found.sort_unstable_by_key(|letter| std::cmp::Reverse(letter.id));
    let (offset, limit) = (usize::try_from(offset).unwrap_or(0), usize::try_from(limit).unwrap_or(0));
    Ok(found.into_iter().skip(offset).take(limit).collect())
}

pub async fn total(db: &impl GenericClient, project: ProjectId, wanted: &DeadFilter) -> Result<Total, StoreError> {
    if wanted.is_open() {
        let items = "SELECT count(*) AS count FROM dead_item WHERE project_id = $1";
        let mut count: i64 = db.query_one(&db.prepare_cached(items).await?, &[&project]).await?.try_get("count")?;
        for month in months::of_table(db, "message").await? {
            let within = month.condition("id");
            let sql = format!("SELECT count(*) AS count FROM message WHERE project_id = $1 AND dead AND {within}");
            count += db.query_one(&month.prepare(db, &sql).await?, &[&project]).await?.try_get::<_, i64>("count")?;
        }
        return Ok(Total::exact(count));
    }
    let channel = wanted.channel.map(Channel::as_str);
    let mut count = 0;
    for table in TABLES.iter().filter(|table| wanted.takes(table.kind)) {
        for within in table.parts(db).await? {
            let mut filter = table.filter(&project, wanted, channel.as_ref());
            filter.and(&within, &[]);
            count += filter.count(db, table.name, MOST_COUNTED + 1 - count).await?;
            if count > MOST_COUNTED {
                return Ok(Total::counted(count));
            }
        }
    }
    Ok(Total::counted(count))
}

/// Removes items that name no user and died before a time.
pub async fn forget_unnamed(db: &impl GenericClient, before: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM dead_item WHERE user_id IS NULL AND died_at < $1", &[&before]).await?)
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

/// Removes a project's items that failed before a time; returns how many.
pub async fn forget(db: &impl GenericClient, project: ProjectId, before: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM dead_item WHERE project_id = $1 AND died_at < $2";
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &before]).await?)
}

/// How many were given another try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub messages: u64,
    pub items: u64,
    /// The queues of the messages.
    pub queues: Vec<Queue>,
}

impl Replayed {
    pub fn sum(&self) -> u64 {
        self.messages + self.items
    }
}

/// Gives up to `most` of each kind another try; they are dead letters no longer. A message is queued under its own id, due
/// now, and keeps the number of its attempts; an item goes to the outbox. What somebody else is giving another try just now is
/// left to them, so that nothing is sent for two calls.
pub async fn replay(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
) -> Result<Replayed, StoreError> {
    let mut replayed = Replayed::default();
    if wanted.takes(Kind::Message) {
        (replayed.messages, replayed.queues) = replay_messages(tx, project, wanted, most, now).await?;
    }
    if wanted.takes(Kind::Item) {
        replayed.items = replay_items(tx, project, wanted, most, now).await?;
    }
    Ok(replayed)
}

async fn replay_messages(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
) -> Result<(u64, Vec<Queue>), StoreError> {
    let months = match &wanted.ids {
        Some(ids) => {
            let existing = months::split_existing(tx, "message", ids, |id| *id).await?;
            existing.into_iter().map(|(month, _)| month).collect()
        }
        None => months::of_table(tx, "message").await?.into_iter().rev().collect::<Vec<Month>>(),
    };
    let (mut replayed, mut queued) = (0, Replays::new());
    for month in months {
        let left = most - i64::try_from(replayed).unwrap_or(most);
        months::set_savepoint(tx).await?;
        match replay_messages_in(tx, project, month, wanted, left, now, &mut queued).await? {
            0 => months::release_locks(tx).await?,
            some => replayed += some,
        }
        if replayed >= most.unsigned_abs() {
            break;
        }
    }
    let (mut queues, mut chunks) = (BTreeSet::new(), Vec::new());
    for ((queue, campaign), members) in queued {
        queues.insert(queue);
        let chunk = |part| NewChunk { campaign, ..NewChunk::due(queue, part, now) };
        chunks.extend(send_chunks::parts(&members).into_iter().map(chunk));
    }
    send_chunks::insert(tx, &chunks, now).await?;
    Ok((replayed, queues.into_iter().collect()))
}

/// Messages to be queued, by queue and sending.
type Replays = BTreeMap<(Queue, Option<Occurrence>), Vec<Uuid>>;

async fn replay_messages_in(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    wanted: &DeadFilter,
    most: i64,
    now: Timestamp,
    queued: &mut Replays,
) -> Result<u64, StoreError> {
    // Of a campaign that was cancelled or deleted nothing is sent any more.
    let (kept, within) = (by_id::KEPT, month.condition("id"));
    let dead = format!(
        "(SELECT {kept} FROM message m WHERE project_id = $1 AND dead AND ($2::uuid[] IS NULL OR id = ANY($2)) \
         AND ($3::text IS NULL OR channel = $3) AND ($4::text IS NULL OR split_part(status_reason, ':', 1) = $4) \
         AND (campaign_id IS NULL OR EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
         AND c.status IN ('SENDING', 'SCHEDULED', 'COMPLETED', 'PAUSED'))) \
         AND {within} ORDER BY id LIMIT $5 FOR UPDATE OF m SKIP LOCKED) AS dead"
    );
    let set = "status = 'queued', status_reason = NULL, dead = false, failures = 0, forgiven = m.ambiguous, \
               failed_at = NULL, updated_at = $6, released_at = CASE WHEN m.campaign_id IS NOT NULL THEN $6::timestamptz END";
    let channel = wanted.channel.map(Channel::as_str);
    let sql = by_id::change(month, &dead, "", set)
        + " RETURNING m.id, m.channel, m.lane, m.campaign_id, m.occurrence, m.variant";
    let rows = tx.query(&sql, &[&project, &wanted.ids, &channel, &wanted.reason, &most, &now]).await?;
    let mut moved = Counts::default();
    for row in &rows {
        let (channel, lane) = (messages::channel(row.try_get("channel")?)?, messages::lane(row.try_get("lane")?)?);
        let queue = Queue { project, channel, lane };
        let campaign = row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?);
        if let Some(of) = campaign {
            moved.step(of, row.try_get("variant")?, (DeliveryState::Failed, DeliveryState::Queued), 1);
        }
        queued.entry((queue, campaign)).or_default().push(row.try_get("id")?);
    }
    counts::add(tx, project, &moved).await?;
    Ok(rows.len() as u64)
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
               RETURNING partition, id, subject, payload), out AS (INSERT INTO outbox \
               (partition, id, subject, payload, created_at) SELECT partition, id, subject, payload, $6 FROM gone \
               ON CONFLICT DO NOTHING) SELECT count(*) AS count FROM gone";
    let channel = wanted.channel.map(Channel::as_str);
    let row = tx.query_one(sql, &[&project, &wanted.ids, &channel, &wanted.reason, &most, &now]).await?;
    Ok(row.try_get::<_, i64>("count")?.unsigned_abs())
}
