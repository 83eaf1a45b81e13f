//! Taking a campaign's audience into the ledger.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

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
use crate::store::segments::evaluate::{self, Definitions};
use crate::store::users::read;
use crate::store::{StoreError, projects};

/// The next recipients of an audience, found before the campaign's row is locked, because finding them may take long and must not
/// delay a pause or a cancellation.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    people: Vec<Uuid>,
    /// The names of their timezones, in lower case, where the campaign is sent by those.
    zones: Vec<Option<String>>,
    /// Users up to this id have been judged; none where all have.
    to: Option<Uuid>,
    /// The occurrence, the position and the version of the campaign that the slice continues from.
    after: (i32, Option<Uuid>, Timestamp),
}

impl Slice {
    pub fn len(&self) -> usize {
        self.people.len()
    }

    pub fn is_empty(&self) -> bool {
        self.people.is_empty()
    }

    /// Whether the slice continues from the campaign's current position: no one has changed it or stored recipients since.
    pub fn goes_on_from(&self, campaign: &Campaign, progress: &Progress) -> bool {
        self.after == (progress.occurrence, progress.taken_to, campaign.updated_at)
    }
}

/// How long finding one slice of a sparse audience may go on, and how long one of its queries should take at most.
const FINDING: Duration = Duration::from_secs(5);
const RANGE: Duration = Duration::from_secs(1);

/// Finds up to `most` further recipients. Users are judged range by range in the order of their ids: the cost of a slice depends on
/// the users in its ranges and not on the size of the audience. Where few of them are recipients, the ranges grow.
pub async fn find_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    most: i64,
    now: Timestamp,
) -> Result<Slice, StoreError> {
    let (rules, segments) = audience(tx, project, campaign).await?;
    let after = (progress.occurrence, progress.taken_to, campaign.updated_at);
    let mut slice = Slice { people: Vec::new(), zones: Vec::new(), to: progress.taken_to, after };
    let (began, mut width) = (Instant::now(), most);
    evaluate::for_ranges(tx, true).await?;
    loop {
        let asked = Instant::now();
        let from = slice.to.unwrap_or(Uuid::nil());
        let end = read::range_end(tx, project, from, width).await?;
        let range = sql::IdRange { after: from, to: end.unwrap_or(Uuid::max()) };
        let left = most - slice.people.len() as i64;
        let by_zone = campaign.settings.send_in_user_timezone;
        let people = sql::people_between(project, &rules, &segments, now, range);
        let found = find(tx, &people, by_zone, left).await?;
        let (count, is_cut) = (found.len() as i64, found.len() as i64 == left);
        for (id, zone) in found {
            slice.people.push(id);
            slice.zones.push(zone);
        }
        slice.to = if is_cut { slice.people.last().copied() } else { end };
        if slice.to.is_none() || slice.people.len() as i64 > most / 2 || began.elapsed() > FINDING {
            break;
        }
        if count < width / 8 && asked.elapsed() * 4 < RANGE {
            width *= 4;
        }
    }
    evaluate::for_ranges(tx, false).await?;
    Ok(slice)
}

/// Up to `most` of these people in the order of their ids, with the names of their timezones.
async fn find(
    tx: &Transaction<'_>,
    sql::People { with, from, condition, params }: &sql::People,
    by_zone: bool,
    most: i64,
) -> Result<Vec<(Uuid, Option<String>)>, StoreError> {
    let mut params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    params.push(&most);
    let limit = params.len();
    let zone = if by_zone { "lower(u.properties ->> 'timezone')" } else { "NULL::text" };
    let statement =
        format!("{with} SELECT u.id, {zone} FROM {from} WHERE {condition} ORDER BY u.id LIMIT ${limit}::bigint");
    tx.query(&statement, &params).await?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
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
    let is_last = slice.to.is_none();
    let (first, last, to, taken) = (place(&first), place(&last), place(&slice.to), place(&is_last));
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
         UPDATE campaign c SET taken_to = coalesce(${to}::uuid, c.taken_to), taken = ${taken}::boolean, \
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

/// The rules of users who are in the campaign's segment and in none of the excluded ones, and the segments that these name.
async fn audience(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
) -> Result<(Vec<Rule>, Definitions), StoreError> {
    let member = |ids: &[Uuid], negated| {
        Rule::Leaf(Leaf { negated, condition: Condition::Segment(ids.iter().copied().collect()) })
    };
    let roots: BTreeSet<Uuid> = campaign.segment_ids().into_iter().collect();
    let segments = evaluate::definitions(tx, project, &roots).await?;
    let mut rules = match segments.get(&campaign.segment_id) {
        Some(Membership::Rules(rules)) => rules.clone(),
        _ => vec![member(&[campaign.segment_id], false)],
    };
    if !campaign.exclude_segment_ids.is_empty() {
        rules.push(member(&campaign.exclude_segment_ids, true));
    }
    Ok((rules, segments))
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
