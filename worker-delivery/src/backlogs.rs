//! Direct messages of busy projects that wait here, each project's by themselves, so that nobody else's wait behind them.
//!
//! No more than rows are kept: they come again by themselves, and so what brought them is acknowledged meanwhile. Only so many wait
//! here of a project, and of all; the rest as rows that are due when it may be their turn.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Channel;
use tokio::time::Instant;
use uuid::Uuid;

/// Rows of one project and channel, and of all together.
const OF_ONE: usize = 8_192;
const OF_ALL: usize = 131_072;
/// Of the room that is left one may have such a part, so that some is left for others.
const PART: usize = 8;
/// No row waits for longer until it is looked at again.
const LATEST: Duration = Duration::from_mins(5);
/// How many rows a second are thought to go out, at least.
const SLOWEST: f64 = 10.0;
/// How many are thought to have gone out before it is known, and in how many seconds: what is soon known to be slow is only looked at
/// once too often, but what is not would stand idle while its rows wait.
const SUPPOSED: (f64, f64) = (1_000.0, 2.0);

/// A message and the attempt that it was handed over at.
pub type Row = (Uuid, i32);
pub type Key = (ProjectId, Channel);

#[derive(Clone, Debug, Default)]
pub struct Backlogs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    each: HashMap<Key, Backlog>,
    rows: usize,
    /// How many were opened.
    opened: u64,
}

/// What waits of one project and channel.
#[derive(Debug)]
struct Backlog {
    number: u64,
    waiting: VecDeque<Row>,
    /// How many are being begun.
    taken: usize,
    /// All of these, so that what is handed over again meanwhile does not wait twice.
    known: HashSet<Row>,
    opened: Instant,
    /// How many were begun since.
    gone: usize,
    /// When the last of those is due that had no room.
    behind: Instant,
}

/// What became of rows that were to wait.
pub struct Joined {
    /// To be emptied by whoever opened it.
    pub opened: Option<Opened>,
    /// Those for which there is no room, and in how long each is due.
    pub left: Vec<(Row, Duration)>,
}

/// A backlog. Once this is dropped it is closed, and what still waits comes again by itself.
pub struct Opened {
    backlogs: Backlogs,
    key: Key,
    number: u64,
}

/// Rows whose turn it is. They have their place until this is dropped.
pub struct Portion<'a> {
    of: &'a Opened,
    pub rows: Vec<Row>,
}

impl Backlogs {
    /// Whether some of these wait already; others do not go before them.
    pub fn is_open(&self, key: Key) -> bool {
        self.state().each.contains_key(&key)
    }

    /// Whether there is room for one more.
    pub fn has_room(&self, key: Key) -> bool {
        self.state().room(key) > 0
    }

    /// Has rows wait behind those that wait already.
    pub fn join(&self, key: Key, rows: Vec<Row>) -> Joined {
        let (number, left) = self.state().join(key, rows, Instant::now());
        Joined { opened: number.map(|number| Opened { backlogs: self.clone(), key, number }), left }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    /// Up to so many of those that have waited longest. None where nothing waits any more; then it is closed, unless some are still being
    /// begun.
    pub fn next(&self, most: usize) -> Option<Portion<'_>> {
        let rows = self.backlogs.state().next((self.key, self.number), most)?;
        Some(Portion { of: self, rows })
    }

    /// Whether nothing waits any more, and none of it is being begun.
    pub fn is_closed(&self) -> bool {
        self.backlogs.state().backlog((self.key, self.number)).is_none()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.backlogs.state().close((self.key, self.number));
    }
}

impl Drop for Portion<'_> {
    fn drop(&mut self) {
        let Opened { backlogs, key, number } = self.of;
        backlogs.state().begun((*key, *number), &self.rows);
    }
}

impl State {
    /// For how many rows more.
    fn room(&self, key: Key) -> usize {
        let has = self.each.get(&key).map_or(0, Backlog::rows);
        OF_ONE.min(OF_ALL.saturating_sub(self.rows).div_ceil(PART)).saturating_sub(has)
    }

    /// The number of the backlog where it is a new one, and those that have no room.
    fn join(&mut self, key: Key, mut rows: Vec<Row>, now: Instant) -> (Option<u64>, Vec<(Row, Duration)>) {
        let room = self.room(key);
        if room == 0 && !self.each.contains_key(&key) {
            return (None, rows.into_iter().map(|row| (row, LATEST.mul_f64(rand::random()))).collect());
        }
        let (new, backlog) = match self.each.entry(key) {
            Entry::Occupied(entry) => (None, entry.into_mut()),
            Entry::Vacant(entry) => {
                self.opened += 1;
                (Some(self.opened), entry.insert(Backlog::new(self.opened, now)))
            }
        };
        rows.retain(|row| !backlog.known.contains(row));
        let left = rows.split_off(room.min(rows.len()));
        backlog.known.extend(&rows);
        backlog.waiting.extend(&rows);
        let left = backlog.later(left, now);
        self.count(self.rows + rows.len());
        (new, left)
    }

    fn next(&mut self, of: (Key, u64), most: usize) -> Option<Vec<Row>> {
        let backlog = self.backlog(of)?;
        let rows: Vec<Row> = backlog.waiting.drain(..most.min(backlog.waiting.len())).collect();
        backlog.taken += rows.len();
        if backlog.rows() == 0 {
            self.close(of);
        }
        (!rows.is_empty()).then_some(rows)
    }

    fn begun(&mut self, of: (Key, u64), rows: &[Row]) {
        let Some(backlog) = self.backlog(of) else { return };
        for row in rows {
            backlog.known.remove(row);
        }
        backlog.taken -= rows.len();
        backlog.gone += rows.len();
        self.count(self.rows - rows.len());
    }

    fn close(&mut self, of: (Key, u64)) {
        if let Some(rows) = self.backlog(of).map(|backlog| backlog.rows()) {
            self.each.remove(&of.0);
            self.count(self.rows - rows);
        }
    }

    /// None where it is closed, and perhaps another of the same key is open.
    fn backlog(&mut self, (key, number): (Key, u64)) -> Option<&mut Backlog> {
        self.each.get_mut(&key).filter(|backlog| backlog.number == number)
    }

    fn count(&mut self, rows: usize) {
        self.rows = rows;
        gauge!(Metric::MessagesWaiting).set(rows as f64);
    }
}

impl Backlog {
    fn new(number: u64, now: Instant) -> Self {
        let (waiting, known) = (VecDeque::new(), HashSet::new());
        Self { number, waiting, taken: 0, known, opened: now, gone: 0, behind: now }
    }

    fn rows(&self) -> usize {
        self.waiting.len() + self.taken
    }

    /// When there may be room for those that have none, one after the other, at the pace at which the others went out.
    fn later(&mut self, left: Vec<Row>, now: Instant) -> Vec<(Row, Duration)> {
        if left.is_empty() {
            return Vec::new();
        }
        let (gone, seconds) =
            (self.gone as f64 + SUPPOSED.0, now.duration_since(self.opened).as_secs_f64() + SUPPOSED.1);
        let each = Duration::from_secs_f64(1.0 / (gone / seconds).max(SLOWEST));
        let start = self.behind.max(now + each.mul_f64(self.rows() as f64)).duration_since(now);
        let due = |n: usize| start + each.mul_f64(n as f64);
        self.behind = now + due(left.len()).min(LATEST);
        // Who waits for longer looks again in between, and not all at one time.
        let spread = |due: Duration| if due < LATEST { due } else { LATEST.mul_f64(0.5 + rand::random::<f64>() / 2.0) };
        (1..).zip(left).map(|(n, row)| (row, spread(due(n)))).collect()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> Key {
        (ProjectId(Uuid::from_u128(n)), Channel::Email)
    }

    fn rows(ids: std::ops::Range<u128>) -> Vec<Row> {
        ids.map(|id| (Uuid::from_u128(id), 0)).collect()
    }

    #[test]
    fn whoever_opens_a_backlog_empties_it_in_order() {
        let backlogs = Backlogs::default();
        let opened = backlogs.join(key(1), rows(0..3)).opened.unwrap();
        assert!(backlogs.is_open(key(1)) && !backlogs.is_open(key(2)));
        assert!(!backlogs.is_open((key(1).0, Channel::Push)), "each channel has a provider of its own");
        assert!(backlogs.join(key(1), rows(3..5)).opened.is_none());
        assert_eq!(opened.next(4).unwrap().rows, rows(0..4));
        assert_eq!(opened.next(4).unwrap().rows, rows(4..5));
        assert!(opened.next(4).is_none() && !backlogs.is_open(key(1)));
        let again = backlogs.join(key(1), rows(5..6)).opened.unwrap();
        drop(opened);
        assert_eq!(again.next(4).unwrap().rows, rows(5..6));
    }

    #[test]
    fn what_waits_already_does_not_wait_twice() {
        let backlogs = Backlogs::default();
        let opened = backlogs.join(key(1), rows(0..3)).opened.unwrap();
        backlogs.join(key(1), rows(1..4));
        let portion = opened.next(9).unwrap();
        assert_eq!(portion.rows, rows(0..4));
        backlogs.join(key(1), rows(3..5));
        drop(portion);
        backlogs.join(key(1), rows(0..1));
        let next: Vec<Row> = rows(4..5).into_iter().chain(rows(0..1)).collect();
        assert_eq!(opened.next(9).unwrap().rows, next, "one was handed over again since it was begun");
    }

    #[test]
    fn a_backlog_stays_open_while_some_of_it_is_being_begun() {
        let backlogs = Backlogs::default();
        let opened = backlogs.join(key(1), rows(0..3)).opened.unwrap();
        let portion = opened.next(9).unwrap();
        assert!(opened.next(9).is_none() && !opened.is_closed());
        assert!(backlogs.join(key(1), rows(3..4)).opened.is_none(), "it goes behind those");
        drop(portion);
        assert_eq!(opened.next(9).unwrap().rows, rows(3..4));
        assert!(opened.next(9).is_none() && opened.is_closed() && !backlogs.is_open(key(1)));
    }

    #[test]
    fn a_backlog_whose_emptying_ends_is_closed() {
        let backlogs = Backlogs::default();
        let opened = backlogs.join(key(1), rows(0..3)).opened.unwrap();
        drop(opened.next(2));
        drop(opened);
        assert!(!backlogs.is_open(key(1)));
        assert_eq!(backlogs.state().rows, 0);
    }

    #[test]
    fn what_has_no_room_is_due_when_there_may_be_some() {
        let (mut state, began) = (State::default(), Instant::now());
        let (new, left) = state.join(key(1), rows(0..OF_ONE as u128), began);
        assert!(new.is_some() && left.is_empty());
        // Before any went out, nobody knows better.
        let (_, soon) = state.join(key(1), rows(90_000..90_001), began);
        assert!(soon[0].1 < Duration::from_secs(20), "{soon:?}");
        // A hundred a second go out.
        let of = (key(1), new.unwrap());
        let taken = state.next(of, 8_000).unwrap();
        state.begun(of, &taken);
        state.join(key(1), rows(20_000..28_000), began);
        let now = began + Duration::from_secs(88);
        let (_, left) = state.join(key(1), rows(10_000..10_200), now);
        let secs: Vec<u64> = left.iter().map(|(_, due)| due.as_secs()).collect();
        let full = OF_ONE as u64 / 100;
        assert_eq!((left.len(), secs[0], secs[199]), (200, full, full + 2), "{secs:?}");
        let (_, behind) = state.join(key(1), rows(30_000..30_001), now);
        assert!(behind[0].1 > left[199].1, "{behind:?}");
        assert!(!Backlogs(Arc::new(Mutex::new(state))).has_room(key(1)));
    }

    #[test]
    fn one_project_leaves_room_for_others() {
        let backlogs = Backlogs::default();
        let count = 10_000;
        let full = |n: u128| {
            let Joined { opened, left } = backlogs.join(key(n), rows(0..count));
            (opened, count as usize - left.len())
        };
        let all: Vec<_> = (0..40).map(full).collect();
        let waiting: Vec<usize> = all.iter().map(|(_, waiting)| *waiting).collect();
        assert_eq!(waiting[0], OF_ONE);
        assert!(waiting[10..].iter().all(|waiting| (1..OF_ONE).contains(waiting)), "{waiting:?}");
        assert!(waiting.iter().sum::<usize>() <= OF_ALL);
    }
}
