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
use crate::store::messages::by_id::of_sending;
use crate::store::messages::insert::any_lane;
use crate::store::segments::evaluate;
use crate::store::{StoreError, projects};

/// The next people of an audience, found before the campaign's row is locked: that may take long, and whoever pauses or
/// cancels it shall not wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    people: Vec<Uuid>,
    /// What they call their timezones, in lower case, where it is sent by those.
    zones: Vec<Option<String>>,
    /// Nobody comes after them.
    is_last: bool,
    /// Of which sending they are, after whom, and by the campaign as of when.
    after: (i32, Option<Uuid>, Timestamp),
}

impl Slice {
    pub fn len(&self) -> usize {
        self.people.len()
    }

    pub fn is_empty(&self) -> bool {
        self.people.is_empty()
    }

    /// Whether it goes on where a campaign, held now, stands: nobody has changed it or taken people since.
    pub fn goes_on_from(&self, campaign: &Campaign, progress: &Progress) -> bool {
        self.after == (progress.occurrence, progress.taken_to, campaign.updated_at)
    }
}

/// Finds the next `most` people of the audience. Each person is judged by the slice that they fall into.
pub async fn find_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    most: i64,
    now: Timestamp,
) -> Result<Slice, StoreError> {
    let sql::People { with, from, condition, params } = audience(tx, project, campaign, now).await?;
    let mut params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    let from_id = progress.taken_to.unwrap_or(Uuid::nil());
    params.push(&from_id);
    params.push(&most);
    let (after, limit) = (params.len() - 1, params.len());
    let by_zone = campaign.settings.send_in_user_timezone;
    let zone = if by_zone { "lower(u.properties ->> 'timezone')" } else { "NULL::text" };
    let statement = format!(
        "{with} SELECT u.id, {zone} FROM {from} WHERE {condition} AND u.id > ${after}::uuid ORDER BY u.id LIMIT ${limit}::bigint"
    );
    evaluate::for_sets(tx, true).await?;
    let rows = tx.query(&statement, &params).await?;
    evaluate::for_sets(tx, false).await?;
    let people: Vec<Uuid> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let zones: Vec<Option<String>> = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
    let is_last = (people.len() as i64) < most;
    Ok(Slice { people, zones, is_last, after: (progress.occurrence, progress.taken_to, campaign.updated_at) })
}

/// Stores messages to these users, parked. The id of a message is derived from the sending and the user, so a repeat stores nothing.
/// Users who were erased or merged since they were found get none. A user who was merged with one that has a message already gets
/// another here; delivery sends one of them (`messages::merged`). The caller holds the campaign's row, and the slice continues
/// from it.
pub async fn take_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    slice: &Slice,
) -> Result<(), StoreError> {
    let key = format!("{}:{}", campaign.id, progress.occurrence);
    let times = send_times(tx, project, campaign, progress, slice).await?;
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&project];
    let mut place = |value| {
        params.push(value);
        params.len()
    };
    let (templates, names, bounds) = shares(campaign);
    let data = campaign.data();
    let started_ms = progress.started_at.as_millisecond();
    let (channel, lane) = (campaign.channel.as_str(), any_lane());
    let test_share = campaign.settings.winner.as_ref().map(|winner| winner.test_share);
    let (first, last) = (slice.people.first().copied(), slice.people.last().copied());
    let (people, times, ms, key) = (place(&slice.people), place(&times), place(&started_ms), place(&key));
    let (first, last, taken) = (place(&first), place(&last), place(&slice.is_last));
    let (channel, data, id) = (place(&channel), place(&data), place(&campaign.id));
    let group = place(&campaign.subscription_group_id);
    let (templates, names, bounds) = (place(&templates), place(&names), place(&bounds));
    let (started, lane, number) = (place(&progress.started_at), place(&lane), place(&progress.occurrence));
    // Whoever does not fall into the test gets no variant yet, and nothing before there is one.
    let in_test = match &test_share {
        None => "true".to_owned(),
        Some(share) => {
            let share = place(share);
            format!("(('x' || substr(s.hash, 19, 6))::bit(24)::int)::float8 / 16777216 * 100 < ${share}::float8")
        }
    };
    let row_id = of_sending(&format!("${ms}"), "hash");
    let statement = format!(
        "WITH slice AS MATERIALIZED (SELECT u.id, v.send_at, md5(${key}::text || u.id::text) AS hash \
         FROM unnest(${people}::uuid[], ${times}::timestamptz[]) AS v (id, send_at) JOIN users u ON u.project_id = $1::uuid \
         AND u.id = v.id AND u.id BETWEEN ${first}::uuid AND ${last}::uuid AND u.merged_into IS NULL), \
         share AS MATERIALIZED (SELECT s.id, s.hash, s.send_at, {in_test} AS tested, \
         width_bucket((('x' || substr(s.hash, 25, 7))::bit(28)::int)::float8 / 268435456 * 100, \
         ${bounds}::float8[]) AS nth FROM slice s), \
         new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, data, campaign_id, occurrence, \
         variant, subscription_group_id, send_at, created_at, updated_at) \
         SELECT $1::uuid, {row_id}, id, \
         ${channel}::text, 'campaign', 'queued', CASE WHEN tested THEN (${templates}::uuid[])[nth + 1] END, ${data}::jsonb, ${id}::uuid, ${number}::int, \
         CASE WHEN tested THEN (${names}::text[])[nth + 1] END, ${group}::uuid, CASE WHEN tested THEN send_at ELSE 'infinity' END, ${started}::timestamptz, ${started}::timestamptz FROM share \
         ON CONFLICT (project_id, id) DO NOTHING RETURNING 1), \
         counted AS (INSERT INTO message_count (project_id, lane, count) SELECT $1::uuid, ${lane}::smallint, count(*) FROM new \
         ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count) \
         UPDATE campaign c SET taken_to = coalesce(${last}::uuid, c.taken_to), taken = ${taken}::boolean, \
         recipients = c.recipients + (SELECT count(*) FROM new) WHERE c.project_id = $1::uuid AND c.id = ${id}::uuid"
    );
    tx.execute(&statement, &params).await?;
    Ok(())
}

/// When each row of a slice may go out: at once, or at the time of the person's own timezone.
async fn send_times(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    slice: &Slice,
) -> Result<Vec<Timestamp>, StoreError> {
    if !campaign.settings.send_in_user_timezone {
        return Ok(vec![progress.started_at; slice.people.len()]);
    }
    let home = projects::timezone(tx, project).await?;
    let local = LocalTimes::from(progress.started_at, progress.meant_for, &home);
    let (names, times) = local.columns();
    let by_name: HashMap<&str, Timestamp> = names.into_iter().zip(times).collect();
    let known = slice.zones.iter().map(|zone| zone.as_deref().and_then(|name| by_name.get(name).copied()));
    Ok(known.map(|time| time.unwrap_or(local.elsewhere)).collect())
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
