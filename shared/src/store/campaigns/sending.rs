//! Sending a campaign: its audience taken into the ledger once, and rows of it released to delivery at the allowed pace.
//!
//! A row of the ledger that is `queued` and has no `due_at` is *parked*: nobody looks at it until it is released. Every
//! function here is called in a transaction that holds the campaign's row, so that several schedulers take turns.

use std::collections::BTreeSet;
use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Campaign;
use crate::campaign::CampaignStatus;
use crate::ids::{self, ProjectId};
use crate::rule::sql::Membership;
use crate::rule::{Condition, Leaf, Rule, sql};
use crate::store::StoreError;
use crate::store::messages::insert::any_lane;
use crate::store::segments::evaluate;

/// How far a campaign has been sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The number of this sending, from 1; a campaign that recurs has many.
    pub occurrence: i32,
    pub started_at: Timestamp,
    /// Up to which person the audience has been taken.
    pub taken_to: Option<Uuid>,
    /// Everybody has been judged.
    pub taken: bool,
    /// Until when the pace has been used up.
    pub paced_to: Timestamp,
}

/// The rows of one sending. Their ids are made of its beginning, so that all of them lie in one partition.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub project: ProjectId,
    pub campaign: Uuid,
    first: Uuid,
    last: Uuid,
}

impl Rows {
    pub fn of(project: ProjectId, campaign: Uuid, progress: &Progress) -> Self {
        let ms = progress.started_at.as_millisecond();
        Self { project, campaign, first: ids::timed(ms, [0; 10]), last: ids::timed(ms, [u8::MAX; 10]) }
    }
}

/// The conditions of a row that is still to be sent.
const TO_SEND: &str = "project_id = $1 AND campaign_id = $2 AND id BETWEEN $3 AND $4 AND status = 'queued'";

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
        "SELECT {}, occurrence, coalesce(started_at, $3), taken_to, taken, coalesce(paced_to, $3) FROM campaign \
         WHERE project_id = $1 AND id = $2 AND look_at <= $3 FOR UPDATE SKIP LOCKED",
        super::COLUMNS
    );
    let Some(row) = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&project, &id, &now]).await? else {
        return Ok(None);
    };
    let at = super::COLUMNS_COUNT;
    let progress = Progress {
        occurrence: row.try_get(at)?,
        started_at: row.try_get(at + 1)?,
        taken_to: row.try_get(at + 2)?,
        taken: row.try_get(at + 3)?,
        paced_to: row.try_get(at + 4)?,
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
    Ok(())
}

/// Begins a sending.
pub async fn begin(tx: &impl GenericClient, project: ProjectId, id: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET status = 'SENDING', status_reason = NULL, occurrence = occurrence + 1, started_at = $3, \
               taken_to = NULL, taken = false, paced_to = $3, recipients = 0, under_way = true, look_at = $3, updated_at = $3 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &now]).await?;
    Ok(())
}

/// Ends a sending: done, or until its next time.
pub async fn end(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    next: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let status = if next.is_some() { CampaignStatus::Scheduled } else { CampaignStatus::Completed };
    let sql = "UPDATE campaign SET status = $3, scheduled_at = coalesce($4, scheduled_at), look_at = $4, \
               under_way = false, updated_at = $5 \
               WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &status.as_str(), &next, &now]).await?;
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

/// Takes the next `most` people of the audience into the ledger, parked; returns how many they were. Each person is judged
/// by the slice that they fall into, and gets one row of each sending, whatever is done twice: the row's id is made of it.
/// Who was merged since the beginning, and had a row before, has one already.
pub async fn take_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    most: i64,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let people = audience(tx, project, campaign, now).await?;
    let served = served(tx, project, campaign.id, progress).await?;
    let sql::People { with, from, condition, params } = people;
    let mut params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    let mut place = |value| {
        params.push(value);
        params.len()
    };
    let (templates, names, bounds) = shares(campaign);
    let data = campaign.data();
    let (started_ms, from_id) = (progress.started_at.as_millisecond(), progress.taken_to.unwrap_or(Uuid::nil()));
    let (key, channel, lane) =
        (format!("{}:{}", campaign.id, progress.occurrence), campaign.channel.as_str(), any_lane());
    let (from_id, most, ms, key) = (place(&from_id), place(&most), place(&started_ms), place(&key));
    let (channel, data, id) = (place(&channel), place(&data), place(&campaign.id));
    let (templates, names, bounds, served) = (place(&templates), place(&names), place(&bounds), place(&served));
    let (started, lane, number) = (place(&progress.started_at), place(&lane), place(&progress.occurrence));
    let with = if with.is_empty() { "WITH ".to_owned() } else { format!("{with}, ") };
    let statement = format!(
        "{with} slice AS MATERIALIZED (SELECT u.id, md5(${key}::text || u.id::text) AS hash FROM {from} \
         WHERE {condition} AND u.id > ${from_id}::uuid ORDER BY u.id LIMIT ${most}), \
         share AS MATERIALIZED (SELECT s.id, s.hash, width_bucket((('x' || substr(s.hash, 25, 7))::bit(28)::int)::float8 / 268435456 * 100, \
         ${bounds}::float8[]) AS nth FROM slice s WHERE NOT (s.id = ANY(${served}::uuid[]))), \
         new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, data, campaign_id, occurrence, \
         variant, created_at, updated_at) \
         SELECT $1, (lpad(to_hex(${ms}::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid, id, \
         ${channel}::text, 'campaign', 'queued', (${templates}::uuid[])[nth + 1], ${data}::jsonb, ${id}::uuid, ${number}::int, \
         (${names}::text[])[nth + 1], ${started}::timestamptz, ${started}::timestamptz FROM share \
         ON CONFLICT (project_id, id) DO NOTHING RETURNING 1), \
         counted AS (INSERT INTO message_count (project_id, lane, count) SELECT $1, ${lane}::smallint, count(*) FROM new \
         ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count), \
         moved AS (SELECT count(*) AS seen, max(id::text)::uuid AS last FROM slice) \
         UPDATE campaign c SET taken_to = coalesce(moved.last, c.taken_to), taken = moved.seen < ${most}, \
         recipients = c.recipients + (SELECT count(*) FROM new) FROM moved \
         WHERE c.project_id = $1 AND c.id = ${id}::uuid RETURNING moved.seen"
    );
    evaluate::for_sets(tx, true).await?;
    let seen = tx.query_one(&statement, &params).await?.try_get(0)?;
    evaluate::for_sets(tx, false).await?;
    Ok(seen)
}

/// Who was merged with somebody since the beginning who had a row before: they have theirs.
async fn served(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: Uuid,
    progress: &Progress,
) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT DISTINCT u.merged_into FROM users u JOIN message m ON m.project_id = $1 AND m.user_id = u.id \
               AND m.campaign_id = $2 AND m.occurrence = $3 \
               WHERE u.project_id = $1 AND u.merged_into IS NOT NULL AND u.merged_at >= $4";
    let rows = tx.query(sql, &[&project, &campaign, &progress.occurrence, &progress.started_at]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Whoever is in the campaign's segment and in none of the excluded ones.
async fn audience(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    now: Timestamp,
) -> Result<sql::People, StoreError> {
    let member = |ids: &[Uuid], negated| {
        Rule::Leaf(Leaf { negated, condition: Condition::Segment(ids.iter().copied().collect()) })
    };
    let roots: BTreeSet<Uuid> = campaign.segment_ids().into_iter().collect();
    let segments: HashMap<Uuid, Membership> = evaluate::definitions(tx, project, &roots).await?;
    let mut rules = match segments.get(&campaign.segment_id) {
        Some(Membership::Rules(rules)) => rules.clone(),
        _ => vec![member(&[campaign.segment_id], false)],
    };
    if !campaign.exclude_segment_ids.is_empty() {
        rules.push(member(&campaign.exclude_segment_ids, true));
    }
    Ok(sql::people(project, &rules, &segments, now))
}

/// Templates, names, and the percentages at which the next one begins.
fn shares(campaign: &Campaign) -> (Vec<Option<Uuid>>, Vec<Option<String>>, Vec<f64>) {
    let variants = &campaign.settings.variants;
    if variants.is_empty() {
        // One bound that no share reaches.
        return (vec![campaign.template_id], vec![None], vec![101.0]);
    }
    let templates = variants.iter().map(|variant| Some(variant.template_id)).collect();
    let names = variants.iter().map(|variant| Some(variant.name.clone())).collect();
    let mut sum = 0.0;
    let mut bounds: Vec<f64> = variants
        .iter()
        .map(|variant| {
            sum += variant.weight;
            sum
        })
        .collect();
    // The last share ends where all do, whatever the weights add up to in the last digit.
    if let Some(last) = bounds.last_mut() {
        *last = 101.0;
    }
    (templates, names, bounds)
}

/// How many rows are with delivery: released and not settled; counted up to `most`.
pub async fn released(tx: &impl GenericClient, of: &Rows, most: i64) -> Result<i64, StoreError> {
    let sql =
        format!("SELECT count(*) FROM (SELECT FROM message WHERE {TO_SEND} AND due_at IS NOT NULL LIMIT $5) AS found");
    let statement = tx.prepare_cached(&sql).await?;
    Ok(tx.query_one(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &most]).await?.try_get(0)?)
}

/// Releases up to `most` parked rows, to be handed over by `again` at the latest; returns their ids and attempts.
pub async fn release(
    tx: &impl GenericClient,
    of: &Rows,
    most: i64,
    again: Timestamp,
) -> Result<Vec<(Uuid, i32)>, StoreError> {
    let ids = waiting(tx, of, "due_at IS NULL", most).await?;
    let sql = "UPDATE message SET due_at = $5 WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4 RETURNING id, attempt";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last, &again]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Parks up to `most` of the rows that were released and that nobody holds; returns how many.
pub async fn park(tx: &impl GenericClient, of: &Rows, most: i64) -> Result<u64, StoreError> {
    let ids = waiting(tx, of, "due_at IS NOT NULL AND NOT claimed", most).await?;
    let sql = "UPDATE message SET due_at = NULL WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last]).await?)
}

/// Cancels up to `most` of the rows that are still to be sent and that nobody holds; returns how many.
pub async fn cancel(tx: &impl GenericClient, of: &Rows, most: i64, now: Timestamp) -> Result<u64, StoreError> {
    let ids = waiting(tx, of, "NOT claimed", most).await?;
    let sql = "UPDATE message SET status = 'cancelled', status_reason = 'campaign_cancelled', due_at = NULL, updated_at = $5 \
               WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &ids, &of.first, &of.last, &now]).await?)
}

/// Some rows that are still to be sent, locked. In a statement of its own: joined to what it locked, an update may read the
/// whole ledger.
async fn waiting(tx: &impl GenericClient, of: &Rows, which: &str, most: i64) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!("SELECT id FROM message WHERE {TO_SEND} AND {which} LIMIT $5 FOR UPDATE SKIP LOCKED");
    let statement = tx.prepare_cached(&sql).await?;
    tx.query(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &most])
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
