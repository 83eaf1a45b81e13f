//! Sending a campaign: its audience taken into the ledger once, and rows of it released to delivery at the allowed pace.
//!
//! A row of the ledger that is `queued` and has no `due_at` is *parked*: nobody looks at it until it is released, which is
//! not before its `send_at`. Every function here is called in a transaction that holds the campaign's row, so that several
//! schedulers take turns.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use super::{Campaign, outcomes, winner};
use crate::campaign::{CampaignStatus, Verdict};
use crate::ids::{self, ProjectId};
use crate::store::StoreError;

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
        let ms = progress.started_at.as_millisecond();
        Self { project, campaign, first: ids::timed(ms, [0; 10]), last: ids::timed(ms, [u8::MAX; 10]) }
    }
}

/// The conditions of a row that is still to be sent.
pub(super) const TO_SEND: &str = "project_id = $1 AND campaign_id = $2 AND id BETWEEN $3 AND $4 AND status = 'queued'";

/// Campaigns that somebody has to look at, longest due first. No locks: a distributed store refuses them here.
pub async fn due(db: &impl GenericClient, now: Timestamp, most: i64) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT project_id, id FROM campaign WHERE look_at <= $1 ORDER BY look_at LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&now, &most]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// A campaign that is due, held until the transaction's end; none where somebody else holds it or it is not due.
pub async fn hold(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Campaign, Progress)>, StoreError> {
    let sql = format!(
        "SELECT {}, occurrence, coalesce(started_at, $3), coalesce(meant_for, $3), taken_to, taken, coalesce(paced_to, $3), \
         test_sent_at, verdict FROM campaign WHERE project_id = $1 AND id = $2 AND look_at <= $3 FOR UPDATE SKIP LOCKED",
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
    let sql = "UPDATE campaign SET status = $3, status_reason = $4, look_at = $5, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &status.as_str(), &reason, &look_at, &now]).await?;
    // What failed before it was resumed says nothing about what is sent then.
    if status == CampaignStatus::Sending { outcomes::forget(tx, project, id).await } else { Ok(()) }
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
               meant_for = $4, taken_to = NULL, taken = false, paced_to = $3, recipients = 0, under_way = true, look_at = $3, \
               test_sent_at = NULL, verdict = NULL, updated_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &now, &meant_for]).await?;
    outcomes::forget(tx, project, id).await
}

/// Ends a sending: done, or until its next time.
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
               under_way = false, updated_at = $6 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &campaign.id, &status.as_str(), &next, &look_at, &now]).await?;
    Ok(())
}

/// As [`look_again`], of one that has not begun.
pub async fn look_later(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    look_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET look_at = $3 WHERE project_id = $1 AND id = $2";
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
    let sql = "UPDATE campaign SET look_at = $3, paced_to = $4 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &look_at, &paced_to]).await?;
    Ok(())
}

/// How many rows are with delivery: released and not settled; counted up to `most`.
pub async fn released(tx: &impl GenericClient, of: &Rows, most: i64, now: Timestamp) -> Result<i64, StoreError> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT FROM message WHERE {TO_SEND} AND send_at <= $6 AND due_at IS NOT NULL LIMIT $5) AS found"
    );
    let statement = tx.prepare_cached(&sql).await?;
    Ok(tx.query_one(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &most, &now]).await?.try_get(0)?)
}

/// When the first of those rows may go out that may not yet; none where there is none whose time is known.
pub async fn next_time(tx: &impl GenericClient, of: &Rows, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!(
        "SELECT send_at FROM message WHERE {TO_SEND} AND send_at > $5 AND send_at < 'infinity' ORDER BY send_at LIMIT 1"
    );
    let statement = tx.prepare_cached(&sql).await?;
    let row = tx.query_opt(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &now]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Releases up to `most` parked rows whose time has come, to be handed over by `again` at the latest; returns their ids and
/// attempts.
pub async fn release(
    tx: &impl GenericClient,
    of: &Rows,
    most: i64,
    (now, again): (Timestamp, Timestamp),
) -> Result<Vec<(Uuid, i32)>, StoreError> {
    let ids = waiting(tx, of, "due_at IS NULL", most, Some(now)).await?;
    let sql = "UPDATE message SET due_at = $5 WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4 RETURNING id, attempt";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last, &again]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Parks up to `most` of the rows that were released and that nobody holds; returns how many.
pub async fn park(tx: &impl GenericClient, of: &Rows, most: i64) -> Result<u64, StoreError> {
    let ids = waiting(tx, of, "due_at IS NOT NULL AND NOT claimed", most, None).await?;
    let sql = "UPDATE message SET due_at = NULL WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last]).await?)
}

/// Cancels up to `most` of the rows that are still to be sent and that nobody holds; returns how many.
pub async fn cancel(tx: &impl GenericClient, of: &Rows, most: i64, now: Timestamp) -> Result<u64, StoreError> {
    let ids = waiting(tx, of, "NOT claimed", most, None).await?;
    let sql = "UPDATE message SET status = 'cancelled', status_reason = 'campaign_cancelled', due_at = NULL, updated_at = $5 \
               WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last, &now]).await?)
}

/// Some rows that are still to be sent, by a time if that is given, locked. In a statement of its own: joined to what it locked, an update may read the
/// whole ledger.
async fn waiting(
    tx: &impl GenericClient,
    of: &Rows,
    which: &str,
    most: i64,
    by: Option<Timestamp>,
) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!(
        "SELECT id FROM message WHERE {TO_SEND} AND send_at <= coalesce($6::timestamptz, 'infinity') AND {which} LIMIT $5 \
         FOR UPDATE SKIP LOCKED"
    );
    let statement = tx.prepare_cached(&sql).await?;
    tx.query(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &most, &by])
        .await?
        .iter()
        .map(|row| Ok(row.try_get(0)?))
        .collect()
}

/// Whether rows of it are still to be sent.
pub async fn is_open(tx: &impl GenericClient, of: &Rows) -> Result<bool, StoreError> {
    let sql = format!("SELECT EXISTS (SELECT FROM message WHERE {TO_SEND})");
    let statement = tx.prepare_cached(&sql).await?;
    Ok(tx.query_one(&statement, &[&of.project, &of.campaign, &of.first, &of.last]).await?.try_get(0)?)
}

/// Whether messages of any of its sendings are still to be sent.
pub async fn has_open(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM message WHERE project_id = $1 AND campaign_id = $2 AND status = 'queued')";
    Ok(db.query_one(sql, &[&project, &id]).await?.try_get(0)?)
}

/// How many messages of the campaign stand where: by variant and status.
pub async fn report(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
) -> Result<Vec<(Option<String>, String, i64)>, StoreError> {
    let sql = "SELECT variant, status, count(*) FROM message WHERE project_id = $1 AND campaign_id = $2 \
               GROUP BY variant, status ORDER BY variant, status";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
}
