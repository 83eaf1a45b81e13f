//! The users that a batch touches: creates, locks and merges them within the recording transaction.

use std::collections::{BTreeMap, BTreeSet};

use database::{StoreError, Transaction};
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::{Map, Value};
use store_profiles::users::record::{self, NewUser, Profile, ProjectUserId};
use store_profiles::users::{search, seen::SeenDeltas};
use uuid::Uuid;

use crate::ingest::item::{Action, Item, NamedUser};
use crate::record::marks::SegmentMarks;
use crate::record::profile::{self, TooLarge};
use crate::record::user_cache::{CacheUpdate, CachedStatus, MAX_LAST_SEEN_LAG_MS, UserCache};

/// What a batch knows about its users, and how it has changed them so far.
#[derive(Default)]
pub struct BatchUsers {
    /// Users locked until the end of the transaction.
    locked: HashMap<ProjectUserId, Profile>,
    /// Merged users that are not locked, with the user each was merged into.
    merge_targets: HashMap<ProjectUserId, Uuid>,
    /// When anonymous users were merged, by their rows or by this batch, whichever is earlier.
    merged_at: HashMap<ProjectUserId, Timestamp>,
    internal: InternalIds,
    /// Last-seen times in the rows that were read or created.
    stored_last_seen: HashMap<ProjectUserId, Timestamp>,
    changed: BTreeSet<ProjectUserId>,
    seen: HashMap<ProjectUserId, Timestamp>,
    merges: Vec<(ProjectUserId, Uuid)>,
    counts: BTreeMap<ProjectId, i64>,
    /// Last-seen times of unmerged users in the locked rows, before this batch.
    last_seen_before: HashMap<ProjectUserId, Timestamp>,
    moves: SeenDeltas,
    /// Users created with an external ID, which is their search text.
    search_texts: BTreeMap<ProjectUserId, String>,
    search_changed: BTreeSet<ProjectUserId>,
    /// All users that this batch created, including those without an external ID.
    created: Vec<ProjectUserId>,
}

/// How a batch's items mention a user.
struct Mention<'a> {
    name: &'a str,
    is_known: bool,
    first: Timestamp,
    last: Timestamp,
    locks: bool,
}

/// The users that a batch mentions, and those of them who have no row yet.
pub struct MentionedUsers<'a> {
    mentions: HashMap<ProjectUserId, Mention<'a>>,
    missing: BTreeSet<ProjectUserId>,
}

impl Mention<'_> {
    fn user(&self, key: ProjectUserId) -> NewUser {
        let name = Some(self.name.to_owned());
        let (external_id, anonymous_id) = if self.is_known { (name, None) } else { (None, name) };
        NewUser { key, external_id, anonymous_id, seen: self.first }
    }
}

impl BatchUsers {
    /// Looks up users that are not cached. `locks` returns whether an item's effect depends on its user's row.
    pub async fn look_up<'a>(
        tx: &Transaction<'_>,
        cache: &UserCache,
        items: &[&'a Item],
        now: Timestamp,
        locks: impl Fn(&Item) -> bool,
    ) -> Result<(Self, MentionedUsers<'a>), StoreError> {
        let mut users = Self { internal: InternalIds::load(tx, items).await?, ..Self::default() };
        let mut mentions: HashMap<ProjectUserId, Mention<'_>> = HashMap::default();
        let mut unproven = BTreeSet::new();
        for item in items {
            if let (Action::Identify { .. }, Some(_), Some(anonymous)) =
                (&item.action, &item.user.known, &item.user.anonymous)
            {
                users.record_merge((item.project, anonymous.id), item.received);
            }
            let locks = locks(item);
            for (named, is_known) in named(item, locks) {
                let Some(key) = users.named_key(item, named) else { continue };
                if item.unproven {
                    unproven.insert(key);
                }
                let at = item.received;
                let mention = Mention { name: &named.name, is_known, first: at, last: at, locks };
                let before = mentions.entry(key).or_insert(mention);
                (before.first, before.last) = (before.first.min(at), before.last.max(at));
                before.locks |= locks;
            }
        }
        let mut missing = BTreeSet::new();
        for (key, mention) in &mut mentions {
            match cache.status(key, mention.last, now) {
                // Whether an unproven item counts depends on the time of the merge, which the cache does not hold.
                _ if unproven.contains(key) => {
                    missing.insert(*key);
                }
                CachedStatus::Fresh => {}
                CachedStatus::Merged(into) => {
                    users.merge_targets.insert(*key, into);
                }
                CachedStatus::Unknown => {
                    missing.insert(*key);
                }
                CachedStatus::Erased => {
                    mention.locks = true;
                    missing.insert(*key);
                }
            }
        }
        for found in record::find(tx, &missing.iter().copied().collect::<Vec<_>>()).await? {
            missing.remove(&found.key);
            users.stored_last_seen.insert(found.key, found.last_seen_at);
            if let Some(into) = found.merged_into {
                users.merge_targets.insert(found.key, into);
                users.record_merge(found.key, found.merged_at.unwrap_or(Timestamp::MIN));
            }
        }
        Ok((users, MentionedUsers { mentions, missing }))
    }

    /// Creates missing users. Locks the mentioned users whose rows must be locked, and existing users in `others`.
    ///
    /// Another worker that needs one of these rows waits until the transaction ends.
    pub async fn create_and_lock(
        &mut self,
        tx: &Transaction<'_>,
        MentionedUsers { mentions, missing }: MentionedUsers<'_>,
        others: Vec<ProjectUserId>,
    ) -> Result<(), StoreError> {
        let locking = mentions.iter().filter(|(_, mention)| mention.locks).map(|(key, _)| *key);
        let mut to_lock: BTreeSet<ProjectUserId> = locking.chain(others).collect();
        self.create_missing(tx, &missing, &mentions).await?;
        self.lock(tx, to_lock.clone()).await?;
        // The cache may be stale: create the users that it wrongly took to exist.
        to_lock.retain(|key| !self.locked.contains_key(key));
        if !to_lock.is_empty() {
            self.create_missing(tx, &to_lock, &mentions).await?;
            self.lock(tx, to_lock).await?;
        }
        Ok(())
    }

    async fn create_missing(
        &mut self,
        tx: &Transaction<'_>,
        missing: &BTreeSet<ProjectUserId>,
        mentions: &HashMap<ProjectUserId, Mention<'_>>,
    ) -> Result<(), StoreError> {
        let rows: Vec<NewUser> = missing.iter().filter_map(|key| Some(mentions.get(key)?.user(*key))).collect();
        for key in record::insert_missing(tx, &rows).await? {
            *self.counts.entry(key.0).or_default() += 1;
            self.created.push(key);
            let Some(mention) = mentions.get(&key) else { continue };
            self.stored_last_seen.insert(key, mention.first);
            self.moves.add_seen(key.0, mention.first);
            if mention.is_known {
                self.search_texts.insert(key, mention.name.to_owned());
            }
        }
        Ok(())
    }

    /// Locks users and those they were merged into. This terminates, because a known user is never merged.
    async fn lock(&mut self, tx: &Transaction<'_>, wanted: BTreeSet<ProjectUserId>) -> Result<(), StoreError> {
        let mut wanted: Vec<ProjectUserId> = wanted.into_iter().collect();
        while !wanted.is_empty() {
            let rows = record::lock(tx, &wanted).await?;
            let targets: BTreeSet<ProjectUserId> =
                rows.iter().filter_map(|p| Some((p.key.0, p.merged_into?))).collect();
            for merged in rows.iter().filter(|p| p.merged_into.is_some()) {
                self.record_merge(merged.key, merged.merged_at.unwrap_or(Timestamp::MIN));
            }
            self.stored_last_seen.extend(rows.iter().map(|p| (p.key, p.last_seen_at)));
            let counted = rows.iter().filter(|p| p.merged_into.is_none());
            self.last_seen_before.extend(counted.map(|p| (p.key, p.last_seen_at)));
            self.locked.extend(rows.into_iter().map(|p| (p.key, p)));
            wanted = targets.into_iter().filter(|k| !self.locked.contains_key(k)).collect();
        }
        Ok(())
    }

    fn record_merge(&mut self, anonymous: ProjectUserId, at: Timestamp) {
        self.merged_at.entry(anonymous).and_modify(|earliest| *earliest = (*earliest).min(at)).or_insert(at);
    }

    /// Returns the user that an item names, before merges are followed.
    ///
    /// Callers name users by external ID. The product's own items use internal IDs: `None` if the user does not exist.
    fn named_key(&self, item: &Item, named: &NamedUser) -> Option<ProjectUserId> {
        if !item.uses_internal_id() {
            return Some((item.project, named.id));
        }
        internal_id(item.project, named).filter(|key| self.internal.0.contains(key))
    }

    /// Follows a user's merge, if there is one.
    pub fn resolve(&self, key: ProjectUserId) -> ProjectUserId {
        let into = match self.locked.get(&key) {
            Some(profile) => profile.merged_into,
            None => self.merge_targets.get(&key).copied(),
        };
        (key.0, into.unwrap_or(key.1))
    }

    /// Returns the user that an item is attributed to.
    pub fn of(&self, item: &Item) -> Option<ProjectUserId> {
        let key = self.named_key(item, item.user.named()?)?;
        (!self.refuses(item)).then(|| self.resolve(key))
    }

    /// Returns whether to refuse an item: it is unproven, and its anonymous ID was merged into a user with an external ID before the
    /// item was received.
    pub fn refuses(&self, item: &Item) -> bool {
        let merged_at = || self.merged_at.get(&(item.project, item.user.anonymous.as_ref()?.id));
        item.unproven && merged_at().is_some_and(|at| *at < item.received)
    }

    /// Returns the locked row of a user.
    pub fn profile(&self, key: ProjectUserId) -> Option<&Profile> {
        self.locked.get(&key)
    }

    pub fn record_seen(&mut self, key: ProjectUserId, at: Timestamp) {
        self.seen.entry(key).and_modify(|t| *t = (*t).max(at)).or_insert(at);
    }

    /// Applies an identify item: first the merge, then the properties. The users it names must be locked.
    /// On `TooLarge`, the merge remains and the properties are unchanged.
    pub fn identify(&mut self, item: &Item, patch: &Map<String, Value>) -> Result<(), TooLarge> {
        let known = item.user.known.as_ref().map(|n| (item.project, n.id));
        let anonymous = item.user.anonymous.as_ref().map(|n| (item.project, n.id));
        if let (Some(known), Some(anonymous)) = (known, anonymous) {
            self.merge(anonymous, known, item.received);
        }
        let Some(user) = self.of(item) else { return Ok(()) };
        // Sent for the anonymous user before the merge, but arrived later: the known user's values win.
        let merged_at = anonymous.and_then(|a| self.locked.get(&a)?.merged_at);
        let is_before_merge = known.is_none() && merged_at.is_some_and(|at| item.received < at);
        let applied = self.change(user, patch, if is_before_merge { profile::fill } else { profile::patch });
        if let Some(profile) = self.locked.get_mut(&user) {
            profile.last_seen_at = profile.last_seen_at.max(item.received);
        }
        applied.unwrap_or(Ok(()))
    }

    /// Merges properties into a locked user's profile. Returns `None` if no user is locked under that key.
    pub fn patch(&mut self, user: ProjectUserId, patch: &Map<String, Value>) -> Option<Result<(), TooLarge>> {
        self.change(user, patch, profile::patch)
    }

    fn change(
        &mut self,
        user: ProjectUserId,
        patch: &Map<String, Value>,
        apply: fn(&mut Profile, &Map<String, Value>) -> Result<(), TooLarge>,
    ) -> Option<Result<(), TooLarge>> {
        let profile = self.locked.get_mut(&user)?;
        let before = (profile.email.clone(), profile.name.clone());
        let applied = apply(profile, patch);
        if before != (profile.email.clone(), profile.name.clone()) {
            self.search_changed.insert(user);
        }
        self.changed.insert(user);
        Some(applied)
    }

    /// Merges an anonymous user into a known one. A user who was merged before stays merged as it is.
    fn merge(&mut self, anonymous: ProjectUserId, known: ProjectUserId, at: Timestamp) {
        let Some(mut from) = self.locked.remove(&anonymous) else { return };
        if from.merged_into.is_none()
            && from.external_id.is_none()
            && let Some(into) = self.locked.get_mut(&known)
        {
            profile::merge(into, &mut from, at);
            self.merges.push((anonymous, known.1));
            *self.counts.entry(known.0).or_default() -= 1;
            self.changed.extend([anonymous, known]);
            self.search_changed.insert(known);
            self.seen.remove(&anonymous);
        }
        self.locked.insert(anonymous, from);
    }

    /// Moves the rows of merged users to the known users. Call this before any of these rows are read or written.
    /// Due dates of anonymous users are deleted: the merge reschedules those of the known users.
    pub async fn reassign(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        store_sending::runs::record::reassign(tx, &self.merges).await?;
        let gone: Vec<ProjectUserId> = self.merges.iter().map(|(anonymous, _)| *anonymous).collect();
        store_profiles::date_due::remove(tx, &gone).await?;
        store_profiles::push_tokens::reassign(tx, &self.merges).await?;
        store_profiles::subscriptions::reassign(tx, &self.merges).await?;
        store_sending::suppressions::reassign(tx, &self.merges).await
    }

    /// Stores all changes and marks the changed users. Returns the cache updates to apply after the commit.
    pub async fn store(
        mut self,
        tx: &Transaction<'_>,
        (cache, marks): (&UserCache, &mut SegmentMarks<'_>),
        lane: i16,
        now: Timestamp,
    ) -> Result<CacheUpdate, StoreError> {
        let changed: Vec<&Profile> = self.changed.iter().filter_map(|k| self.locked.get(k)).collect();
        record::update(tx, &changed, now).await?;
        for user in &changed {
            if let Some(before) = self.last_seen_before.get(&user.key) {
                self.moves.remove_seen(user.key.0, *before);
            }
            if user.merged_into.is_none() {
                self.moves.add_seen(user.key.0, user.last_seen_at);
            }
        }
        self.stored_last_seen.extend(changed.iter().map(|p| (p.key, p.last_seen_at)));
        let is_due = |key: &ProjectUserId, at: Timestamp| match self.stored_last_seen.get(key) {
            Some(stored_last_seen) => at.as_millisecond() - stored_last_seen.as_millisecond() > MAX_LAST_SEEN_LAG_MS,
            None => cache.status(key, at, now) != CachedStatus::Fresh,
        };
        let mut due: Vec<(ProjectUserId, Timestamp)> = self.seen.iter().map(|(k, at)| (*k, *at)).collect();
        due.retain(|(key, at)| is_due(key, *at));
        due.sort_unstable();
        self.moves.merge(record::touch(tx, &due).await?);
        self.moves.store(tx, lane).await?;
        marks.profiles(self.changed.iter().copied());
        marks.seen(self.changed.iter().copied().chain(due.iter().map(|(key, _)| *key)));
        marks.users(self.created.iter().copied());
        marks.users(self.merges.iter().flat_map(|(from, into)| [*from, (from.0, *into)]));
        self.stored_last_seen.extend(due);
        let gone: Vec<ProjectUserId> = self.merges.iter().map(|(anonymous, _)| *anonymous).collect();
        search::remove(tx, &gone).await?;
        let mut texts = std::mem::take(&mut self.search_texts);
        texts.values_mut().for_each(|id| *id = search::index_text(Some(id), None, None).unwrap_or_default());
        for user in
            self.search_changed.iter().filter_map(|key| self.locked.get(key)).filter(|p| p.merged_into.is_none())
        {
            let text = search::index_text(user.external_id.as_deref(), user.email.as_deref(), user.name.as_deref());
            texts.insert(user.key, text.unwrap_or_default());
        }
        search::put(tx, &texts.into_iter().collect::<Vec<_>>()).await?;
        let counts: Vec<(ProjectId, i64)> =
            self.counts.iter().filter(|(_, c)| **c != 0).map(|(p, c)| (*p, *c)).collect();
        record::count(tx, lane, &counts).await?;
        Ok(self.cache_update())
    }

    fn cache_update(self) -> CacheUpdate {
        let of_locked = self.locked.values().filter_map(|p| Some((p.key, p.merged_into?)));
        let merged: Vec<(ProjectUserId, Uuid)> =
            self.merge_targets.iter().map(|(key, into)| (*key, *into)).chain(of_locked).collect();
        let is_merged = |key: &ProjectUserId| self.locked.get(key).is_some_and(|p| p.merged_into.is_some());
        let mut present = self.stored_last_seen;
        present.retain(|key, _| !self.merge_targets.contains_key(key) && !is_merged(key));
        CacheUpdate { present: present.into_iter().collect(), merged }
    }
}

/// Returns the names in an item. An event is attributed to one user; a profile update may name two.
fn named(item: &Item, both: bool) -> impl Iterator<Item = (&NamedUser, bool)> {
    let known = item.user.known.as_ref().map(|n| (n, true));
    let anonymous = item.user.anonymous.as_ref().map(|n| (n, false));
    let is_profile = matches!(item.action, Action::Identify { .. });
    let second = if known.is_none() || (both && is_profile) { anonymous } else { None };
    known.into_iter().chain(second)
}

/// Existing users that items name by internal ID.
#[derive(Default)]
struct InternalIds(HashSet<ProjectUserId>);

impl InternalIds {
    async fn load(tx: &Transaction<'_>, items: &[&Item]) -> Result<Self, StoreError> {
        let internally = items.iter().filter(|item| item.uses_internal_id());
        let named = internally.filter_map(|item| internal_id(item.project, item.user.known.as_ref()?));
        let named: BTreeSet<ProjectUserId> = named.collect();
        if named.is_empty() {
            return Ok(Self::default());
        }
        let found = record::find(tx, &named.into_iter().collect::<Vec<_>>()).await?;
        Ok(Self(found.iter().map(|found| found.key).collect()))
    }
}

/// Parses a name as an internal ID.
fn internal_id(project: ProjectId, named: &NamedUser) -> Option<ProjectUserId> {
    let id = Uuid::try_parse(&named.name).ok().filter(|_| named.name.len() == 36)?;
    Some((project, id))
}
