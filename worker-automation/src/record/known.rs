//! Who is known to be there, so that most events ask the database nothing about their person.
//!
//! What recording must know of the person of an event is whether there is a row, whether it was merged into another
//! person's, and when it last noted that they were seen. All three are remembered here after a commit. Another process
//! may change each of them meanwhile, and this is why that does no harm:
//!
//! - **Rows that go away.** Only an erasure removes users, in three steps (`store_profiles::users::removals`). It is announced, and
//!   waits until the transactions that do not know of it have ended. Later ones read what was announced ([`Known::follow`]):
//!   they forget these users, believe nothing of them until the erasure is finished, and share a lock on each that they name,
//!   which the erasure takes exclusively. All other users stay in memory. Everything is forgotten when the server was restarted
//!   or is another one, for it may then have lost the last commits (a failover, a restored backup), and whenever a partition
//!   does not stand where it was left.
//! - **Merges.** Only anonymous people are merged, once, and for good. An anonymous person's event that is recorded under
//!   their own id after another worker has merged them is read as the known person's all the same, because reads expand
//!   a person into all their ids and merging rewrites no events: it is as if the event had come a moment earlier, and
//!   the two came by different partitions, whose order nobody promised. Whatever is *decided* by a person, though (a
//!   profile update, a run that an event starts), locks the person's row and follows the merge that it finds there,
//!   whatever is known here.
//! - **When last seen.** The statement that notes it compares with the row once more and only ever moves it forward.
//!
//! And nothing is believed for longer than [`TRUST`]: a person is then looked up again, in the same statement that finds
//! out whether the time of their last event needs to be noted. So even the harmless kinds of being late end by then.

use std::sync::RwLock;

use database::{StoreError, Transaction};
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use quick_cache::sync::Cache;
use store_profiles::users::record::PersonKey;
use store_profiles::users::removals::{self, Edition, Removal};
use uuid::Uuid;

/// For how long a person is believed to be as they were, in milliseconds.
const TRUST: i64 = 60_000;
/// Erasures that are remembered at least, and for how long in milliseconds: longer than any transaction runs.
const REMEMBERED: usize = 10_000;
const REMEMBERED_FOR: i64 = 3_600_000;
/// By how much the noted time may be behind the last event, in milliseconds.
pub const SEEN_EVERY: i64 = 60_000;

/// What is known of a person, in seconds of Unix time: fewer bytes, for there are many.
#[derive(Clone, Copy, Debug)]
struct Present {
    seen: u32,
    checked: u32,
}

/// What a committed transaction has learnt.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    /// Who is there, and when they were last seen as far as the row says.
    pub present: Vec<(PersonKey, Timestamp)>,
    /// Who was merged into whom.
    pub merged: Vec<(PersonKey, Uuid)>,
}

impl Learnt {
    pub fn add(&mut self, more: Self) {
        self.present.extend(more.present);
        self.merged.extend(more.merged);
    }
}

/// The memory, shared by a worker's lanes and bounded.
pub struct Known {
    present: Cache<PersonKey, Present>,
    merged: Cache<PersonKey, Uuid>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    edition: Option<Edition>,
    /// How often everything was forgotten.
    resets: u64,
    /// Users who are being erased.
    pending: HashSet<PersonKey>,
    /// In which edition a user's erasure was announced or, later, finished. Editions count milliseconds.
    removed: HashMap<PersonKey, i64>,
}

/// What a transaction began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    seq: i64,
    resets: u64,
}

/// How a person stands, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There, and noted as seen recently enough for an event of the time asked about.
    Fresh,
    Merged(Uuid),
    /// To be looked up.
    Unknown,
    /// Being erased: to be looked up, and locked.
    Erased,
}

impl State {
    /// Whether it includes what had changed by an edition.
    fn includes(&self, edition: Edition) -> bool {
        self.edition.is_some_and(|own| own.server_started == edition.server_started && own.seq >= edition.seq)
    }

    fn note(&mut self, Removal { user, seq, is_pending }: &Removal) {
        self.removed.insert(*user, *seq);
        if *is_pending {
            self.pending.insert(*user);
        } else {
            self.pending.remove(user);
        }
    }
}

impl Known {
    /// Remembers so many people at most, of about 60 bytes each.
    pub fn new(people: usize) -> Self {
        let (present, merged) = (Cache::new(people), Cache::new(people / 16 + 1));
        Self { present, merged, state: RwLock::default() }
    }

    /// Forgets the users of erasures that were announced or finished since the last call. Each transaction calls it with the edition
    /// that it has read, before anything else.
    pub async fn follow(&self, tx: &Transaction<'_>, edition: Edition) -> Result<Begun, StoreError> {
        let (includes, last) = match self.state.read() {
            Ok(state) => (state.includes(edition), state.edition),
            Err(_) => (false, None),
        };
        if includes {
            return Ok(self.begun(edition));
        }
        if let Some(last) = last.filter(|last| last.server_started == edition.server_started) {
            let changed = removals::changed_since(tx, Some(last.seq)).await?;
            // An erasure by an earlier version of the program is not among them.
            if changed.iter().any(|removal| removal.seq >= edition.seq) {
                self.remove(edition, &changed);
                return Ok(self.begun(edition));
            }
        }
        let pending = removals::changed_since(tx, None).await?;
        self.reset(edition, &pending);
        Ok(self.begun(edition))
    }

    fn begun(&self, edition: Edition) -> Begun {
        Begun { seq: edition.seq, resets: self.state.read().map_or(0, |state| state.resets) }
    }

    fn remove(&self, edition: Edition, changed: &[Removal]) {
        let Ok(mut state) = self.state.write() else { return };
        for removal in changed {
            if state.removed.get(&removal.user).is_none_or(|known| *known < removal.seq) {
                self.present.remove(&removal.user);
                self.merged.remove(&removal.user);
                state.note(removal);
            }
        }
        if state.removed.len() > REMEMBERED {
            let State { pending, removed, .. } = &mut *state;
            removed.retain(|user, seq| pending.contains(user) || *seq + REMEMBERED_FOR > edition.seq);
        }
        if !state.includes(edition) {
            state.edition = Some(edition);
        }
    }

    fn reset(&self, edition: Edition, pending: &[Removal]) {
        let Ok(mut state) = self.state.write() else { return };
        // Another lane may have done so.
        if !state.includes(edition) {
            self.clear(&mut state);
            state.edition = Some(edition);
            pending.iter().for_each(|removal| state.note(removal));
        }
    }

    fn clear(&self, state: &mut State) {
        self.present.clear();
        self.merged.clear();
        *state = State { resets: state.resets + 1, ..State::default() };
    }

    /// Forgets everybody.
    pub fn forget(&self) {
        if let Ok(mut state) = self.state.write() {
            self.clear(&mut state);
        }
    }

    /// Returns those of these users who are being erased.
    pub fn pending(&self, users: impl Iterator<Item = PersonKey>) -> Vec<PersonKey> {
        match self.state.read() {
            Ok(state) if !state.pending.is_empty() => users.filter(|user| state.pending.contains(user)).collect(),
            _ => Vec::new(),
        }
    }

    /// How a person stands at `now` for an event of the time `seen`.
    pub fn standing(&self, key: &PersonKey, seen: Timestamp, now: Timestamp) -> Standing {
        if self.state.read().is_ok_and(|state| state.pending.contains(key)) {
            return Standing::Erased;
        }
        if let Some(into) = self.merged.get(key) {
            return Standing::Merged(into);
        }
        match self.present.get(key) {
            Some(p)
                if now.as_millisecond() - ms(p.checked) < TRUST && seen.as_millisecond() - ms(p.seen) <= SEEN_EVERY =>
            {
                Standing::Fresh
            }
            _ => Standing::Unknown,
        }
    }

    /// Learns what a transaction found, after its commit: nothing of users whose erasure it did not know to be finished.
    pub fn learn(&self, begun: Begun, learnt: Learnt, now: Timestamp) {
        // Held while learning, so that nothing comes in behind a removal.
        let Ok(state) = self.state.read() else { return };
        if state.edition.is_none() || state.resets != begun.resets {
            return;
        }
        let holds = |key: &PersonKey| {
            !state.pending.contains(key) && state.removed.get(key).is_none_or(|seq| *seq <= begun.seq)
        };
        let checked = seconds(now);
        for (key, seen) in learnt.present.into_iter().filter(|(key, _)| holds(key)) {
            self.present.insert(key, Present { seen: seconds(seen), checked });
        }
        for (key, into) in learnt.merged.into_iter().filter(|(key, _)| holds(key)) {
            self.present.remove(&key);
            self.merged.insert(key, into);
        }
    }
}

/// Rounded down: what was noted is never taken for later than it was.
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_second()).unwrap_or(0)
}

fn ms(seconds: u32) -> i64 {
    i64::from(seconds) * 1_000
}

#[cfg(test)]
mod model;
