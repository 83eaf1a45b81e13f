//! Sending a campaign: its state, and how much of its audience is queued. The queue itself is in
//! `send_chunks::campaign`.
//!
//! Functions that change rows must run in a transaction that has locked the campaign's row, so that schedulers do not
//! overlap.

use std::ops::Range;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::occurrence::Progress;
use super::{Campaign, counts, outcomes, winner};
use database::StoreError;
use database::by_project::{self, ByProject};
use database::due::{self, DueColumn};
use domain::campaign::CampaignStatus;
use kernel::ids::{self, ProjectId};

/// Maximum projects in which one poll searches for due campaigns.
const MAX_PROJECTS: i64 = 10_000;

/// Returns up to `max` campaigns whose next check is due, longest due first, and at most `max_per_project` of one
/// project, so that a project with thousands of them does not delay the others. Takes no locks: a distributed store
/// refuses them across projects.
pub async fn due(
    db: &impl GenericClient,
    now: Timestamp,
    max_per_project: i64,
    max: i64,
) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let projects = due::projects(db, DueColumn { table: "campaign", column: "look_at" }, now, MAX_PROJECTS).await?;
    let sql = ByProject::new(
        "SELECT p.id AS project_id, c.id, c.look_at FROM unnest($1::uuid[]) AS p (id) CROSS JOIN LATERAL \
         (SELECT id, look_at FROM campaign WHERE project_id = p.id AND look_at <= $2 ORDER BY look_at LIMIT $3) AS c \
         ORDER BY c.look_at LIMIT $4",
        &["p.id"],
    );
    let read = async |statement: Statement, part: &[ProjectId]| {
        Ok(db.query(&statement, &[&part, &now, &max_per_project, &max]).await?)
    };
    let rows = by_project::each(db, &projects, |project| *project, sql, read).await?;
    let due = |row: &Row| Ok((row.try_get("look_at")?, row.try_get("project_id")?, row.try_get("id")?));
    let mut due: Vec<(Timestamp, ProjectId, Uuid)> =
        rows.iter().flatten().map(due).collect::<Result<_, StoreError>>()?;
    due.sort_by_key(|due| due.0);
    due.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(due.into_iter().map(|(_, project, campaign)| (project, campaign)).collect())
}

/// Tries to reserve a campaign's check for this transaction; returns false if another scheduler is checking it. Does
/// not lock the row, so that pausing or cancelling the campaign does not wait.
pub async fn try_lock(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0)) AS is_locked";
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query_one(&statement, &[&format!("campaign {} {id}", project.0)]).await?.try_get("is_locked")?)
}

/// Returns a campaign whose check is due, without locking its row.
pub async fn get_due(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, scheduled_at, \
               status, status_reason, created_at, updated_at, started_at, recipients, under_way, \
               subscription_group_id, occurrence, coalesce(started_at, $3) AS begun_at, coalesce(meant_for, \
               $3) AS meant_for, taken_to, taken, coalesce(paced_to, $3) AS paced_to, test_sent_at, verdict \
               FROM campaign WHERE project_id = $1 AND id = $2 AND look_at <= $3";
    if_due(tx, sql, project, id, now).await
}

/// Locks the row of a campaign whose check is due. Returns `None` if it is not due or another transaction has locked
/// it.
pub async fn lock_due(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    let sql = "SELECT id, name, channel, segment_id, exclude_segment_ids, template_id, settings, scheduled_at, \
               status, status_reason, created_at, updated_at, started_at, recipients, under_way, \
               subscription_group_id, occurrence, coalesce(started_at, $3) AS begun_at, coalesce(meant_for, \
               $3) AS meant_for, taken_to, taken, coalesce(paced_to, $3) AS paced_to, test_sent_at, verdict \
               FROM campaign WHERE project_id = $1 AND id = $2 AND look_at <= $3 FOR UPDATE SKIP LOCKED";
    if_due(tx, sql, project, id, now).await
}

async fn if_due(
    tx: &Transaction<'_>,
    sql: &str,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &id, &now]).await? else {
        return Ok(None);
    };
    let progress = Progress {
        occurrence: row.try_get("occurrence")?,
        started_at: row.try_get("begun_at")?,
        meant_for: row.try_get("meant_for")?,
        queued_to: row.try_get("taken_to")?,
        is_queued: row.try_get("taken")?,
        paced_to: row.try_get("paced_to")?,
        test_sent_at: row.try_get("test_sent_at")?,
        verdict: winner::decoded(id, row.try_get("verdict")?)?,
    };
    Ok(Some((super::from_row(&row)?, progress)))
}

/// Sets a campaign's status and when the scheduler checks it next. `None`: never.
pub async fn set_status(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    (status, reason): (CampaignStatus, Option<&str>),
    next_check_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = $3, status_reason = $4, look_at = $5, faults = 0, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &status.as_str(), &reason, &next_check_at, &now]).await?;
    // Failures from before a resumption do not count afterwards.
    if status == CampaignStatus::Sending { outcomes::forget(tx, project, id).await } else { Ok(()) }
}

/// Returns up to `max` campaigns that are being sent and whose check has been due since `before`.
pub async fn late(db: &impl GenericClient, before: Timestamp, max: i64) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql =
        "SELECT project_id, id FROM campaign WHERE look_at <= $1 AND status = 'SENDING' ORDER BY look_at LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&before, &max]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("id")?))).collect()
}

/// Pauses a campaign that is being sent and whose check has been due since `before`. Returns false if it is in another
/// state.
pub async fn pause_late(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    (before, now): (Timestamp, Timestamp),
    reason: &str,
) -> Result<bool, StoreError> {
    let sql = "UPDATE campaign SET status = 'PAUSED', status_reason = $5, look_at = $4, faults = 0, updated_at = $4 \
               WHERE project_id = $1 AND id = $2 AND status = 'SENDING' AND look_at <= $3";
    Ok(db.execute(sql, &[&project, &id, &before, &now, &reason]).await? > 0)
}

/// Begins an occurrence. `meant_for`: the scheduled time, or now.
pub async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    meant_for: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = 'SENDING', status_reason = NULL, occurrence = occurrence + 1, started_at = $3, \
               meant_for = $4, taken_to = NULL, taken = false, paced_to = $3, recipients = 0, under_way = true, look_at = $3, faults = 0, \
               test_sent_at = NULL, verdict = NULL, updated_at = $3 WHERE project_id = $1 AND id = $2 RETURNING occurrence";
    if let Some(row) = tx.query_opt(sql, &[&project, &id, &now, &meant_for]).await? {
        counts::forget(tx, project, id, Some(row.try_get("occurrence")?)).await?;
    }
    outcomes::forget(tx, project, id).await
}

/// Ends an occurrence. The campaign is completed, or scheduled for `next`. Forgets templates that the campaign used
/// before it was edited.
pub async fn end(
    tx: &impl GenericClient,
    project: ProjectId,
    campaign: &Campaign,
    next: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let status = if next.is_some() { CampaignStatus::Scheduled } else { CampaignStatus::Completed };
    let next_check_at = next.map(|next| campaign.settings.first_check_at(next));
    let sql = "UPDATE campaign SET status = $3, scheduled_at = coalesce($4, scheduled_at), look_at = $5, \
               under_way = false, faults = 0, template_ids = $7, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    let templates = campaign.template_ids();
    tx.execute(sql, &[&project, &campaign.id, &status.as_str(), &next, &next_check_at, &now, &templates]).await?;
    Ok(())
}

/// Schedules the next check of a campaign that has not begun.
pub async fn postpone_check(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    next_check_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET look_at = $3, faults = 0 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &next_check_at]).await?;
    Ok(())
}

/// Schedules a campaign's next check (`None`: never), and records up to when its pace's allowance is used.
pub async fn schedule_check(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    next_check_at: Option<Timestamp>,
    paced_to: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET look_at = $3, paced_to = $4, faults = 0 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &next_check_at, &paced_to]).await?;
    Ok(())
}

/// Campaigns with an unfinished occurrence, and for each the smallest ID that a row of that occurrence can have.
#[derive(Default)]
pub(crate) struct UnfinishedOccurrences {
    pub campaigns: Vec<Uuid>,
    pub first_ids: Vec<Uuid>,
}

/// Returns a project's campaigns with an unfinished occurrence. Retention keeps the rows of these occurrences: reports
/// count them, and the next slice of the audience looks for those of merged users.
pub(crate) async fn under_way(
    db: &impl GenericClient,
    project: ProjectId,
) -> Result<UnfinishedOccurrences, StoreError> {
    let sql = "SELECT id, started_at FROM campaign WHERE project_id = $1 AND under_way \
               AND status IN ('SENDING', 'PAUSED') AND started_at IS NOT NULL";
    let mut under_way = UnfinishedOccurrences::default();
    for row in db.query(&db.prepare_cached(sql).await?, &[&project]).await? {
        let started_at: Timestamp = row.try_get("started_at")?;
        under_way.campaigns.push(row.try_get("id")?);
        under_way.first_ids.push(ids::lower_bound(started_at.as_millisecond()));
    }
    Ok(under_way)
}

/// Returns whether an occurrence that has not ended began within a time. The IDs of all its rows, future ones included,
/// hold that time.
pub(crate) async fn began_within(db: &impl GenericClient, within: Range<Timestamp>) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM campaign WHERE under_way AND status IN ('SENDING', 'PAUSED') AND started_at >= $1 \
               AND started_at < $2 LIMIT 1";
    Ok(db.query_opt(sql, &[&within.start, &within.end]).await?.is_some())
}
