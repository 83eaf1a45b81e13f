//! The only place that reads the time of day. Everything else is handed a [`Clock`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

/// Product time. In production it follows the database, so that all processes agree; in tests it is set by hand.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    /// The machine's clock plus the offset to the database's, in milliseconds.
    System {
        offset_ms: AtomicI64,
    },
    Manual {
        now_ms: AtomicI64,
        passed_ms: AtomicI64,
    },
}

impl Clock {
    pub fn system() -> Self {
        Self(Arc::new(Source::System { offset_ms: AtomicI64::new(0) }))
    }

    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Source::Manual { now_ms: AtomicI64::new(start.as_millisecond()), passed_ms: AtomicI64::new(0) }))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match &*self.0 {
            Source::System { offset_ms } => machine_now_ms() + offset_ms.load(Ordering::Relaxed),
            Source::Manual { now_ms, .. } => now_ms.load(Ordering::Relaxed),
        }
    }

    /// Milliseconds that have passed since a moment that stays the same for as long as the process runs: no correction of a
    /// clock changes them, and they go on while the machine sleeps.
    pub fn passed_ms(&self) -> i64 {
        match &*self.0 {
            Source::System { .. } => machine_passed_ms(),
            Source::Manual { passed_ms, .. } => passed_ms.load(Ordering::Relaxed),
        }
    }

    /// The present, to the millisecond.
    pub fn now(&self) -> Timestamp {
        from_ms(self.now_ms())
    }

    /// Takes over the database's time, read as `database_now` just now, right to `within_ms` milliseconds. Nothing changes where this
    /// clock is as close: a reading that was slow on its way says nothing about it. A manual clock stays as it is.
    pub fn follow(&self, database_now: Timestamp, within_ms: i64) {
        if let Source::System { offset_ms } = &*self.0 {
            let offset = database_now.as_millisecond() - machine_now_ms();
            if (offset - offset_ms.load(Ordering::Relaxed)).abs() <= within_ms {
                return;
            }
            // Below a few milliseconds the difference is the round trip, not the clocks.
            offset_ms.store(if offset.abs() < 20 { 0 } else { offset }, Ordering::Relaxed);
        }
    }

    /// Lets time pass by a manual clock; a system clock cannot be moved.
    pub fn advance(&self, by: std::time::Duration) {
        if let Source::Manual { now_ms, passed_ms } = &*self.0 {
            now_ms.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
            passed_ms.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
        }
    }

    /// Sets a manual clock ahead, or back, without any time passing.
    pub fn jump(&self, by: SignedDuration) {
        if let Source::Manual { now_ms, .. } = &*self.0 {
            now_ms.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
        }
    }
}

/// The machine's own time, finer than product time and followed by nothing: only for what is told of the work, as traces are.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn machine_now() -> SystemTime {
    SystemTime::now()
}

#[expect(clippy::disallowed_methods, reason = "the one place")]
fn machine_now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(target_os = "linux")]
fn machine_passed_ms() -> i64 {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    since_boot.tv_sec * 1_000 + since_boot.tv_nsec / 1_000_000
}

/// Elsewhere it may stand still while the machine sleeps.
#[cfg(not(target_os = "linux"))]
fn machine_passed_ms() -> i64 {
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FIRST.elapsed().as_millis() as i64
}

/// A timestamp from milliseconds since the Unix epoch, held within what a timestamp can be.
pub fn from_ms(ms: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond());
    Timestamp::from_millisecond(ms.clamp(min, max)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// RFC 3339 in UTC with milliseconds and `Z`: how every timestamp leaves the API.
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_leave_with_milliseconds_and_z() {
        assert_eq!(rfc3339(from_ms(1_700_000_000_000)), "2023-11-14T22:13:20.000Z");
        assert_eq!(rfc3339(from_ms(1_700_000_000_007)), "2023-11-14T22:13:20.007Z");
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual(from_ms(1_000));
        clock.follow(from_ms(99_000), 0);
        assert_eq!(clock.now_ms(), 1_000);
        clock.advance(std::time::Duration::from_secs(2));
        assert_eq!((clock.now_ms(), clock.passed_ms()), (3_000, 2_000));
        clock.jump(SignedDuration::from_secs(-1));
        assert_eq!((clock.now_ms(), clock.passed_ms()), (2_000, 2_000));
    }

    #[test]
    fn a_system_clock_follows_the_database() {
        let clock = Clock::system();
        clock.follow(from_ms(clock.now_ms() + 3_600_000), 0);
        let ahead = clock.now_ms() - machine_now_ms();
        assert!((3_599_900..=3_600_100).contains(&ahead), "{ahead}");
        assert!(clock.passed_ms() > 0);
    }

    #[test]
    fn a_slow_reading_that_agrees_with_the_clock_changes_nothing() {
        let clock = Clock::system();
        let ahead = || clock.now_ms() - machine_now_ms();
        clock.follow(from_ms(machine_now_ms() + 60), 80);
        assert!(ahead().abs() < 20, "{}", ahead());
        clock.follow(from_ms(machine_now_ms() + 600), 80);
        assert!((500..=700).contains(&ahead()), "{}", ahead());
        clock.follow(from_ms(machine_now_ms()), 1);
        assert!(ahead().abs() < 20, "{}", ahead());
    }
}
