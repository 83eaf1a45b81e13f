//! Queues a campaign's audience.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::Campaign;
use super::counts::{self, Counts};
use super::occurrence::Progress;
use crate::send_chunks::{self, CAPACITY, NewChunk, SendAt, Share};
use database::StoreError;
use domain::campaign::{LocalTimes, Variant};
use domain::message::{DeliveryState, Lane, Queue};
use kernel::ids::ProjectId;
use rules::sql::Membership;
use rules::{Condition, Leaf, Rule, sql};
use store_profiles::segments::evaluate::{self, Definitions};
use store_profiles::users::read;
use store_projects::projects;

/// The next recipients of an audience, found before the campaign's row is locked, because finding them may take long
/// and must not delay a pause or a cancellation.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    users: Vec<Uuid>,
    /// The names of their timezones, in lower case, if the campaign is sent in user timezones.
    zones: Vec<Option<String>>,
    /// Users up to this ID have been evaluated; `None` if all have.
    to: Option<Uuid>,
    /// When the search began. A user who is erased later gets no message.
    found_at: Timestamp,
    /// The occurrence, the position and the version of the campaign that the slice continues from.
    after: (i32, Option<Uuid>, Timestamp),
}

impl Slice {
    pub fn len(&self) -> usize {
        self.users.len()
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Returns whether the slice continues from the campaign's current position: no other transaction has changed the
    /// campaign or queued recipients since.
    pub fn continues_from(&self, campaign: &Campaign, progress: &Progress) -> bool {
        self.after == (progress.occurrence, progress.queued_to, campaign.updated_at)
    }
}

/// How long finding one slice of a sparse audience may go on, and how long one of its queries should take at most.
const MAX_FIND_TIME: Duration = Duration::from_secs(5);
const MAX_RANGE_TIME: Duration = Duration::from_secs(1);

/// Finds up to `max` further recipients.
///
/// Users are evaluated range by range in the order of their IDs: the cost of a slice depends on the users in its ranges
/// and not on the size of the audience. If few of them are recipients, the ranges grow.
pub async fn find_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    max: i64,
    now: Timestamp,
) -> Result<Slice, StoreError> {
    let (rules, segments) = audience(tx, project, campaign).await?;
    let after = (progress.occurrence, progress.queued_to, campaign.updated_at);
    let mut slice = Slice { users: Vec::new(), zones: Vec::new(), to: progress.queued_to, found_at: now, after };
    let (began, mut width) = (Instant::now(), max);
    evaluate::configure_range_scans(tx, true).await?;
    loop {
        let range_began = Instant::now();
        let from = slice.to.unwrap_or_default();
        let end = read::range_end(tx, project, from, width).await?;
        let range = sql::IdRange { after: from, to: end.unwrap_or(Uuid::max()) };
        let left = max - slice.users.len() as i64;
        let by_zone = campaign.settings.send_in_user_timezone;
        let users = sql::users_in_range(project, &rules, &segments, now, range);
        let found = find(tx, &users, by_zone, left).await?;
        let (count, is_cut) = (found.len() as i64, found.len() as i64 == left);
        for (id, zone) in found {
            slice.users.push(id);
            slice.zones.push(zone);
        }
        slice.to = if is_cut { slice.users.last().copied() } else { end };
        if slice.to.is_none() || slice.users.len() as i64 > max / 2 || began.elapsed() > MAX_FIND_TIME {
            break;
        }
        if count < width / 8 && range_began.elapsed() * 4 < MAX_RANGE_TIME {
            width *= 4;
        }
    }
    evaluate::configure_range_scans(tx, false).await?;
    Ok(slice)
}

/// Returns up to `max` of these users in the order of their IDs, with the names of their timezones.
async fn find(
    tx: &Transaction<'_>,
    sql::UserQuery { with, from, condition, params }: &sql::UserQuery,
    by_zone: bool,
    max: i64,
) -> Result<Vec<(Uuid, Option<String>)>, StoreError> {
    let mut params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    params.push(&max);
    let limit = params.len();
    let zone = if by_zone { "lower(u.properties ->> 'timezone')" } else { "NULL::text" };
    let statement = format!(
        "{with} SELECT u.id, {zone} AS zone FROM {from} WHERE {condition} ORDER BY u.id LIMIT ${limit}::bigint"
    );
    tx.query(&statement, &params).await?.iter().map(|row| Ok((row.try_get("id")?, row.try_get("zone")?))).collect()
}

/// Queues these users in parked chunks, by variant and time, and advances the campaign.
///
/// The caller has locked the campaign's row, and the slice continues from it, so a user is queued once. Their messages
/// are written when they are sent (`messages::recipients`).
pub async fn enqueue_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    slice: &Slice,
) -> Result<(), StoreError> {
    let of = (campaign.id, progress.occurrence);
    let queue = Queue { project, channel: campaign.channel, lane: Lane::Campaign };
    let times = send_times(tx, project, campaign, progress, slice).await?;
    let shares = Shares::of(campaign, progress);
    let (mut parts, mut counted): (BTreeMap<(SendAt, Share), Vec<Uuid>>, Counts) = (BTreeMap::new(), Counts::default());
    for (user, time) in slice.users.iter().zip(times) {
        let (share, is_tested) = shares.of_user(*user);
        let send_at = if is_tested { SendAt::Time(time) } else { SendAt::AfterTest };
        counted.add(of, share.variant.as_deref(), DeliveryState::Queued, 1);
        parts.entry((send_at, share)).or_default().push(*user);
    }
    let chunks: Vec<NewChunk> = parts
        .iter()
        .flat_map(|((send_at, share), users)| {
            users.chunks(CAPACITY).map(|part| NewChunk {
                due_at: None,
                campaign: Some(of),
                audience: Some(share.clone()),
                send_at: Some(*send_at),
                ..NewChunk::due(queue, part.to_vec(), slice.found_at)
            })
        })
        .collect();
    send_chunks::insert(tx, &chunks, slice.found_at).await?;
    counts::add(tx, project, &counted).await?;
    let sql = "UPDATE campaign SET taken_to = coalesce($3, taken_to), taken = $4, recipients = recipients + $5 \
               WHERE project_id = $1 AND id = $2";
    let (is_last, count) = (slice.to.is_none(), slice.users.len() as i64);
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &campaign.id, &slice.to, &is_last, &count]).await?;
    Ok(())
}

/// Returns when each user of a slice may be sent to: at once, or at the time in the user's own timezone.
async fn send_times(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: &Progress,
    slice: &Slice,
) -> Result<Vec<Timestamp>, StoreError> {
    if !campaign.settings.send_in_user_timezone {
        return Ok(vec![progress.started_at; slice.users.len()]);
    }
    let project_timezone = projects::timezone(tx, project).await?;
    let local = LocalTimes::from(progress.started_at, progress.meant_for, &project_timezone);
    let (names, times) = local.columns();
    let by_name: HashMap<&str, Timestamp> = names.into_iter().zip(times).collect();
    let known = slice.zones.iter().map(|zone| zone.as_deref().and_then(|name| by_name.get(name).copied()));
    Ok(known.map(|time| time.unwrap_or(local.default_time)).collect())
}

/// Returns the rules for users who are in the campaign's segment and in none of the excluded ones, and the segments
/// that these rules use.
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

/// How an audience is divided among variants. A user's share is determined by a hash of the occurrence and the user's
/// ID.
struct Shares<'a> {
    key: String,
    variants: &'a [Variant],
    template_id: Option<Uuid>,
    /// Cumulative percentages at which each variant ends.
    bounds: Vec<f64>,
    /// The percentage that takes part in the test.
    test_share: Option<f64>,
}

impl<'a> Shares<'a> {
    fn of(campaign: &'a Campaign, progress: &Progress) -> Self {
        let variants = &campaign.settings.variants;
        let mut sum = 0.0;
        let bounds = variants.iter().map(|variant| {
            sum += variant.weight;
            sum
        });
        Self {
            key: format!("{}:{}", campaign.id, progress.occurrence),
            variants,
            template_id: campaign.template_id,
            bounds: bounds.collect(),
            test_share: campaign.settings.winner.as_ref().map(|winner| winner.test_share),
        }
    }

    /// Returns a user's share, and whether it is sent before the test is decided.
    fn of_user(&self, user: Uuid) -> (Share, bool) {
        if self.variants.is_empty() {
            return (Share { variant: None, template_id: self.template_id }, true);
        }
        let hash = xxh3_128(format!("{}{user}", self.key).as_bytes());
        let percent = |bits: u128| (bits as u64 as f64) / (u64::MAX as f64) * 100.0;
        if self.test_share.is_some_and(|share| percent(hash >> 64) >= share) {
            return (Share::default(), false);
        }
        let at = percent(hash & u128::from(u64::MAX));
        // The last share always ends at 100 %, whatever the rounded weights add up to.
        let nth = self.bounds.iter().position(|bound| at < *bound).unwrap_or(self.variants.len() - 1);
        let variant = self.variants.get(nth);
        (Share { variant: variant.map(|v| v.name.clone()), template_id: variant.map(|v| v.template_id) }, true)
    }
}
