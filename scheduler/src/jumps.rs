//! Jumps of the database's clock: what would become due by one, all at once, is held.
//!
//! The scheduler goes by the time that has passed since it last looked. Where the clock ran ahead of that by more than ten
//! minutes, it goes on by the clock as it was ([`App::now`]): waits end when they would have, campaigns that are under way
//! or come due by the new time are paused, and nothing is removed for its age. That lasts until the clock is back, or
//! somebody says that it is right. A jump back makes nothing due, and is only told.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use shared::clock::{Clock, from_ms};
use shared::metric_name::Metric;
use shared::store::clock_jumps::{self, ClockJump};

use crate::App;
use crate::tick::{Found, TickError};

/// What is no jump.
const BOUND_MS: i64 = 10 * 60 * 1_000;
/// How often it is told that something is held.
const TOLD_MS: i64 = 60 * 1_000;
/// A reading that took longer says nothing.
const READ_MS: i64 = 1_000;

/// What this process has seen of the clock.
#[derive(Default)]
pub struct Jumps(Mutex<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The clock, and the time that had passed, when it was last read.
    last: Option<(i64, i64)>,
    /// How far the clock runs ahead of the time that passed since; less than nothing after a jump back.
    ahead_ms: i64,
    /// It was in the database.
    noted: bool,
    told_ms: Option<i64>,
}

/// What follows from what this process has seen and what the database says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Note,
    /// The clock is back.
    Forget,
    /// Somebody said that it is right.
    Accepted,
}

impl Seen {
    fn read(&mut self, shown_ms: i64, passed_ms: i64) {
        if let Some((shown_before, passed_before)) = self.last {
            let moved = (shown_ms - shown_before) - (passed_ms - passed_before);
            if moved.abs() > BOUND_MS {
                self.ahead_ms += moved;
                if self.ahead_ms.abs() <= BOUND_MS {
                    self.ahead_ms = 0;
                }
                let minutes = moved / 60_000;
                tracing::warn!(minutes, "the database's clock jumped");
            }
        }
        self.last = Some((shown_ms, passed_ms));
    }

    fn held_ms(&self) -> i64 {
        self.ahead_ms.max(0)
    }

    /// Takes over what the database says, which every scheduler writes and an operator removes.
    fn compare(&mut self, stored: Option<&ClockJump>, shown_ms: i64) -> Next {
        match stored {
            None if self.held_ms() == 0 => {
                self.noted = false;
                Next::Nothing
            }
            None if self.noted => {
                (self.ahead_ms, self.noted) = (0, false);
                Next::Accepted
            }
            None => Next::Note,
            Some(stored) if self.held_ms() > 0 => {
                self.noted = true;
                if (stored.ahead_ms - self.ahead_ms).abs() > BOUND_MS { Next::Note } else { Next::Nothing }
            }
            // This process knew of it, and has seen the clock come back.
            Some(_) if self.noted => {
                self.noted = false;
                Next::Forget
            }
            Some(stored) if shown_ms < stored.jumped_at.as_millisecond() - BOUND_MS => Next::Forget,
            Some(stored) => {
                // It was seen before this process started.
                (self.ahead_ms, self.noted) = (stored.ahead_ms, true);
                Next::Nothing
            }
        }
    }

    /// Whether it is time to say again that something is held.
    fn tells(&mut self, passed_ms: i64) -> bool {
        let tells = self.held_ms() > 0 && self.told_ms.is_none_or(|told| passed_ms - told >= TOLD_MS);
        if tells {
            self.told_ms = Some(passed_ms);
        }
        tells
    }
}

impl Jumps {
    fn with<T>(&self, act: impl FnOnce(&mut Seen) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The clock as it would be without a jump ahead, and how far that is behind what it shows.
    fn read(&self, clock: &Clock) -> (i64, i64) {
        self.with(|seen| {
            let (shown_ms, passed_ms) = reading(clock);
            seen.read(shown_ms, passed_ms);
            (shown_ms - seen.held_ms(), seen.held_ms())
        })
    }
}

/// What the clock shows, and the time that has passed, of one moment.
fn reading(clock: &Clock) -> (i64, i64) {
    loop {
        let passed_ms = clock.passed_ms();
        let shown_ms = clock.now_ms();
        // Where the process stood still in between, they are of two.
        if clock.passed_ms() - passed_ms < READ_MS {
            return (shown_ms, passed_ms);
        }
    }
}

impl App {
    /// By which it is judged what is due: the clock, but for a jump ahead that nobody has judged.
    pub fn now(&self) -> Timestamp {
        from_ms(self.now_ms())
    }

    /// As [`Self::now`], in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.jumps.read(&self.clock).0
    }

    /// How far the clock has jumped ahead, if it has.
    pub fn jumped(&self) -> Option<SignedDuration> {
        let (_, held_ms) = self.jumps.read(&self.clock);
        (held_ms > 0).then(|| SignedDuration::from_millis(held_ms))
    }
}

/// Reads the database's time, and brings together what all schedulers know of it.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let db = app.store.connection().await?;
    // The row first: whoever forgot it saw the clock back, and then this one does, too.
    let stored = clock_jumps::get(&db).await?;
    app.store.synchronize(&app.clock).await?;
    app.jumps.read(&app.clock);
    let shown = app.clock.now();
    let (next, ahead_ms) =
        app.jumps.with(|seen| (seen.compare(stored.as_ref(), shown.as_millisecond()), seen.ahead_ms));
    match next {
        Next::Nothing => {}
        Next::Note => {
            clock_jumps::note(&db, ClockJump { ahead_ms, jumped_at: shown }).await?;
            app.jumps.with(|seen| seen.noted = true);
        }
        Next::Forget => {
            clock_jumps::forget(&db).await?;
            tracing::info!("the database's clock is back; what was held goes on");
        }
        Next::Accepted => tracing::info!("the database's clock was said to be right; what was held is due now"),
    }
    let (tells, held_ms) = app.jumps.with(|seen| (seen.tells(app.clock.passed_ms()), seen.held_ms()));
    metrics::gauge!(Metric::ClockAhead).set(held_ms as f64 / 1_000.0);
    if tells {
        let minutes = held_ms / 60_000;
        tracing::warn!(
            minutes,
            "the database's clock jumped ahead; what became due by that is held until it is back, or `rekindle clock accept` \
             says that it is right"
        );
    }
    Ok(Found::Nothing)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn seen(readings: &[(i64, i64)]) -> Seen {
        let mut seen = Seen::default();
        readings.iter().for_each(|(shown, passed)| seen.read(*shown, *passed));
        seen
    }

    #[test]
    fn only_what_runs_ahead_of_the_time_that_passed_is_a_jump() {
        let held = |readings: &[(i64, i64)]| seen(readings).held_ms();
        assert_eq!(held(&[(0, 0), (HOUR_MS, HOUR_MS), (30 * HOUR_MS, 30 * HOUR_MS)]), 0);
        assert_eq!(held(&[(0, 0), (BOUND_MS, 0), (BOUND_MS + 5, 5)]), 0);
        assert_eq!(held(&[(0, 0), (HOUR_MS + 7, 7), (HOUR_MS + 9, 9)]), HOUR_MS);
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (3 * HOUR_MS, 0)]), 3 * HOUR_MS);
        // Back by itself, exactly or nearly.
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (5, 5)]), 0);
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (BOUND_MS / 2, 5)]), 0);
        // And a clock that was back and comes right again holds nothing.
        assert_eq!(held(&[(9 * HOUR_MS, 0), (0, 0), (9 * HOUR_MS, 0)]), 0);
        assert_eq!(held(&[(9 * HOUR_MS, 0), (0, 0)]), 0);
    }

    #[test]
    fn schedulers_agree_by_the_row_and_its_removal_says_that_the_clock_is_right() {
        let jump = ClockJump { ahead_ms: HOUR_MS, jumped_at: from_ms(HOUR_MS) };
        let mut first = seen(&[(0, 0), (HOUR_MS, 0)]);
        // Until it could be written, its absence says nothing.
        assert_eq!([first.compare(None, HOUR_MS), first.compare(None, HOUR_MS)], [Next::Note, Next::Note]);
        first.noted = true;
        assert_eq!(first.compare(Some(&jump), HOUR_MS), Next::Nothing);
        // One that is started afterwards holds it, too, and forgets it with the others.
        let mut later = seen(&[(HOUR_MS + 60_000, 9)]);
        assert_eq!((later.compare(Some(&jump), HOUR_MS + 60_000), later.held_ms()), (Next::Nothing, HOUR_MS));
        for one in [&mut first, &mut later] {
            assert_eq!((one.compare(None, HOUR_MS), one.held_ms()), (Next::Accepted, 0));
            assert_eq!(one.compare(None, HOUR_MS), Next::Nothing);
        }
        // A clock that came back while none was running.
        let mut back = seen(&[(60_000, 9)]);
        assert_eq!((back.compare(Some(&jump), 60_000), back.held_ms()), (Next::Forget, 0));
        // One that was set back long after it had jumped, as whoever held it saw.
        let mut mended = seen(&[(0, 0), (HOUR_MS, 0)]);
        mended.noted = true;
        mended.read(4 * HOUR_MS, 3 * HOUR_MS);
        mended.read(3 * HOUR_MS + 5, 3 * HOUR_MS + 5);
        assert_eq!((mended.compare(Some(&jump), 3 * HOUR_MS + 5), mended.held_ms()), (Next::Forget, 0));
        // A second jump is noted in the place of the first.
        let mut twice = seen(&[(0, 0), (HOUR_MS, 0), (2 * HOUR_MS, 0)]);
        assert_eq!(twice.compare(Some(&jump), 2 * HOUR_MS), Next::Note);
    }

    #[test]
    fn that_something_is_held_is_told_every_minute() {
        let mut seen = seen(&[(0, 0), (HOUR_MS, 0)]);
        assert_eq!([0, 59_999, 60_000, 60_001].map(|passed| seen.tells(passed)), [true, false, true, false]);
        seen.ahead_ms = 0;
        assert!(!seen.tells(500_000));
    }
}
