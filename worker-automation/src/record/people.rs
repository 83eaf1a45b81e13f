//! The users that a batch touches: creates, locks and merges them within the recording transaction.

use std::collections::{BTreeMap, BTreeSet};

use database::{StoreError, Transaction};
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::{Map, Value};
use store_profiles::users::record::{self, NewPerson, PersonKey, Profile};
use store_profiles::users::{search, seen::Moves};
use uuid::Uuid;

use crate::ingest::item::{Action, Item, Named};
use crate::record::known::{Known, Learnt, SEEN_EVERY, Standing};
use crate::record::marks::Marks;
use crate::record::profile::{self, TooLarge};

/// What a batch knows about its users, and how it has changed them so far.
#[derive(Default)]
pub struct People {
    /// Users locked until the end of the transaction.
    locked: HashMap<PersonKey, Profile>,
    /// Merged users that are not locked, with the user each was merged into.
    pointers: HashMap<PersonKey, Uuid>,
    /// When anonymous users were merged, by their rows or by this batch, whichever is earlier.
    merged_at: HashMap<PersonKey, Timestamp>,
    internal: Internal,
    /// Last-seen times in the rows that were read or created.
    noted: HashMap<PersonKey, Timestamp>,
    changed: BTreeSet<PersonKey>,
    seen: HashMap<PersonKey, Timestamp>,
    merges: Vec<(PersonKey, Uuid)>,
    counts: BTreeMap<ProjectId, i64>,
    /// Last-seen times of unmerged users in the locked rows, before this batch.
    before: HashMap<PersonKey, Timestamp>,
    moves: Moves,
    /// Users created with an external ID, which is their search text.
    made: BTreeMap<PersonKey, String>,
    renamed: BTreeSet<PersonKey>,
    /// All users that this batch created, including those without an external ID.
    new: Vec<PersonKey>,
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
pub struct Wanted<'a> {
    mentions: HashMap<PersonKey, Mention<'a>>,
    missing: BTreeSet<PersonKey>,
}

impl Mention<'_> {
    fn person(&self, key: PersonKey) -> NewPerson {
        let name = Some(self.name.to_owned());
        let (external_id, anonymous_id) = if self.is_known { (name, None) } else { (None, name) };
        NewPerson { key, external_id, anonymous_id, seen: self.first }
    }
}

impl People {
    /// Looks up users that are not cached. `locks` returns whether an item's effect depends on its user's row.
    pub async fn look_up<'a>(
        tx: &Transaction<'_>,
        known: &Known,
        items: &[&'a Item],
        now: Timestamp,
        locks: impl Fn(&Item) -> bool,
    ) -> Result<(Self, Wanted<'a>), StoreError> {
        let mut people = Self { internal: Internal::load(tx, items).await?, ..Self::default() };
        let mut mentions: HashMap<PersonKey, Mention<'_>> = HashMap::default();
        let mut unproven = BTreeSet::new();
        for item in items {
            if let (Action::Identify { .. }, Some(_), Some(anonymous)) =
                (&item.action, &item.who.known, &item.who.anonymous)
            {
                people.note_merge((item.project, anonymous.id), item.received);
            }
            let locks = locks(item);
            for (named, is_known) in named(item, locks) {
                let Some(key) = people.meant(item, named) else { continue };
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
            match known.standing(key, mention.last, now) {
                // Whether an unproven item counts depends on the time of the merge, which the cache does not hold.
                _ if unproven.contains(key) => {
                    missing.insert(*key);
                }
                Standing::Fresh => {}
                Standing::Merged(into) => {
                    people.pointers.insert(*key, into);
                }
                Standing::Unknown => {
                    missing.insert(*key);
                }
                Standing::Erased => {
                    mention.locks = true;
                    missing.insert(*key);
                }
            }
        }
        for found in record::find(tx, &missing.iter().copied().collect::<Vec<_>>()).await? {
            missing.remove(&found.key);
            people.noted.insert(found.key, found.last_seen_at);
            if let Some(into) = found.merged_into {
                people.pointers.insert(found.key, into);
                people.note_merge(found.key, found.merged_at.unwrap_or(Timestamp::MIN));
            }
        }
        Ok((people, Wanted { mentions, missing }))
    }

    /// Creates missing users. Locks the mentioned users whose rows must be locked, and existing users in `others`.
    ///
    /// Another worker that needs one of these rows waits until the transaction ends.
    pub async fn hold(
        &mut self,
        tx: &Transaction<'_>,
        Wanted { mentions, missing }: Wanted<'_>,
        others: Vec<PersonKey>,
    ) -> Result<(), StoreError> {
        let decisive = mentions.iter().filter(|(_, mention)| mention.locks).map(|(key, _)| *key);
        let mut to_lock: BTreeSet<PersonKey> = decisive.chain(others).collect();
        self.make(tx, &missing, &mentions).await?;
        self.lock(tx, to_lock.clone()).await?;
        // The cache may be stale: create the users that it wrongly took to exist.
        to_lock.retain(|key| !self.locked.contains_key(key));
        if !to_lock.is_empty() {
            self.make(tx, &to_lock, &mentions).await?;
            self.lock(tx, to_lock).await?;
        }
        Ok(())
    }

    async fn make(
        &mut self,
        tx: &Transaction<'_>,
        missing: &BTreeSet<PersonKey>,
        mentions: &HashMap<PersonKey, Mention<'_>>,
    ) -> Result<(), StoreError> {
        let rows: Vec<NewPerson> = missing.iter().filter_map(|key| Some(mentions.get(key)?.person(*key))).collect();
        for key in record::insert_missing(tx, &rows).await? {
            *self.counts.entry(key.0).or_default() += 1;
            self.new.push(key);
            let Some(mention) = mentions.get(&key) else { continue };
            self.noted.insert(key, mention.first);
            self.moves.came(key.0, mention.first);
            if mention.is_known {
                self.made.insert(key, mention.name.to_owned());
            }
        }
        Ok(())
    }

    /// Locks users and those they were merged into. This terminates, because a known user is never merged.
    async fn lock(&mut self, tx: &Transaction<'_>, wanted: BTreeSet<PersonKey>) -> Result<(), StoreError> {
        let mut wanted: Vec<PersonKey> = wanted.into_iter().collect();
        while !wanted.is_empty() {
            let rows = record::lock(tx, &wanted).await?;
            let targets: BTreeSet<PersonKey> = rows.iter().filter_map(|p| Some((p.key.0, p.merged_into?))).collect();
            for merged in rows.iter().filter(|p| p.merged_into.is_some()) {
                self.note_merge(merged.key, merged.merged_at.unwrap_or(Timestamp::MIN));
            }
            self.noted.extend(rows.iter().map(|p| (p.key, p.last_seen_at)));
            let counted = rows.iter().filter(|p| p.merged_into.is_none());
            self.before.extend(counted.map(|p| (p.key, p.last_seen_at)));
            self.locked.extend(rows.into_iter().map(|p| (p.key, p)));
            wanted = targets.into_iter().filter(|k| !self.locked.contains_key(k)).collect();
        }
        Ok(())
    }

    fn note_merge(&mut self, anonymous: PersonKey, at: Timestamp) {
        self.merged_at.entry(anonymous).and_modify(|earliest| *earliest = (*earliest).min(at)).or_insert(at);
    }

    /// Returns the user that an item names, before merges are followed.
    ///
    /// Callers name users by external ID. The product's own items use internal IDs: `None` if the user does not exist.
    fn meant(&self, item: &Item, named: &Named) -> Option<PersonKey> {
        if !item.names_internally() {
            return Some((item.project, named.id));
        }
        internal_id(item.project, named).filter(|key| self.internal.0.contains(key))
    }

    /// Follows a user's merge, if there is one.
    pub fn resolve(&self, key: PersonKey) -> PersonKey {
        let into = match self.locked.get(&key) {
            Some(profile) => profile.merged_into,
            None => self.pointers.get(&key).copied(),
        };
        (key.0, into.unwrap_or(key.1))
    }

    /// Returns the user that an item is attributed to.
    pub fn of(&self, item: &Item) -> Option<PersonKey> {
        let key = self.meant(item, item.who.named()?)?;
        (!self.refuses(item)).then(|| self.resolve(key))
    }

    /// Returns whether to refuse an item: it is unproven, and its anonymous ID was merged into a user with an external ID before the
    /// item was received.
    pub fn refuses(&self, item: &Item) -> bool {
        let merged_at = || self.merged_at.get(&(item.project, item.who.anonymous.as_ref()?.id));
        item.unproven && merged_at().is_some_and(|at| *at < item.received)
    }

    /// Returns the locked row of a user.
    pub fn profile(&self, key: PersonKey) -> Option<&Profile> {
        self.locked.get(&key)
    }

    pub fn saw(&mut self, key: PersonKey, at: Timestamp) {
        self.seen.entry(key).and_modify(|t| *t = (*t).max(at)).or_insert(at);
    }

    /// Applies an identify item: first the merge, then the properties. The users it names must be locked.
    /// On `TooLarge`, the merge remains and the properties are unchanged.
    pub fn identify(&mut self, item: &Item, patch: &Map<String, Value>) -> Result<(), TooLarge> {
        let known = item.who.known.as_ref().map(|n| (item.project, n.id));
        let anonymous = item.who.anonymous.as_ref().map(|n| (item.project, n.id));
        if let (Some(known), Some(anonymous)) = (known, anonymous) {
            self.merge(anonymous, known, item.received);
        }
        let Some(person) = self.of(item) else { return Ok(()) };
        // Sent for the anonymous user before the merge, but arrived later: the known user's values win.
        let merged_at = anonymous.and_then(|a| self.locked.get(&a)?.merged_at);
        let said_before_merge = known.is_none() && merged_at.is_some_and(|at| item.received < at);
        let applied = self.change(person, patch, if said_before_merge { profile::fill } else { profile::patch });
        if let Some(profile) = self.locked.get_mut(&person) {
            profile.last_seen_at = profile.last_seen_at.max(item.received);
        }
        applied.unwrap_or(Ok(()))
    }

    /// Merges properties into a locked user's profile. Returns `None` if no user is locked under that key.
    pub fn patch(&mut self, person: PersonKey, patch: &Map<String, Value>) -> Option<Result<(), TooLarge>> {
        self.change(person, patch, profile::patch)
    }

    fn change(
        &mut self,
        person: PersonKey,
        patch: &Map<String, Value>,
        apply: fn(&mut Profile, &Map<String, Value>) -> Result<(), TooLarge>,
    ) -> Option<Result<(), TooLarge>> {
        let profile = self.locked.get_mut(&person)?;
        let before = (profile.email.clone(), profile.name.clone());
        let applied = apply(profile, patch);
        if before != (profile.email.clone(), profile.name.clone()) {
            self.renamed.insert(person);
        }
        self.changed.insert(person);
        Some(applied)
    }

    /// Merges an anonymous user into a known one. A user who was merged before stays merged as it is.
    fn merge(&mut self, anonymous: PersonKey, known: PersonKey, at: Timestamp) {
        let Some(mut from) = self.locked.remove(&anonymous) else { return };
        if from.merged_into.is_none()
            && from.external_id.is_none()
            && let Some(into) = self.locked.get_mut(&known)
        {
            profile::merge(into, &mut from, at);
            self.merges.push((anonymous, known.1));
            *self.counts.entry(known.0).or_default() -= 1;
            self.changed.extend([anonymous, known]);
            self.renamed.insert(known);
            self.seen.remove(&anonymous);
        }
        self.locked.insert(anonymous, from);
    }

    /// Moves the rows of merged users to the known users. Call this before any of these rows are read or written.
    /// Due dates of anonymous users are deleted: the merge reschedules those of the known users.
    pub async fn reassign(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        store_sending::runs::record::reassign(tx, &self.merges).await?;
        let gone: Vec<PersonKey> = self.merges.iter().map(|(anonymous, _)| *anonymous).collect();
        store_profiles::date_due::forget(tx, &gone).await?;
        store_profiles::push_tokens::reassign(tx, &self.merges).await?;
        store_profiles::subscriptions::reassign(tx, &self.merges).await?;
        store_sending::suppressions::reassign(tx, &self.merges).await
    }

    /// Stores all changes and marks the changed users. Returns the cache updates to apply after the commit.
    pub async fn store(
        mut self,
        tx: &Transaction<'_>,
        (known, marks): (&Known, &mut Marks<'_>),
        lane: i16,
        now: Timestamp,
    ) -> Result<Learnt, StoreError> {
        let changed: Vec<&Profile> = self.changed.iter().filter_map(|k| self.locked.get(k)).collect();
        record::update(tx, &changed, now).await?;
        for person in &changed {
            if let Some(before) = self.before.get(&person.key) {
                self.moves.left(person.key.0, *before);
            }
            if person.merged_into.is_none() {
                self.moves.came(person.key.0, person.last_seen_at);
            }
        }
        self.noted.extend(changed.iter().map(|p| (p.key, p.last_seen_at)));
        let is_due = |key: &PersonKey, at: Timestamp| match self.noted.get(key) {
            Some(noted) => at.as_millisecond() - noted.as_millisecond() > SEEN_EVERY,
            None => known.standing(key, at, now) != Standing::Fresh,
        };
        let mut due: Vec<(PersonKey, Timestamp)> = self.seen.iter().map(|(k, at)| (*k, *at)).collect();
        due.retain(|(key, at)| is_due(key, *at));
        due.sort_unstable();
        self.moves.and(record::touch(tx, &due).await?);
        self.moves.store(tx, lane).await?;
        marks.profiles(self.changed.iter().copied());
        marks.seen(self.changed.iter().copied().chain(due.iter().map(|(key, _)| *key)));
        marks.people(self.new.iter().copied());
        marks.people(self.merges.iter().flat_map(|(from, into)| [*from, (from.0, *into)]));
        self.noted.extend(due);
        let gone: Vec<PersonKey> = self.merges.iter().map(|(anonymous, _)| *anonymous).collect();
        search::remove(tx, &gone).await?;
        let mut texts = std::mem::take(&mut self.made);
        texts.values_mut().for_each(|id| *id = search::text_of(Some(id), None, None).unwrap_or_default());
        for person in self.renamed.iter().filter_map(|key| self.locked.get(key)).filter(|p| p.merged_into.is_none()) {
            let text = search::text_of(person.external_id.as_deref(), person.email.as_deref(), person.name.as_deref());
            texts.insert(person.key, text.unwrap_or_default());
        }
        search::put(tx, &texts.into_iter().collect::<Vec<_>>()).await?;
        let counts: Vec<(ProjectId, i64)> =
            self.counts.iter().filter(|(_, c)| **c != 0).map(|(p, c)| (*p, *c)).collect();
        record::count(tx, lane, &counts).await?;
        Ok(self.learnt())
    }

    fn learnt(self) -> Learnt {
        let of_locked = self.locked.values().filter_map(|p| Some((p.key, p.merged_into?)));
        let merged: Vec<(PersonKey, Uuid)> =
            self.pointers.iter().map(|(key, into)| (*key, *into)).chain(of_locked).collect();
        let is_merged = |key: &PersonKey| self.locked.get(key).is_some_and(|p| p.merged_into.is_some());
        let mut present = self.noted;
        present.retain(|key, _| !self.pointers.contains_key(key) && !is_merged(key));
        Learnt { present: present.into_iter().collect(), merged }
    }
}

/// Returns the names in an item. An event is attributed to one user; a profile update may name two.
fn named(item: &Item, both: bool) -> impl Iterator<Item = (&Named, bool)> {
    let known = item.who.known.as_ref().map(|n| (n, true));
    let anonymous = item.who.anonymous.as_ref().map(|n| (n, false));
    let is_profile = matches!(item.action, Action::Identify { .. });
    let second = if known.is_none() || (both && is_profile) { anonymous } else { None };
    known.into_iter().chain(second)
}

/// Existing users that items name by internal ID.
#[derive(Default)]
struct Internal(HashSet<PersonKey>);

impl Internal {
    async fn load(tx: &Transaction<'_>, items: &[&Item]) -> Result<Self, StoreError> {
        let internally = items.iter().filter(|item| item.names_internally());
        let named = internally.filter_map(|item| internal_id(item.project, item.who.known.as_ref()?));
        let named: BTreeSet<PersonKey> = named.collect();
        if named.is_empty() {
            return Ok(Self::default());
        }
        let found = record::find(tx, &named.into_iter().collect::<Vec<_>>()).await?;
        Ok(Self(found.iter().map(|found| found.key).collect()))
    }
}

/// Parses a name as an internal ID.
fn internal_id(project: ProjectId, named: &Named) -> Option<PersonKey> {
    let id = Uuid::try_parse(&named.name).ok().filter(|_| named.name.len() == 36)?;
    Some((project, id))
}
