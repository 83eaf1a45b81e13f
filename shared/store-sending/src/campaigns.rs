//! Campaigns.

pub mod audience;
pub mod clicks;
pub mod conversions;
pub mod counts;
pub mod faults;
pub mod occurrence;
pub mod outcomes;
pub mod sending;
pub mod winner;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use database::StoreError;
use domain::campaign::{CampaignStatus, Settings};
use domain::message::Channel;
use kernel::ids::ProjectId;

#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    pub id: Uuid,
    pub name: String,
    pub channel: Channel,
    pub segment_id: Uuid,
    pub exclude_segment_ids: Vec<Uuid>,
    /// `None` if there are variants.
    pub template_id: Option<Uuid>,
    pub settings: Settings,
    /// If set, only users who are subscribed to it are sent the campaign.
    pub subscription_group_id: Option<Uuid>,
    pub scheduled_at: Option<Timestamp>,
    pub status: CampaignStatus,
    /// Why it has this status, if users need to know.
    pub status_reason: Option<String>,
    /// When the last occurrence began.
    pub started_at: Option<Timestamp>,
    /// Number of users queued so far.
    pub recipients: i64,
    /// Whether an occurrence has begun and not ended, also while it is paused.
    pub under_way: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Campaign {
    /// Returns all segments that it uses.
    pub fn segment_ids(&self) -> Vec<Uuid> {
        std::iter::once(self.segment_id).chain(self.exclude_segment_ids.iter().copied()).collect()
    }

    /// Returns when the scheduler first checks it, if it is scheduled.
    pub fn first_check_at(&self) -> Option<Timestamp> {
        let waits = self.status == CampaignStatus::Scheduled;
        self.scheduled_at.filter(|_| waits).map(|at| self.settings.first_check_at(at))
    }

    /// Returns its templates' data in addition to the user.
    pub fn data(&self) -> Value {
        json!({ "campaign": { "id": self.id, "name": self.name } })
    }

    /// Returns all templates that it sends.
    pub fn template_ids(&self) -> Vec<Uuid> {
        self.template_id.into_iter().chain(self.settings.variants.iter().map(|variant| variant.template_id)).collect()
    }
}

fn from_row(row: &Row) -> Result<Campaign, StoreError> {
    let id: Uuid = row.try_get("id")?;
    let (channel, status): (&str, &str) = (row.try_get("channel")?, row.try_get("status")?);
    let corrupt = |what: &str| StoreError::Corrupt(format!("campaign {id}: {what}"));
    Ok(Campaign {
        id,
        name: row.try_get("name")?,
        channel: Channel::parse(channel).ok_or_else(|| corrupt(channel))?,
        segment_id: row.try_get("segment_id")?,
        exclude_segment_ids: row.try_get("exclude_segment_ids")?,
        template_id: row.try_get("template_id")?,
        settings: Settings::decode(row.try_get("settings")?).map_err(|e| corrupt(&e))?,
        scheduled_at: row.try_get("scheduled_at")?,
        status: CampaignStatus::parse(status).ok_or_else(|| corrupt(status))?,
        status_reason: row.try_get("status_reason")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        started_at: row.try_get("started_at")?,
        recipients: row.try_get("recipients")?,
        under_way: row.try_get("under_way")?,
        subscription_group_id: row.try_get("subscription_group_id")?,
    })
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Campaign>, StoreError> {
    let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, scheduled_at, \
               status, status_reason, created_at, updated_at, started_at, recipients, under_way, subscription_group_id \
               FROM campaign WHERE project_id = $1 AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Lists campaigns, newest first, before an ID; only those with `status` if it is given.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    status: Option<CampaignStatus>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Campaign>, StoreError> {
    let before = before.unwrap_or(Uuid::max());
    let rows = match status.map(CampaignStatus::as_str) {
        None => {
            let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, \
                       scheduled_at, status, status_reason, created_at, updated_at, started_at, recipients, \
                       under_way, subscription_group_id FROM campaign WHERE project_id = $1 AND id < $2 \
                       ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?
        }
        Some(status) => {
            let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, \
                       scheduled_at, status, status_reason, created_at, updated_at, started_at, recipients, \
                       under_way, subscription_group_id FROM campaign WHERE project_id = $1 AND status = $4 \
                       AND id < $2 ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit, &status]).await?
        }
    };
    rows.iter().map(from_row).collect()
}

/// Like [`get`], but locks the row until the transaction ends, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<Campaign>, StoreError> {
    let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, scheduled_at, \
               status, status_reason, created_at, updated_at, started_at, recipients, under_way, subscription_group_id \
               FROM campaign WHERE project_id = $1 AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Finds a campaign that may still send and uses this segment. Returns its ID and name.
pub async fn uses_segment(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM campaign WHERE project_id = $1 AND (segment_id = $2::uuid \
               OR exclude_segment_ids @> ARRAY[$2::uuid]) AND status = ANY($3) ORDER BY id LIMIT 1";
    used(db, sql, project, segment).await
}

/// Finds a campaign that may still send and sends this template. Returns its ID and name.
pub async fn uses_template(
    db: &impl GenericClient,
    project: ProjectId,
    template: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM campaign WHERE project_id = $1 AND template_ids @> ARRAY[$2::uuid] \
               AND status = ANY($3) ORDER BY id LIMIT 1";
    used(db, sql, project, template).await
}

/// Finds a campaign that may still send to the subscribers of this group. Returns its ID and name.
pub async fn uses_subscription_group(
    db: &impl GenericClient,
    project: ProjectId,
    group: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM campaign WHERE project_id = $1 AND subscription_group_id = $2::uuid \
               AND status = ANY($3) ORDER BY id LIMIT 1";
    used(db, sql, project, group).await
}

async fn used(
    db: &impl GenericClient,
    sql: &str,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let open: Vec<&str> = CampaignStatus::ALL.iter().filter(|s| s.is_open()).map(|s| s.as_str()).collect();
    let row = db.query_opt(sql, &[&project, &id, &open]).await?;
    row.map(|row| Ok((row.try_get("id")?, row.try_get("name")?))).transpose()
}

pub async fn insert(tx: &Transaction<'_>, project: ProjectId, new: &Campaign) -> Result<(), StoreError> {
    let sql = "INSERT INTO campaign (project_id, id, name, channel, segment_id, exclude_segment_ids, template_id, \
               template_ids, settings, scheduled_at, status, status_reason, updated_at, look_at, \
               subscription_group_id, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    write(tx, sql, project, new, &[&new.created_at]).await
}

/// Writes a campaign that was read by [`get_for_update`] and changed. During an occurrence, the templates that it has
/// used stay listed until the end, because some of its messages may still use them.
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &Campaign) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET name = $3, channel = $4, segment_id = $5, exclude_segment_ids = $6, template_id = $7, \
               template_ids = CASE WHEN under_way THEN ARRAY(SELECT DISTINCT unnest(template_ids || $8::uuid[])) ELSE $8::uuid[] END, \
               settings = $9, scheduled_at = $10, status = $11, status_reason = $12, updated_at = $13, \
               look_at = CASE WHEN $11 IN ('SCHEDULED', 'DRAFT') THEN $14 ELSE look_at END, \
               subscription_group_id = $15 \
               WHERE project_id = $1 AND id = $2";
    write(tx, sql, project, changed, &[]).await
}

async fn write(
    tx: &Transaction<'_>,
    sql: &str,
    project: ProjectId,
    c: &Campaign,
    more: &[&(dyn ToSql + Sync)],
) -> Result<(), StoreError> {
    let (channel, status) = (c.channel.as_str(), c.status.as_str());
    let (templates, settings, next_check_at) = (c.template_ids(), c.settings.encode(), c.first_check_at());
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![
        &project,
        &c.id,
        &c.name,
        &channel,
        &c.segment_id,
        &c.exclude_segment_ids,
        &c.template_id,
        &templates,
        &settings,
        &c.scheduled_at,
        &status,
        &c.status_reason,
        &c.updated_at,
        &next_check_at,
        &c.subscription_group_id,
    ];
    params.extend(more);
    tx.execute(sql, &params).await?;
    Ok(())
}

pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    tx.execute("DELETE FROM campaign WHERE project_id = $1 AND id = $2", &[&project, &id]).await?;
    clicks::forget(tx, project, id).await?;
    counts::forget(tx, project, id, None).await?;
    outcomes::forget(tx, project, id).await
}

/// Cancels all campaigns of a project that is being deleted. The scheduler does not check them again.
pub async fn cancel_all(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = 'CANCELLED', look_at = NULL, updated_at = $2 WHERE project_id = $1";
    tx.execute(sql, &[&project, &now]).await?;
    Ok(())
}
