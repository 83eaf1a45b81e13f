//! How much waits here for an account, and when that comes again for which there is no room. What is urgent is counted by
//! itself, for it waits behind nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shared::send::Lane;
use tokio::time::Instant;

use super::locked;

/// What waits here is what goes out within so long, and a few more where that is little.
const HERE: u32 = 30;
const HERE_LEAST: usize = 50;
/// While others of the lane have taken all places, no account is left without so many.
const HERE_SCARCE: usize = 8;

/// No row of a lane waits for longer until it is looked at again. That writes it twice, and there may be a million; of a campaign
/// no more are released than go out soon.
const fn latest(lane: Lane) -> Duration {
    match lane {
        Lane::Direct | Lane::Automation => Duration::from_hours(1),
        Lane::Campaign => Duration::from_mins(10),
    }
}

/// How fast what waits goes out.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub lane: Lane,
    /// By all workers together.
    pub per_second: u32,
    pub workers: u32,
}

/// How many rows of an account may wait in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Here,
    /// A few, as much waits here already.
    Scarce,
}

#[derive(Default)]
pub struct Waiting(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    here: usize,
    /// When the last of those is due that had no room.
    behind: Option<Instant>,
}

/// Room for rows that wait here, until it is dropped.
pub struct Room {
    waiting: Arc<Waiting>,
    rows: usize,
}

impl Room {
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        locked(&self.waiting.0).here -= self.rows;
    }
}

impl Waiting {
    /// Room for some of so many rows, and in how long each of the others is due.
    pub fn enter(self: &Arc<Self>, rows: usize, place: Place, pace: Pace) -> (Room, Vec<Duration>) {
        let (rows, later) = locked(&self.0).enter(rows, place, pace, Instant::now());
        (Room { waiting: self.clone(), rows }, later)
    }
}

impl Queue {
    fn enter(&mut self, rows: usize, place: Place, pace: Pace, now: Instant) -> (usize, Vec<Duration>) {
        let most = match place {
            Place::Here => (pace.per_second.div_ceil(pace.workers).saturating_mul(HERE) as usize).max(HERE_LEAST),
            Place::Scarce => HERE_SCARCE,
        };
        let fit = rows.min(most.saturating_sub(self.here));
        self.here += fit;
        let each = Duration::from_secs(1) / pace.per_second.max(1);
        let latest = latest(pace.lane);
        let behind = rows - fit;
        let start = self.behind.unwrap_or(now).max(now + each * u32::try_from(self.here).unwrap_or(u32::MAX));
        let first = start.saturating_duration_since(now);
        let later = (1..=behind).map(|n| {
            let due = first + each * u32::try_from(n).unwrap_or(u32::MAX);
            // Who waits for longer looks again in between, and not all at one time.
            if due < latest { due } else { latest / 2 + (latest / 2).mul_f64(n as f64 / behind as f64) }
        });
        let later: Vec<Duration> = later.collect();
        if let Some(last) = later.last() {
            self.behind = Some(now + *last);
        }
        (fit, later)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn pace(per_second: u32) -> Pace {
        Pace { lane: Lane::Automation, per_second, workers: 1 }
    }

    #[test]
    fn what_goes_out_soon_waits_here_and_the_rest_comes_when_its_turn_may_be() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        let secs = |later: &[Duration]| later.iter().map(Duration::as_secs).collect::<Vec<_>>();
        assert_eq!(queue.enter(40, Place::Here, pace(2), now), (40, vec![]));
        // Room for 20 more, which takes half a minute from now on.
        let (fit, later) = queue.enter(24, Place::Here, pace(2), now);
        assert_eq!((fit, secs(&later)), (20, vec![30, 31, 31, 32]));
        let (fit, later) = queue.enter(2, Place::Here, pace(2), now);
        assert_eq!((fit, secs(&later)), (0, vec![32, 33]));
        // Time passes.
        queue.here = 0;
        let (fit, later) = queue.enter(61, Place::Here, pace(2), now + Duration::from_mins(1));
        assert_eq!((fit, secs(&later)), (60, vec![30]));
    }

    #[test]
    fn where_places_are_scarce_an_account_still_gets_a_few() {
        let (now, mut queue) = (Instant::now(), Queue::default());
        let (fit, later) = queue.enter(10, Place::Scarce, pace(1), now);
        assert_eq!((fit, later.iter().map(Duration::as_secs).collect::<Vec<_>>()), (8, vec![9, 10]));
        assert_eq!(queue.enter(1, Place::Scarce, pace(1), now).0, 0);
    }

    #[test]
    fn nothing_waits_for_longer_than_its_lane_allows() {
        for (lane, most) in [(Lane::Campaign, 600), (Lane::Automation, 3_600), (Lane::Direct, 3_600)] {
            let (now, mut queue) = (Instant::now(), Queue::default());
            let (pace, most) = (Pace { lane, ..pace(1) }, Duration::from_secs(most));
            for _ in 0..3 {
                let (_, later) = queue.enter(50_000, Place::Here, pace, now);
                assert!(later.iter().all(|due| *due <= most));
                let late = later.iter().filter(|due| **due >= most / 2).count();
                assert!(late > 45_000, "{late}");
            }
        }
    }

    #[test]
    fn each_worker_keeps_its_share_waiting() {
        let pace = Pace { workers: 4, ..pace(10) };
        let (fit, later) = Queue::default().enter(100, Place::Here, pace, Instant::now());
        // A quarter of it, rounded up; what comes later comes by the pace of all.
        assert_eq!((fit, later.len()), (90, 10));
        assert_eq!(later[1], later[0] + Duration::from_millis(100));
    }
}
