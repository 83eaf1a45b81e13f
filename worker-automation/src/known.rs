//! Who is known to be there, so that most events ask the database nothing about their person.
//!
//! What recording must know of the person of an event is whether there is a row, whether it was merged into another
//! person's, and when it last noted that they were seen. All three are remembered here after a commit. Another process
//! may change each of them meanwhile, and this is why that does no harm:
//!
//! - **Rows that go away.** Recording itself never removes one. Whoever else does says so in the same transaction, which
//!   waits until the recording transactions under way have ended and keeps others from starting; each transaction reads
//!   the [`Edition`] under that lock, and a new one empties this memory. The edition is another too when the server was
//!   restarted or is another one, for it may then have lost the last commits (a failover, a restored backup), and the
//!   memory is emptied whenever a partition turns out not to stand where it was left.
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

use jiff::Timestamp;
use quick_cache::sync::Cache;
use shared::store::users::record::{Edition, PersonKey};
use uuid::Uuid;

/// For how long a person is believed to be as they were, in milliseconds.
const TRUST: i64 = 60_000;
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
    edition: RwLock<Option<Edition>>,
}

/// How a person stands, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There, and noted as seen recently enough for an event of the time asked about.
    Fresh,
    Merged(Uuid),
    /// To be looked up.
    Unknown,
}

impl Known {
    /// Remembers so many people at most, of about 60 bytes each.
    pub fn new(people: usize) -> Self {
        Self { present: Cache::new(people), merged: Cache::new(people / 16 + 1), edition: RwLock::default() }
    }

    /// To be called by each transaction with the edition that it has found.
    pub fn check(&self, edition: Edition) {
        if self.edition.read().is_ok_and(|known| *known == Some(edition)) {
            return;
        }
        if let Ok(mut known) = self.edition.write()
            && *known != Some(edition)
        {
            self.present.clear();
            self.merged.clear();
            *known = Some(edition);
        }
    }

    /// Forgets everybody.
    pub fn forget(&self) {
        if let Ok(mut known) = self.edition.write() {
            self.present.clear();
            self.merged.clear();
            *known = None;
        }
    }

    /// How a person stands at `now` for an event of the time `seen`.
    pub fn standing(&self, key: &PersonKey, seen: Timestamp, now: Timestamp) -> Standing {
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

    /// To be called after the commit of a transaction that began in this edition.
    pub fn learn(&self, edition: Edition, learnt: Learnt, now: Timestamp) {
        // Held while learning, so that nothing of an older edition comes in after the memory was emptied.
        let Ok(current) = self.edition.read() else { return };
        if *current != Some(edition) {
            return;
        }
        let checked = seconds(now);
        for (key, seen) in learnt.present {
            self.present.insert(key, Present { seen: seconds(seen), checked });
        }
        for (key, into) in learnt.merged {
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
