//! Failures that can be replayed: failed messages that were not invalid themselves (ledger rows), and items that could
//! not be recorded (`dead_item`). Each table is read separately and in order: a union in the database would read all
//! rows of both for every page.

mod replay;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{Filter, ForcedPlan, MAX_COUNTED, PageQuery, PageStart, Total};
use database::months;
use domain::message::Channel;
use kernel::ids::ProjectId;

pub use replay::{Replayed, replay};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterKind {
    /// A message that failed.
    Message,
    /// An accepted item that could not be recorded, or that delivery could not read.
    Item,
}

impl DeadLetterKind {
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
    pub kind: DeadLetterKind,
    /// The user it is for or about.
    pub user_id: Option<Uuid>,
    /// The name of an item.
    pub name: Option<String>,
    pub channel: Option<Channel>,
    pub message_id: Option<Uuid>,
    pub template_id: Option<Uuid>,
    /// A code, optionally followed by a colon and details.
    pub reason: String,
    pub attempts: i32,
    pub created_at: Timestamp,
    pub died_at: Timestamp,
}

/// An item of the dead-letter stream, and how it is published again.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadItem {
    pub project: ProjectId,
    /// A UUIDv7 derived from its position in the stream.
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

/// Selects dead letters. All conditions that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct DeadFilter {
    pub ids: Option<Vec<Uuid>>,
    pub kind: Option<DeadLetterKind>,
    pub channel: Option<Channel>,
    /// The code of the reason.
    pub reason: Option<String>,
}

impl DeadFilter {
    fn is_empty(&self) -> bool {
        self.ids.is_none() && self.kind.is_none() && self.channel.is_none() && self.reason.is_none()
    }

    fn includes(&self, kind: DeadLetterKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// The table that holds the dead letters of a kind.
struct Table {
    kind: DeadLetterKind,
    /// The columns are as [`Self::letter`] reads them.
    rows: PageQuery,
    reason: &'static str,
    condition: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        kind: DeadLetterKind::Message,
        rows: PageQuery {
            table: "message",
            columns: "id, user_id, NULL::text AS name, channel, id AS message_id, template_id, status_reason AS reason, \
                  attempt, created_at, coalesce(failed_at, updated_at) AS died_at",
            order: "id DESC",
        },
        reason: "status_reason",
        condition: "dead",
    },
    Table {
        kind: DeadLetterKind::Item,
        rows: PageQuery {
            table: "dead_item",
            columns: "id, user_id, name, channel, message_id, NULL::uuid AS template_id, reason, 0 AS attempt, \
                  created_at, died_at",
            order: "id DESC",
        },
        reason: "reason",
        condition: "true",
    },
];

impl Table {
    /// Returns conditions that split the table into parts, newest first, each for its own statement.
    async fn parts(&self, db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
        if self.kind == DeadLetterKind::Item {
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

/// Lists dead letters, newest first. A page may start after an ID.
pub async fn list(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &DeadFilter,
    start: &PageStart<Uuid>,
    limit: i64,
) -> Result<Vec<DeadLetter>, StoreError> {
    let channel = wanted.channel.map(Channel::as_str);
    let (offset, max) = (start.offset(), start.offset().saturating_add(limit));
    let mut found = Vec::new();
    for table in TABLES.iter().filter(|table| wanted.includes(table.kind)) {
        let mut left = max;
        for within in table.parts(db).await? {
            let mut filter = table.filter(&project, wanted, channel.as_ref());
            filter.and(&within, &[]);
            if let PageStart::After(id) = start {
                filter.and("id < ?1", &[id]);
            }
            let tx = ForcedPlan::Ordered.begin(db).await?;
            let rows = filter.page(&tx, table.rows, &0, &left).await?;
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
    if wanted.is_empty() {
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
    for table in TABLES.iter().filter(|table| wanted.includes(table.kind)) {
        for within in table.parts(db).await? {
            let mut filter = table.filter(&project, wanted, channel.as_ref());
            filter.and(&within, &[]);
            count += filter.count(db, table.rows.table, MAX_COUNTED + 1 - count).await?;
            if count > MAX_COUNTED {
                return Ok(Total::from_count(count));
            }
        }
    }
    Ok(Total::from_count(count))
}

/// Removes items that identify no user and failed before a time.
pub async fn forget_without_user(db: &impl GenericClient, before: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM dead_item WHERE user_id IS NULL AND died_at < $1", &[&before]).await?)
}

/// Stores an item of the stream, only once however often it is read, until it is published again.
pub async fn store(db: &impl GenericClient, item: &DeadItem) -> Result<(), StoreError> {
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
