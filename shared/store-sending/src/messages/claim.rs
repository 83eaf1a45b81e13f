//! Messages that this process sends before the lease of their chunk ends.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::months::{self, Month};
use domain::message::{Channel, Lane};
use kernel::ids::{self, ProjectId};
use kernel::trace_context::TraceContext;

/// A claimed message.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedMessage {
    pub project: ProjectId,
    pub id: Uuid,
    pub user_id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// The occurrence, if it is a campaign's message.
    pub sending: Option<CampaignOccurrence>,
    pub template_id: Option<Uuid>,
    /// The message goes only to subscribers of this group.
    pub subscription_group_id: Option<Uuid>,
    /// Object `{subject?, body?, title?, userIds?}`.
    pub content: Value,
    /// Object: the template's data in addition to the user.
    pub data: Value,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// Provider failures so far that count against the limit.
    pub failures: i32,
    /// Calls with unknown outcome since the message was last replayed.
    pub ambiguous: i32,
    /// Whether the previous attempt was never settled; its call, if there was one, is counted in `ambiguous`.
    pub lapsed: bool,
    pub created_at: Timestamp,
    /// Start of its age: when it was created, or last replayed.
    pub released_at: Timestamp,
    pub trace: Option<TraceContext>,
}

/// One occurrence of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CampaignOccurrence {
    pub campaign: Uuid,
    pub occurrence: i32,
    /// When it began, in Unix milliseconds: the time in the IDs of its messages.
    pub started_ms: i64,
}

impl CampaignOccurrence {
    /// Returns the input, followed by the user's ID, from which the IDs of its messages are derived.
    pub fn key(&self) -> String {
        format!("{}:{}", self.campaign, self.occurrence)
    }
}

/// Returns those of these messages that are still queued, in no order. The values say whether the last attempt was
/// never settled.
pub async fn load(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &BTreeMap<Uuid, bool>,
) -> Result<Vec<ClaimedMessage>, StoreError> {
    let ids: Vec<Uuid> = wanted.keys().copied().collect();
    let mut found = Vec::with_capacity(ids.len());
    for (month, ids) in months::split(&ids, |id| *id) {
        let rows = load_in(db, project, month, &ids).await?;
        for row in &rows {
            let id: Uuid = row.try_get("id")?;
            found.push(from_row(project, row, wanted.get(&id).copied().unwrap_or_default())?);
        }
    }
    Ok(found)
}

async fn load_in(
    db: &impl GenericClient,
    project: ProjectId,
    month: Month,
    ids: &[Uuid],
) -> Result<Vec<Row>, StoreError> {
    let (first, last) = (ids.first(), ids.last());
    let within = month.condition("m.id");
    let sql = format!(
        "SELECT m.* FROM unnest($2::uuid[]) AS w (id) CROSS JOIN LATERAL \
         (SELECT m.id, m.user_id, m.channel, m.lane, m.template_id, m.content, m.data, m.attempt + 1 AS attempt, \
         m.failures, m.ambiguous - m.forgiven AS ambiguous, m.created_at, coalesce(m.released_at, \
         m.created_at) AS released_at, m.subscription_group_id, m.trace, m.campaign_id, m.occurrence FROM message m \
         WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $3 AND $4 \
         AND m.status = 'queued' OFFSET 0) AS m"
    );
    let statement = month.prepare(db, &sql).await?;
    Ok(db.query(&statement, &[&project, &ids, &first, &last]).await?)
}

fn from_row(project: ProjectId, row: &Row, lapsed: bool) -> Result<ClaimedMessage, StoreError> {
    let id: Uuid = row.try_get("id")?;
    let occurrence = row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?);
    Ok(ClaimedMessage {
        project,
        id,
        user_id: row.try_get("user_id")?,
        channel: super::channel(row.try_get("channel")?)?,
        lane: super::lane(row.try_get("lane")?)?,
        sending: occurrence.map(|(campaign, occurrence)| CampaignOccurrence {
            campaign,
            occurrence,
            started_ms: ids::time_ms(id),
        }),
        template_id: row.try_get("template_id")?,
        content: row.try_get("content")?,
        data: row.try_get("data")?,
        attempt: row.try_get("attempt")?,
        failures: row.try_get("failures")?,
        ambiguous: row.try_get("ambiguous")?,
        lapsed,
        created_at: row.try_get("created_at")?,
        released_at: row.try_get("released_at")?,
        subscription_group_id: row.try_get("subscription_group_id")?,
        trace: TraceContext::from_column(row.try_get("trace")?),
    })
}
