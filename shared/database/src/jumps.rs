//! Jumps of the database's clock. Work that a jump would make due all at once is held.
//!
//! A program that follows the database's clock compares it with the elapsed time. If the clock gets ahead by more than
//! ten minutes, the program keeps using the clock without the jump, until the clock is back or an operator accepts it.
//! Schedulers record the jump ([`Jumps::check_and_record`]); other programs rely on their record ([`Jumps::follow`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::clock_jumps::{self, ClockJump};
use crate::{Store, StoreError};
use kernel::clock::{Clock, Reading, from_ms};

/// The times up to which work is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueBy {
    /// For messages that were due at once when they were queued, and for leases.
    pub now: Timestamp,
    /// For other messages. Earlier than `now` after a forward jump of the clock.
    pub held: Timestamp,
}

impl From<Timestamp> for DueBy {
    fn from(now: Timestamp) -> Self {
        Self { now, held: now }
    }
}

/// A larger difference between the clock and the elapsed time is a jump.
const JUMP_THRESHOLD_MS: i64 = 10 * 60 * 1_000;
/// How often a held jump is logged.
const LOG_INTERVAL_MS: i64 = 60 * 1_000;
/// How long a follower holds a jump that no scheduler has recorded: perhaps only its own machine was suspended.
const CONFIRMATION_TIMEOUT_MS: i64 = 60 * 1_000;

/// The clock readings of this process.
#[derive(Debug, Default)]
pub struct Jumps(Mutex<JumpState>);

#[derive(Clone, Copy, Debug, Default)]
struct JumpState {
    /// The clock and the elapsed time at the last reading.
    last: Option<(i64, i64)>,
    /// How far the clock is ahead of the elapsed time; negative after a jump back.
    ahead_ms: i64,
    /// Whether the jump is recorded in the database.
    recorded: bool,
    /// The elapsed time at the last jump.
    jumped_ms: i64,
    logged_ms: Option<i64>,
}

/// The action that follows from this process's readings and the recorded jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JumpAction {
    Nothing,
    Record,
    /// The clock is back.
    Clear,
    /// An operator accepted it.
    Accepted,
}

impl JumpState {
    fn read(&mut self, shown_ms: i64, monotonic_ms: i64) {
        if let Some((shown_before, passed_before)) = self.last {
            let jump_ms = (shown_ms - shown_before) - (monotonic_ms - passed_before);
            if jump_ms.abs() > JUMP_THRESHOLD_MS {
                self.ahead_ms += jump_ms;
                self.jumped_ms = monotonic_ms;
                if self.ahead_ms.abs() <= JUMP_THRESHOLD_MS {
                    self.ahead_ms = 0;
                }
                let minutes = jump_ms / 60_000;
                tracing::warn!(minutes, "the database's clock jumped");
            }
        }
        self.last = Some((shown_ms, monotonic_ms));
    }

    fn held_ms(&self) -> i64 {
        self.ahead_ms.max(0)
    }

    /// Adopts the recorded jump, which every scheduler writes and an operator removes.
    fn compare(&mut self, stored: Option<&ClockJump>, shown_ms: i64) -> JumpAction {
        match stored {
            None if self.held_ms() == 0 => {
                self.recorded = false;
                JumpAction::Nothing
            }
            None if self.recorded => {
                (self.ahead_ms, self.recorded) = (0, false);
                JumpAction::Accepted
            }
            None => JumpAction::Record,
            Some(stored) if self.held_ms() > 0 => {
                self.recorded = true;
                if (stored.ahead_ms - self.ahead_ms).abs() > JUMP_THRESHOLD_MS {
                    JumpAction::Record
                } else {
                    JumpAction::Nothing
                }
            }
            // This process knew of the jump and has seen the clock come back.
            Some(_) if self.recorded => {
                self.recorded = false;
                JumpAction::Clear
            }
            Some(stored) if shown_ms < stored.jumped_at.as_millisecond() - JUMP_THRESHOLD_MS => JumpAction::Clear,
            Some(stored) => {
                // The jump happened before this process started.
                (self.ahead_ms, self.recorded) = (stored.ahead_ms, true);
                JumpAction::Nothing
            }
        }
    }

    /// Like [`Self::compare`], for a process that leaves writing to the schedulers.
    fn follow(&mut self, stored: Option<&ClockJump>, shown_ms: i64, monotonic_ms: i64) -> JumpAction {
        let was_recorded = self.recorded;
        match self.compare(stored, shown_ms) {
            // The schedulers did not see this jump, or measured another.
            JumpAction::Record => {
                if monotonic_ms - self.jumped_ms > CONFIRMATION_TIMEOUT_MS {
                    self.ahead_ms = stored.map_or(0, |stored| stored.ahead_ms);
                }
                JumpAction::Nothing
            }
            // The jump stays known until a scheduler removes the record.
            JumpAction::Clear => {
                self.recorded = was_recorded;
                JumpAction::Nothing
            }
            next => next,
        }
    }

    /// Returns whether to log again that work is held.
    fn should_log(&mut self, monotonic_ms: i64) -> bool {
        let should = self.held_ms() > 0 && self.logged_ms.is_none_or(|logged| monotonic_ms - logged >= LOG_INTERVAL_MS);
        if should {
            self.logged_ms = Some(monotonic_ms);
        }
        should
    }
}

/// A reading of the clock, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct JumpReading {
    pub shown_ms: i64,
    /// How far it has jumped ahead.
    pub held_ms: i64,
}

impl JumpReading {
    /// Returns the time that decides what is due: the clock without the jump.
    pub fn due_ms(self) -> i64 {
        self.shown_ms - self.held_ms
    }
}

impl Jumps {
    /// Reads the clock, and how far it has jumped ahead.
    pub fn read(&self, clock: &Clock) -> JumpReading {
        let mut seen = self.seen();
        let Reading { now_ms: shown_ms, monotonic_ms } = clock.reading();
        seen.read(shown_ms, monotonic_ms);
        JumpReading { shown_ms, held_ms: seen.held_ms() }
    }

    /// Returns how far the clock has jumped ahead, if it has.
    pub fn ahead(&self, clock: &Clock) -> Option<SignedDuration> {
        let JumpReading { held_ms, .. } = self.read(clock);
        (held_ms > 0).then(|| SignedDuration::from_millis(held_ms))
    }

    /// Reads the database's time. Records a jump, or that the clock is back. Returns how far the clock is ahead, in
    /// milliseconds.
    pub async fn check_and_record(&self, store: &Store, clock: &Clock) -> Result<i64, StoreError> {
        let (stored, shown_ms) = self.update(store, clock).await?;
        let (next, ahead_ms) = {
            let mut seen = self.seen();
            (seen.compare(stored.as_ref(), shown_ms), seen.ahead_ms)
        };
        match next {
            JumpAction::Nothing => {}
            JumpAction::Record => {
                let jump = ClockJump { ahead_ms, jumped_at: from_ms(shown_ms) };
                clock_jumps::record(&store.connection().await?, jump).await?;
                self.seen().recorded = true;
            }
            JumpAction::Clear => {
                clock_jumps::delete(&store.connection().await?).await?;
                tracing::info!("the database's clock is back; held work continues");
            }
            JumpAction::Accepted => log_accepted(),
        }
        Ok(self.log(clock))
    }

    /// Reads the database's time, and the jump that schedulers record and operators accept.
    pub async fn follow(&self, store: &Store, clock: &Clock) -> Result<(), StoreError> {
        let (stored, shown_ms) = self.update(store, clock).await?;
        let next = self.seen().follow(stored.as_ref(), shown_ms, clock.monotonic_ms());
        if next == JumpAction::Accepted {
            log_accepted();
        }
        self.log(clock);
        Ok(())
    }

    /// Reads the recorded jump, and then the database's time into the clock.
    async fn update(&self, store: &Store, clock: &Clock) -> Result<(Option<ClockJump>, i64), StoreError> {
        // The row first: a scheduler that removed it saw the clock back, and this process then does so too.
        let stored = clock_jumps::get(&store.connection().await?).await?;
        store.synchronize(clock).await?;
        Ok((stored, self.read(clock).shown_ms))
    }

    /// Logs every minute that work is held. Returns how far the clock is ahead, in milliseconds.
    fn log(&self, clock: &Clock) -> i64 {
        let mut seen = self.seen();
        let held_ms = seen.held_ms();
        if seen.should_log(clock.monotonic_ms()) {
            let minutes = held_ms / 60_000;
            tracing::warn!(
                minutes,
                "the database's clock jumped ahead; work that became due by the jump is held until the clock is back, or `rekindle clock accept` confirms it"
            );
        }
        held_ms
    }

    fn seen(&self) -> MutexGuard<'_, JumpState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock that decides which chunks are due.
#[derive(Clone)]
pub struct DueClock {
    pub clock: Clock,
    pub jumps: Arc<Jumps>,
}

impl DueClock {
    pub fn new(clock: Clock) -> Self {
        Self { clock, jumps: Arc::default() }
    }

    /// Returns the times up to which chunks are due. While a jump ahead is held, `held` is the clock without it.
    pub fn due_by(&self) -> DueBy {
        let shown = self.jumps.read(&self.clock);
        DueBy { now: from_ms(shown.shown_ms), held: from_ms(shown.due_ms()) }
    }

    /// Returns the start of delays: the clock without a jump that a scheduler has recorded, so that all programs agree
    /// on it. When an operator accepts the jump, delays that are shorter than it end.
    pub fn delays_from(&self) -> Timestamp {
        let DueBy { now, held } = self.due_by();
        if self.jumps.seen().recorded { held } else { now }
    }
}

fn log_accepted() {
    tracing::info!("an operator accepted the database's clock; held work is due now");
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn seen(readings: &[(i64, i64)]) -> JumpState {
        let mut seen = JumpState::default();
        readings.iter().for_each(|(shown, passed)| seen.read(*shown, *passed));
        seen
    }

    #[test]
    fn jump_is_time_ahead_of_elapsed_time() {
        let held = |readings: &[(i64, i64)]| seen(readings).held_ms();
        assert_eq!(held(&[(0, 0), (HOUR_MS, HOUR_MS), (30 * HOUR_MS, 30 * HOUR_MS)]), 0);
        assert_eq!(held(&[(0, 0), (JUMP_THRESHOLD_MS, 0), (JUMP_THRESHOLD_MS + 5, 5)]), 0);
        assert_eq!(held(&[(0, 0), (HOUR_MS + 7, 7), (HOUR_MS + 9, 9)]), HOUR_MS);
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (3 * HOUR_MS, 0)]), 3 * HOUR_MS);
        // The clock returns by itself, exactly or nearly.
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (5, 5)]), 0);
        assert_eq!(held(&[(0, 0), (HOUR_MS, 0), (JUMP_THRESHOLD_MS / 2, 5)]), 0);
        // A clock that was set back and is then corrected holds nothing.
        assert_eq!(held(&[(9 * HOUR_MS, 0), (0, 0), (9 * HOUR_MS, 0)]), 0);
        assert_eq!(held(&[(9 * HOUR_MS, 0), (0, 0)]), 0);
    }

    #[test]
    fn schedulers_agree_through_the_row_and_its_removal_accepts_the_clock() {
        let jump = ClockJump { ahead_ms: HOUR_MS, jumped_at: from_ms(HOUR_MS) };
        let mut first = seen(&[(0, 0), (HOUR_MS, 0)]);
        // Until the row is written, its absence means nothing.
        assert_eq!(
            [first.compare(None, HOUR_MS), first.compare(None, HOUR_MS)],
            [JumpAction::Record, JumpAction::Record]
        );
        first.recorded = true;
        assert_eq!(first.compare(Some(&jump), HOUR_MS), JumpAction::Nothing);
        // A scheduler that starts later also holds the jump, and accepts it with the others.
        let mut later = seen(&[(HOUR_MS + 60_000, 9)]);
        assert_eq!((later.compare(Some(&jump), HOUR_MS + 60_000), later.held_ms()), (JumpAction::Nothing, HOUR_MS));
        for one in [&mut first, &mut later] {
            assert_eq!((one.compare(None, HOUR_MS), one.held_ms()), (JumpAction::Accepted, 0));
            assert_eq!(one.compare(None, HOUR_MS), JumpAction::Nothing);
        }
        // The clock came back while no scheduler was running.
        let mut back = seen(&[(60_000, 9)]);
        assert_eq!((back.compare(Some(&jump), 60_000), back.held_ms()), (JumpAction::Clear, 0));
        // This process saw the clock set back long after the jump.
        let mut corrected = seen(&[(0, 0), (HOUR_MS, 0)]);
        corrected.recorded = true;
        corrected.read(4 * HOUR_MS, 3 * HOUR_MS);
        corrected.read(3 * HOUR_MS + 5, 3 * HOUR_MS + 5);
        assert_eq!((corrected.compare(Some(&jump), 3 * HOUR_MS + 5), corrected.held_ms()), (JumpAction::Clear, 0));
        // A second jump replaces the first.
        let mut twice = seen(&[(0, 0), (HOUR_MS, 0), (2 * HOUR_MS, 0)]);
        assert_eq!(twice.compare(Some(&jump), 2 * HOUR_MS), JumpAction::Record);
    }

    #[test]
    fn follower_adopts_the_schedulers_record() {
        let jump = ClockJump { ahead_ms: HOUR_MS, jumped_at: from_ms(HOUR_MS) };
        let mut confirmed = seen(&[(0, 0), (HOUR_MS, 0)]);
        let mut alone = confirmed;
        for monotonic_ms in [10_000, CONFIRMATION_TIMEOUT_MS] {
            for seen in [&mut confirmed, &mut alone] {
                assert_eq!((seen.follow(None, HOUR_MS, monotonic_ms), seen.held_ms()), (JumpAction::Nothing, HOUR_MS));
            }
        }
        assert_eq!(confirmed.follow(Some(&jump), HOUR_MS, CONFIRMATION_TIMEOUT_MS), JumpAction::Nothing);
        for seen in [&mut confirmed, &mut alone] {
            seen.follow(None, HOUR_MS, CONFIRMATION_TIMEOUT_MS + 1);
            assert_eq!(seen.held_ms(), 0, "accepted, or only this process's machine was suspended");
        }
        // A row that no scheduler has removed yet does not count after the clock came back.
        let mut back = seen(&[(0, 0), (HOUR_MS, 0)]);
        back.follow(Some(&jump), HOUR_MS, 0);
        back.read(3 * HOUR_MS, 3 * HOUR_MS);
        for _ in 0..2 {
            back.follow(Some(&jump), 3 * HOUR_MS, 3 * HOUR_MS);
            assert_eq!(back.held_ms(), 0);
        }
    }

    #[test]
    fn held_jump_is_logged_every_minute() {
        let mut seen = seen(&[(0, 0), (HOUR_MS, 0)]);
        assert_eq!([0, 59_999, 60_000, 60_001].map(|passed| seen.should_log(passed)), [true, false, true, false]);
        seen.ahead_ms = 0;
        assert!(!seen.should_log(500_000));
    }
}
