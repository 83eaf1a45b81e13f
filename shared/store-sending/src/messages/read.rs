//! Reads the ledger.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{Filter, MAX_COUNTED, PageQuery, PageStart, Total};
use database::months::{self, Month};
use domain::message::{Channel, DeliveryState};
use kernel::ids::ProjectId;

/// A message as the API shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: Uuid,
    pub status: DeliveryState,
    pub status_reason: Option<String>,
    /// The user at the time of sending, who may have been merged since.
    pub user_id: Uuid,
    pub channel: Channel,
    /// The rendered subject.
    pub subject: Option<String>,
    pub template_id: Option<Uuid>,
    pub automation_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
    pub attempts: i32,
    /// Provider calls with unknown outcome.
    pub ambiguous: i32,
    pub provider: Option<String>,
    pub provider_message_id: Option<String>,
    pub created_at: Timestamp,
    pub sent_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub opened_at: Option<Timestamp>,
    pub clicked_at: Option<Timestamp>,
    pub failed_at: Option<Timestamp>,
    pub bounced_at: Option<Timestamp>,
    pub complained_at: Option<Timestamp>,
    /// For a push message: an array with the result for each device.
    pub devices: Option<Value>,
    /// Object `{subject, body}` of a direct message, as requested; empty if a template provides the content.
    pub content: Value,
    /// For an SMS that was sent.
    pub segments: Option<i32>,
}

fn from_row(row: &Row) -> Result<Message, StoreError> {
    let (status, channel): (&str, &str) = (row.try_get("status")?, row.try_get("channel")?);
    Ok(Message {
        id: row.try_get("id")?,
        status: super::status(status)?,
        status_reason: row.try_get("status_reason")?,
        user_id: row.try_get("user_id")?,
        channel: super::channel(channel)?,
        subject: row.try_get("subject")?,
        template_id: row.try_get("template_id")?,
        automation_id: row.try_get("automation_id")?,
        run_id: row.try_get("run_id")?,
        attempts: row.try_get("attempt")?,
        ambiguous: row.try_get("ambiguous")?,
        provider: row.try_get("provider")?,
        provider_message_id: row.try_get("provider_message_id")?,
        created_at: row.try_get("created_at")?,
        sent_at: row.try_get("sent_at")?,
        delivered_at: row.try_get("delivered_at")?,
        opened_at: row.try_get("opened_at")?,
        clicked_at: row.try_get("clicked_at")?,
        failed_at: row.try_get("failed_at")?,
        bounced_at: row.try_get("bounced_at")?,
        complained_at: row.try_get("complained_at")?,
        devices: row.try_get("devices")?,
        content: row.try_get("content")?,
        segments: row.try_get("segments")?,
    })
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Message>, StoreError> {
    let month = Month::of(id);
    let within = month.condition("id");
    let sql = format!(
        "SELECT id, status, status_reason, user_id, channel, subject, template_id, automation_id, run_id, attempt, \
         ambiguous, provider, provider_message_id, created_at, sent_at, delivered_at, opened_at, clicked_at, \
         failed_at, bounced_at, complained_at, devices, content, segments FROM message WHERE project_id = $1 \
         AND id = $2 AND {within}"
    );
    db.query_opt(&month.prepare(db, &sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// The status of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageState {
    pub id: Uuid,
    pub status: DeliveryState,
    pub reason: Option<String>,
}

/// Returns the status of messages. Omits unknown IDs.
pub async fn states(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<Vec<MessageState>, StoreError> {
    let mut states = Vec::with_capacity(ids.len());
    for (month, ids) in months::split_existing(db, "message", ids, |id| *id).await? {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let within = month.condition("m.id");
        let sql = format!(
            "SELECT m.* FROM (SELECT DISTINCT unnest($2::uuid[]) AS id ORDER BY 1) AS w CROSS JOIN LATERAL \
             (SELECT m.id, m.status, m.status_reason FROM message m WHERE m.project_id = $1 AND m.id = w.id \
             AND {within} AND m.id BETWEEN $3 AND $4 OFFSET 0) AS m"
        );
        let statement = month.prepare(db, &sql).await?;
        for row in db.query(&statement, &[&project, &ids, &first, &last]).await? {
            let status = super::status(row.try_get("status")?)?;
            states.push(MessageState { id: row.try_get("id")?, status, reason: row.try_get("status_reason")? });
        }
    }
    Ok(states)
}

/// Filters a list of messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Messages to these users, under all their internal IDs.
    pub user_ids: Option<Vec<Uuid>>,
    pub channel: Option<Channel>,
    pub status: Option<DeliveryState>,
}

/// The filter's values as the table stores them.
struct Wanted<'a> {
    user_ids: Option<&'a Vec<Uuid>>,
    channel: Option<&'static str>,
    status: Option<&'static str>,
}

impl MessageFilter {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            user_ids: self.user_ids.as_ref(),
            channel: self.channel.map(Channel::as_str),
            status: self.status.map(DeliveryState::as_str),
        }
    }
}

impl Wanted<'_> {
    fn apply<'a>(&'a self, filter: &mut Filter<'a>) {
        if let Some(ids) = &self.user_ids {
            filter.and("user_id = ANY(?1)", &[ids]);
        }
        if let Some(channel) = &self.channel {
            filter.and("channel = ?1", &[channel]);
        }
        if let Some(status) = &self.status {
            filter.and("status = ?1", &[status]);
        }
    }

    fn is_empty(&self) -> bool {
        self.user_ids.is_none() && self.channel.is_none() && self.status.is_none()
    }
}

const ROWS: PageQuery = PageQuery {
    columns: "id, status, status_reason, user_id, channel, subject, template_id, automation_id, run_id, attempt, \
              ambiguous, provider, provider_message_id, created_at, sent_at, delivered_at, opened_at, clicked_at, \
              failed_at, bounced_at, complained_at, devices, content, segments",
    table: "message",
    order: "id DESC",
};

/// Lists messages, newest first. A page may start after a message's ID. Reads month by month until the page is full.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    filter: &MessageFilter,
    start: &PageStart<Uuid>,
    limit: i64,
) -> Result<Vec<Message>, StoreError> {
    let wanted = filter.wanted();
    let mut page = Vec::new();
    let mut offset = start.offset();
    for month in months::of_table(db, "message").await? {
        let mut filter = Filter::of(&project);
        wanted.apply(&mut filter);
        filter.and(&month.condition("id"), &[]);
        if let PageStart::After(id) = start {
            if month > Month::of(*id) {
                continue;
            }
            filter.and("id < ?1", &[id]);
        }
        let (skipped, left) = (offset, limit - page.len() as i64);
        if skipped > 0 {
            // Skip this month's rows; the remaining offset applies to older months.
            offset -= filter.count(db, "message", skipped).await?;
            if offset > 0 {
                continue;
            }
        }
        for row in filter.page(db, ROWS, &skipped, &left).await? {
            page.push(from_row(&row)?);
        }
        if page.len() as i64 >= limit {
            break;
        }
    }
    Ok(page)
}

/// Counts messages; exactly, from the counters, if there is no filter.
pub async fn total(db: &impl GenericClient, project: ProjectId, filter: &MessageFilter) -> Result<Total, StoreError> {
    let wanted = filter.wanted();
    if wanted.is_empty() {
        let sql = "SELECT coalesce(sum(count), 0)::bigint AS total FROM message_count WHERE project_id = $1";
        return Ok(Total::exact(db.query_one(&db.prepare_cached(sql).await?, &[&project]).await?.try_get("total")?));
    }
    let mut count = 0;
    for month in months::of_table(db, "message").await? {
        let mut filter = Filter::of(&project);
        wanted.apply(&mut filter);
        filter.and(&month.condition("id"), &[]);
        count += filter.count(db, "message", MAX_COUNTED + 1 - count).await?;
        if count > MAX_COUNTED {
            break;
        }
    }
    Ok(Total::from_count(count))
}
