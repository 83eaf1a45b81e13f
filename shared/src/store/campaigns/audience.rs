//! Taking a campaign's audience into the ledger.

use std::collections::{BTreeSet, HashMap};

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Campaign;
use super::sending::Progress;
use crate::campaign::LocalTimes;
use crate::ids::ProjectId;
use crate::rule::sql::Membership;
use crate::rule::{Condition, Leaf, Rule, sql};
use crate::store::messages::insert::any_lane;
use crate::store::segments::evaluate;
use crate::store::{StoreError, projects};

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
    let local = if campaign.settings.send_in_user_timezone {
        let home = projects::timezone(tx, project).await?;
        Some(LocalTimes::from(progress.started_at, progress.meant_for, &home))
    } else {
        None
    };
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
    let zones = local.as_ref().map(LocalTimes::columns);
    let test_share = campaign.settings.winner.as_ref().map(|winner| winner.test_share);
    let (from_id, most, ms, key) = (place(&from_id), place(&most), place(&started_ms), place(&key));
    let (channel, data, id) = (place(&channel), place(&data), place(&campaign.id));
    let (templates, names, bounds, served) = (place(&templates), place(&names), place(&bounds), place(&served));
    let (started, lane, number) = (place(&progress.started_at), place(&lane), place(&progress.occurrence));
    // When each row may go out: at once, or at the time of the person's own timezone.
    let (zone, join, send_at) = match (&local, &zones) {
        (Some(local), Some((zones, times))) => {
            let (zones, times, elsewhere) = (place(zones), place(times), place(&local.elsewhere));
            let join = format!(
                "LEFT JOIN unnest(${zones}::text[], ${times}::timestamptz[]) AS z (name, at) ON z.name = s.zone"
            );
            ("lower(u.properties ->> 'timezone')", join, format!("coalesce(z.at, ${elsewhere}::timestamptz)"))
        }
        _ => ("NULL::text", String::new(), format!("${started}::timestamptz")),
    };
    // Whoever does not fall into the test gets no variant yet, and nothing before there is one.
    let in_test = match &test_share {
        None => "true".to_owned(),
        Some(share) => {
            let share = place(share);
            format!("(('x' || substr(s.hash, 19, 6))::bit(24)::int)::float8 / 16777216 * 100 < ${share}::float8")
        }
    };
    let with = if with.is_empty() { "WITH ".to_owned() } else { format!("{with}, ") };
    let statement = format!(
        "{with} slice AS MATERIALIZED (SELECT u.id, {zone} AS zone, md5(${key}::text || u.id::text) AS hash FROM {from} \
         WHERE {condition} AND u.id > ${from_id}::uuid ORDER BY u.id LIMIT ${most}), \
         share AS MATERIALIZED (SELECT s.id, s.hash, {send_at} AS send_at, {in_test} AS tested, \
         width_bucket((('x' || substr(s.hash, 25, 7))::bit(28)::int)::float8 / 268435456 * 100, \
         ${bounds}::float8[]) AS nth FROM slice s {join} WHERE NOT (s.id = ANY(${served}::uuid[]))), \
         new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, data, campaign_id, occurrence, \
         variant, send_at, created_at, updated_at) \
         SELECT $1, (lpad(to_hex(${ms}::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid, id, \
         ${channel}::text, 'campaign', 'queued', CASE WHEN tested THEN (${templates}::uuid[])[nth + 1] END, ${data}::jsonb, ${id}::uuid, ${number}::int, \
         CASE WHEN tested THEN (${names}::text[])[nth + 1] END, CASE WHEN tested THEN send_at ELSE 'infinity' END, ${started}::timestamptz, ${started}::timestamptz FROM share \
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
