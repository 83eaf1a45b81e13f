//! Sending a campaign: its state, and how far its audience has been taken. What is still to be sent is in `send_chunks::campaign`.
//!
//! Every function that changes something is called in a transaction that holds the campaign's row, so that several schedulers
//! take turns.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::{Campaign, counts, outcomes, winner};
use crate::campaign::{CampaignStatus, Verdict};
use crate::ids::{self, ProjectId};
use crate::store::StoreError;
use crate::store::by_project::{self, Of};
use crate::store::due::{self, Due};
use crate::store::months::Month;

/// How far a campaign has been sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The number of this sending, from 1; a campaign that recurs has many.
    pub occurrence: i32,
    pub started_at: Timestamp,
    /// The time that it was begun for.
    pub meant_for: Timestamp,
    /// Up to which person the audience has been taken.
    pub taken_to: Option<Uuid>,
    /// Everybody has been judged.
    pub taken: bool,
    /// Until when the pace has been used up.
    pub paced_to: Timestamp,
    /// When the test of its variants had been sent.
    pub test_sent_at: Option<Timestamp>,
    /// What came of it.
    pub verdict: Option<Verdict>,
}

/// The rows of one sending. Their ids are made of its beginning, so that all of them lie in one partition.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub project: ProjectId,
    pub campaign: Uuid,
    pub(super) first: Uuid,
    pub(super) last: Uuid,
}

impl Rows {
    pub fn of(project: ProjectId, campaign: Uuid, progress: &Progress) -> Self {
        Self::begun(project, campaign, progress.started_at)
    }

    /// Those of the sending that began then.
    pub fn begun(project: ProjectId, campaign: Uuid, started_at: Timestamp) -> Self {
        let ms = started_at.as_millisecond();
        Self { project, campaign, first: ids::timed(ms, [0; 10]), last: ids::timed(ms, [u8::MAX; 10]) }
    }

    pub(super) fn month(&self) -> Month {
        Month::of(self.first)
    }
}

/// The conditions of a campaign whose sending has begun and may go on.
const UNDER_WAY: &str = "under_way AND status IN ('SENDING', 'PAUSED')";

/// Projects among which campaigns are taken.
const PROJECTS: i64 = 10_000;

/// Campaigns that somebody has to look at, longest due first, and no more than `share` of a project: so one with thousands of them
/// keeps the others waiting no longer than one with a few. No locks: a distributed store refuses them here.
pub async fn due(
    db: &impl GenericClient,
    now: Timestamp,
    share: i64,
    most: i64,
) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let projects = due::projects(db, Due { table: "campaign", at: "look_at" }, now, PROJECTS).await?;
    let sql = |of: Of| {
        format!(
            "SELECT p.id, c.id, c.look_at FROM unnest($1::uuid[]) AS p (id) CROSS JOIN LATERAL (SELECT id, look_at FROM campaign \
             WHERE project_id = {project} AND look_at <= $2 ORDER BY look_at LIMIT $3) AS c ORDER BY c.look_at LIMIT $4",
            project = of("p.id")
        )
    };
    let read = async |statement: Statement, part: &[ProjectId]| {
        Ok(db.query(&statement, &[&part, &now, &share, &most]).await?)
    };
    let rows = by_project::each(db, &projects, |project| *project, sql, read).await?;
    let due = |row: &Row| Ok((row.try_get(2)?, row.try_get(0)?, row.try_get(1)?));
    let mut due: Vec<(Timestamp, ProjectId, Uuid)> =
        rows.iter().flatten().map(due).collect::<Result<_, StoreError>>()?;
    due.sort_by_key(|due| due.0);
    due.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(due.into_iter().map(|(_, project, campaign)| (project, campaign)).collect())
}

/// Makes a campaign this transaction's to look at; false where another scheduler is at it. Its row is not locked by that, so
/// that whoever pauses or cancels it does not wait.
pub async fn take_turn(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0))";
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query_one(&statement, &[&format!("campaign {} {id}", project.0)]).await?.try_get(0)?)
}

/// A campaign that is due, as it stands; none where it is not due.
pub async fn look_up(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    if_due(tx, project, id, now, "").await
}

/// A campaign that is due, held until the transaction's end; none where somebody else holds it or it is not due.
pub async fn hold(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    if_due(tx, project, id, now, "FOR UPDATE SKIP LOCKED").await
}

async fn if_due(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
    lock: &str,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    let sql = format!(
        "SELECT {}, occurrence, coalesce(started_at, $3), coalesce(meant_for, $3), taken_to, taken, coalesce(paced_to, $3), \
         test_sent_at, verdict FROM campaign WHERE project_id = $1 AND id = $2 AND look_at <= $3 {lock}",
        super::COLUMNS
    );
    let Some(row) = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&project, &id, &now]).await? else {
        return Ok(None);
    };
    let at = super::COLUMNS_COUNT;
    let progress = Progress {
        occurrence: row.try_get(at)?,
        started_at: row.try_get(at + 1)?,
        meant_for: row.try_get(at + 2)?,
        taken_to: row.try_get(at + 3)?,
        taken: row.try_get(at + 4)?,
        paced_to: row.try_get(at + 5)?,
        test_sent_at: row.try_get(at + 6)?,
        verdict: winner::decoded(id, row.try_get(at + 7)?)?,
    };
    Ok(Some((super::from_row(&row)?, progress)))
}

/// Moves a campaign to another state; `look_at` is when the scheduler has to look at it.
pub async fn to_state(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    (status, reason): (CampaignStatus, Option<&str>),
    look_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = $3, status_reason = $4, look_at = $5, faults = 0, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &status.as_str(), &reason, &look_at, &now]).await?;
    // What failed before it was resumed says nothing about what is sent then.
    if status == CampaignStatus::Sending { outcomes::forget(tx, project, id).await } else { Ok(()) }
}

/// Campaigns that are being sent and that nobody has looked at since `before`.
pub async fn late(db: &impl GenericClient, before: Timestamp, most: i64) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql =
        "SELECT project_id, id FROM campaign WHERE look_at <= $1 AND status = 'SENDING' ORDER BY look_at LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&before, &most]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Pauses a campaign that is being sent and that nobody has looked at since `before`; false where it does not stand so.
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

/// Begins a sending that is meant for a time: as it was scheduled, or now.
pub async fn begin(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    meant_for: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = 'SENDING', status_reason = NULL, occurrence = occurrence + 1, started_at = $3, \
               meant_for = $4, taken_to = NULL, taken = false, paced_to = $3, recipients = 0, under_way = true, look_at = $3, faults = 0, \
               test_sent_at = NULL, verdict = NULL, updated_at = $3 WHERE project_id = $1 AND id = $2 RETURNING occurrence";
    if let Some(row) = tx.query_opt(sql, &[&project, &id, &now, &meant_for]).await? {
        counts::forget(tx, project, id, Some(row.try_get(0)?)).await?;
    }
    outcomes::forget(tx, project, id).await
}

/// Ends a sending: done, or until its next time. Nothing goes by templates any more that were the campaign's before.
pub async fn end(
    tx: &impl GenericClient,
    project: ProjectId,
    campaign: &Campaign,
    next: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let status = if next.is_some() { CampaignStatus::Scheduled } else { CampaignStatus::Completed };
    let look_at = next.map(|next| campaign.settings.first_look(next));
    let sql = "UPDATE campaign SET status = $3, scheduled_at = coalesce($4, scheduled_at), look_at = $5, \
               under_way = false, faults = 0, template_ids = $7, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    let templates = campaign.template_ids();
    tx.execute(sql, &[&project, &campaign.id, &status.as_str(), &next, &look_at, &now, &templates]).await?;
    Ok(())
}

/// As [`look_again`], of one that has not begun.
pub async fn look_later(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    look_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET look_at = $3, faults = 0 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &look_at]).await?;
    Ok(())
}

/// Says when the scheduler looks at it again, and how far the pace has been used up.
pub async fn look_again(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    look_at: Option<Timestamp>,
    paced_to: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET look_at = $3, paced_to = $4, faults = 0 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &look_at, &paced_to]).await?;
    Ok(())
}

/// Returns a project's campaigns with a sending under way, and for each the smallest id that a row of that sending can have.
/// Retention keeps these rows: reports count them, and the next slice of the audience looks for those of merged users.
pub(in crate::store) async fn under_way(
    db: &impl GenericClient,
    project: ProjectId,
) -> Result<(Vec<Uuid>, Vec<Uuid>), StoreError> {
    let sql =
        format!("SELECT id, started_at FROM campaign WHERE project_id = $1 AND {UNDER_WAY} AND started_at IS NOT NULL");
    let rows = db.query(&db.prepare_cached(&sql).await?, &[&project]).await?;
    let first = |row: &Row| {
        let (campaign, started_at): (Uuid, Timestamp) = (row.try_get(0)?, row.try_get(1)?);
        Ok((campaign, ids::lower_bound(started_at.as_millisecond())))
    };
    let sendings: Vec<(Uuid, Uuid)> = rows.iter().map(first).collect::<Result<_, StoreError>>()?;
    Ok(sendings.into_iter().unzip())
}

/// Whether a sending under way began within `from..to`. The ids of all its rows, future ones included, hold that time.
pub(in crate::store) async fn began_within(
    db: &impl GenericClient,
    (from, to): (Timestamp, Timestamp),
) -> Result<bool, StoreError> {
    let sql = format!("SELECT id FROM campaign WHERE {UNDER_WAY} AND started_at >= $1 AND started_at < $2 LIMIT 1");
    Ok(db.query_opt(&sql, &[&from, &to]).await?.is_some())
}
