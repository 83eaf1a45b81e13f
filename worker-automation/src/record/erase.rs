//! Erases users permanently within the recording transaction, in the order of the items.
//!
//! Items that were accepted before an erasure but are applied after it, by another partition or from a restored backup,
//! are dropped.

use std::collections::{BTreeSet, HashSet};

use ::wire::event::{self as wire, Body, EncodedBatch, IngestItem, id_bytes};
use bus::Names;
use database::{Connection, StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids;
use prost::Message as _;
use store_profiles::events::counters;
use store_profiles::users::record::{self, NewUser, ProjectUserId};
use store_profiles::users::{read, removals, search};
use store_sending::capped_sends;
use store_sending::erasures::{self, Erased};
use store_sending::messages::insert;
use store_sending::outbox::OutboxRow;
use uuid::Uuid;

use crate::ingest::batch::Batch;
use crate::ingest::item::{Action, Item, NamedUser};
use crate::record::error::RecordError;
use crate::record::user_cache::{CacheVersion, UserCache};

/// A part of a batch: items between erasures, or one erasure.
pub enum Part<'a> {
    Items(Vec<&'a Item>),
    Erasure(&'a Item, Uuid),
}

/// Splits a batch at its erasures.
pub fn parts(items: Vec<&Item>) -> Vec<Part<'_>> {
    let mut parts = Vec::with_capacity(1);
    let mut between = Vec::with_capacity(items.len());
    for item in items {
        if let Action::Erase { user } = item.action {
            if !between.is_empty() {
                parts.push(Part::Items(std::mem::take(&mut between)));
            }
            parts.push(Part::Erasure(item, user));
        } else {
            between.push(item);
        }
    }
    if !between.is_empty() || parts.is_empty() {
        parts.push(Part::Items(between));
    }
    parts
}

/// Reason for aborting a transaction.
#[derive(Debug)]
pub enum Aborted {
    /// The erasures must be announced again, for these users too.
    Unannounced(Vec<ProjectUserId>),
    Failed(RecordError),
}

impl From<RecordError> for Aborted {
    fn from(error: RecordError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Aborted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Announces the erasures of a batch.
///
/// Returns the users it will erase, under all IDs known so far, plus those in `more`, which an earlier attempt found
/// missing.
pub async fn announce(
    db: &mut Connection,
    batch: &Batch,
    skip: &HashSet<usize>,
    more: &[ProjectUserId],
) -> Result<Vec<ProjectUserId>, StoreError> {
    let mut users: BTreeSet<ProjectUserId> = more.iter().copied().collect();
    for (_, item) in batch.items.iter().enumerate().filter(|(i, _)| !skip.contains(i)) {
        if let Action::Erase { user } = item.action {
            let user = read::resolve(db, item.project, user).await?.unwrap_or(user);
            users.extend(read::all_ids(db, item.project, user).await?.into_iter().map(|id| (item.project, id)));
        }
    }
    let users: Vec<ProjectUserId> = users.into_iter().collect();
    if !users.is_empty() {
        removals::announce(db, &users).await?;
    }
    Ok(users)
}

/// Prepares the transaction: updates the cache with recent erasures, and locks the users that the transaction erases
/// and those of its items' users who are being erased by other transactions.
pub async fn begin(
    tx: &Transaction<'_>,
    cache: &UserCache,
    erased: &[ProjectUserId],
    items: impl Iterator<Item = &Item>,
) -> Result<CacheVersion, Aborted> {
    let generation = removals::generation(tx).await?;
    let cache_version = cache.refresh(tx, generation).await?;
    removals::lock(tx, erased, &cache.pending(items.flat_map(keys))).await?;
    // An erasure of the same users by another transaction may have ended the announcement.
    if removals::pending(tx, erased).await?.len() < erased.len() {
        return Err(Aborted::Unannounced(Vec::new()));
    }
    Ok(cache_version)
}

/// The acceptance time of the latest erasure, as this transaction sees it.
pub struct Erasures {
    latest: Option<Timestamp>,
}

impl Erasures {
    pub async fn load(tx: &Transaction<'_>) -> Result<Self, StoreError> {
        Ok(Self { latest: erasures::latest(tx).await? })
    }

    /// Drops items that were accepted before their user's erasure.
    ///
    /// Usually no lookup is needed, because the items were accepted after the latest erasure.
    pub async fn drop_erased<'a>(
        &self,
        tx: &Transaction<'_>,
        items: Vec<&'a Item>,
    ) -> Result<Vec<&'a Item>, StoreError> {
        let is_early = |item: &Item| self.latest.is_some_and(|latest| item.received <= latest);
        let named: BTreeSet<ProjectUserId> =
            items.iter().filter(|item| is_early(item)).flat_map(|item| keys(item)).collect();
        let erased = erasures::erased_at(tx, &named.into_iter().collect::<Vec<_>>()).await?;
        let is_erased = |item: &Item| keys(item).any(|key| erased.get(&key).is_some_and(|at| item.received <= *at));
        Ok(items.into_iter().filter(|item| erased.is_empty() || !is_erased(item)).collect())
    }

    /// Erases a user under all their IDs, and returns these.
    ///
    /// A redelivered item erases nothing, because the user may have returned since. All IDs must be in `announced`.
    pub async fn erase(
        &mut self,
        tx: &Transaction<'_>,
        (lane, now): (i16, Timestamp),
        (item, user): (&Item, Uuid),
        announced: &[ProjectUserId],
    ) -> Result<Vec<ProjectUserId>, Aborted> {
        let before = erasures::erased_at(tx, &[(item.project, user)]).await?;
        if before.values().any(|at| item.received <= *at) {
            return Ok(Vec::new());
        }
        self.latest = self.latest.max(Some(item.received));
        erase(tx, (lane, now), (item, user), announced).await
    }
}

/// Number of months whose events and messages the erasure's transaction removes: the next one, whose partitions are
/// created ahead, the current and the last one. The scheduler removes older rows, so that this transaction locks few
/// partitions.
const RECENT_MONTHS: usize = 3;

/// Returns the IDs by which an item names its users. An internal ID counts only in items that the product itself sent.
fn keys(item: &Item) -> impl Iterator<Item = ProjectUserId> {
    let known = item.user.known.as_ref().filter(|_| item.uses_internal_id());
    let internal = known.and_then(|n: &NamedUser| Uuid::try_parse(&n.name).ok());
    let named = item.user.known.iter().chain(&item.user.anonymous).map(|n| n.id);
    let subscriber = if let Action::Subscribe(chosen) = &item.action { Some(chosen.user) } else { None };
    named.chain(internal).chain(subscriber).map(|id| (item.project, id))
}

/// Returns an entry for the erasure log, from which the scheduler repeats erasures on a restored database.
///
/// It holds one item for each of the user's IDs, and no other user data.
pub fn log_entry(names: &Names, partition: i16, item: &Item, erased: &[ProjectUserId]) -> OutboxRow {
    let erase = |(_, user): &ProjectUserId| IngestItem {
        project_id: id_bytes(item.project.0),
        id: id_bytes(ids::timed_for(item.received.as_millisecond(), &[b"erasure", user.as_bytes()])),
        received_ms: item.received.as_millisecond(),
        timestamp_ms: item.received.as_millisecond(),
        body: Some(Body::Erase(wire::Erase { user_id: id_bytes(*user) })),
        ..IngestItem::default()
    };
    let items = erased.iter().map(|key| erase(key).encode_to_vec().into()).collect();
    OutboxRow {
        partition,
        id: ids::timed_for(item.received.as_millisecond(), &[b"erasures", item.id.as_bytes()]),
        subject: names.ingest_erasures(),
        payload: EncodedBatch { version: wire::VERSION, items }.encode_to_vec(),
    }
}

async fn erase(
    tx: &Transaction<'_>,
    (lane, now): (i16, Timestamp),
    (item, user): (&Item, Uuid),
    announced: &[ProjectUserId],
) -> Result<Vec<ProjectUserId>, Aborted> {
    let (project, at) = (item.project, item.received);
    let user = read::resolve(tx, project, user).await?.unwrap_or(user);
    let mut ids = read::all_ids(tx, project, user).await?;
    ids.sort_unstable();
    let keys: Vec<ProjectUserId> = ids.iter().map(|id| (project, *id)).collect();
    // IDs merged since the announcement.
    let unannounced: Vec<ProjectUserId> = keys.iter().filter(|key| !announced.contains(key)).copied().collect();
    if !unannounced.is_empty() {
        return Err(Aborted::Unannounced(unannounced));
    }
    let rows = record::lock(tx, &keys).await?;
    let mut moves = erasures::remove_users(tx, project, &ids).await?;
    let months = erasures::months(tx).await?;
    let (older, recent) = months.split_at(months.len().saturating_sub(RECENT_MONTHS));
    // Most users have no older rows; then nothing is left to the scheduler.
    let mut has_left = erasures::have_rows(tx, project, &ids, older).await?;
    for month in recent {
        let removed = erasures::remove_slice(tx, project, &ids, (at, None), *month).await?;
        has_left |= removed.has_more;
        counters::subtract(tx, project, &removed.events).await?;
        insert::count(tx, project, lane, -removed.messages).await?;
    }
    capped_sends::remove_of(tx, project, &ids).await?;
    erasures::record(tx, project, &ids, Erased { accepted: at, applied: now }, has_left).await?;
    let mut user_delta = -(rows.iter().filter(|row| row.merged_into.is_none()).count() as i64);

    // A user with activity after the erasure, applied earlier by another partition, becomes a new user.
    let mut recreated: Vec<NewUser> = Vec::new();
    for (id, seen) in erasures::active_since(tx, project, &ids, at).await? {
        let Some(row) = rows.iter().find(|row| row.key.1 == id) else { continue };
        let (external_id, anonymous_id) = match &row.external_id {
            Some(id) => (Some(id.clone()), None),
            None => (None, row.anonymous_id.clone()),
        };
        recreated.push(NewUser { key: row.key, external_id, anonymous_id, seen });
    }
    recreated.sort_unstable_by_key(|p| p.key);
    let made = record::insert_missing(tx, &recreated).await?;
    recreated.iter().filter(|p| made.contains(&p.key)).for_each(|p| moves.add_seen(project, p.seen));
    user_delta += made.len() as i64;
    let texts =
        recreated.iter().filter_map(|p| Some((p.key, search::index_text(p.external_id.as_deref(), None, None)?)));
    search::put(tx, &texts.collect::<Vec<_>>()).await?;
    record::count(tx, lane, &[(project, user_delta)]).await?;
    moves.store(tx, lane).await?;
    Ok(keys)
}
