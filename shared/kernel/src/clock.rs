//! The only module that reads the system time. All other code uses a [`Clock`].

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

/// Product time. In production it follows the database's clock, so that all processes agree; tests set it manually.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    /// The elapsed time plus the offset to the database's clock, in milliseconds. Setting the machine's own clock
    /// has no effect.
    System {
        offset_ms: AtomicI64,
    },
    Manual(Mutex<Reading>),
}

/// The reading of a clock at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// See [`Clock::now_ms`].
    pub now_ms: i64,
    /// See [`Clock::monotonic_ms`].
    pub monotonic_ms: i64,
}

impl Clock {
    pub fn system() -> Self {
        Self(Arc::new(Source::System { offset_ms: AtomicI64::new(machine_offset_ms()) }))
    }

    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Source::Manual(Mutex::new(Reading { now_ms: start.as_millisecond(), monotonic_ms: 0 }))))
    }

    /// Returns milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.reading().now_ms
    }

    /// Returns milliseconds since a fixed moment: a monotonic time that clock corrections do not affect, and that
    /// advances while the machine sleeps (on Linux).
    pub fn monotonic_ms(&self) -> i64 {
        self.reading().monotonic_ms
    }

    /// Reads [`Self::now_ms`] and [`Self::monotonic_ms`] at the same moment. Their difference changes only when the
    /// clock is set.
    pub fn reading(&self) -> Reading {
        match &*self.0 {
            Source::System { offset_ms } => {
                let monotonic_ms = machine_monotonic_ms();
                Reading { now_ms: monotonic_ms + offset_ms.load(Ordering::Relaxed), monotonic_ms }
            }
            Source::Manual(manual) => *locked(manual),
        }
    }

    /// Returns the current time, in whole milliseconds.
    pub fn now(&self) -> Timestamp {
        from_ms(self.now_ms())
    }

    /// Follows the database's clock. `offset_ms` is its time minus [`Self::monotonic_ms`] at the same moment, accurate
    /// to `within_ms` milliseconds.
    ///
    /// Changes nothing if this clock differs by at most `within_ms`, so that a slow reading does not degrade it. A
    /// manual clock ignores the call.
    pub fn follow(&self, offset_ms: i64, within_ms: i64) {
        if let Source::System { offset_ms: own } = &*self.0 {
            if (offset_ms - own.load(Ordering::Relaxed)).abs() <= within_ms {
                return;
            }
            let machines = machine_offset_ms();
            // A difference of less than 20 ms from the machine's clock comes from the round trip, not from the clocks.
            own.store(if (offset_ms - machines).abs() < 20 { machines } else { offset_ms }, Ordering::Relaxed);
        }
    }

    /// Advances a manual clock. Has no effect on a system clock.
    pub fn advance(&self, by: std::time::Duration) {
        if let Source::Manual(manual) = &*self.0 {
            let (mut manual, by_ms) = (locked(manual), by.as_millis() as i64);
            manual.now_ms += by_ms;
            manual.monotonic_ms += by_ms;
        }
    }

    /// Sets a manual clock forward or back without elapsed time. Has no effect on a system clock.
    pub fn jump(&self, by: SignedDuration) {
        if let Source::Manual(manual) = &*self.0 {
            locked(manual).now_ms += by.as_millis() as i64;
        }
    }
}

fn locked(manual: &Mutex<Reading>) -> MutexGuard<'_, Reading> {
    manual.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the machine's own time, which is more precise than product time and independent of it. Use it only for
/// telemetry such as traces.
#[expect(clippy::disallowed_methods, reason = "the only module that reads the system time")]
pub fn machine_now() -> SystemTime {
    SystemTime::now()
}

#[expect(clippy::disallowed_methods, reason = "the only module that reads the system time")]
fn machine_now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

fn machine_offset_ms() -> i64 {
    machine_now_ms() - machine_monotonic_ms()
}

#[cfg(target_os = "linux")]
fn machine_monotonic_ms() -> i64 {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    since_boot.tv_sec * 1_000 + since_boot.tv_nsec / 1_000_000
}

/// On other systems the time may not advance while the machine sleeps.
#[cfg(not(target_os = "linux"))]
fn machine_monotonic_ms() -> i64 {
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FIRST.elapsed().as_millis() as i64
}

/// Converts milliseconds since the Unix epoch to a timestamp, clamped to the range of `Timestamp`.
pub fn from_ms(ms: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond());
    Timestamp::from_millisecond(ms.clamp(min, max)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Formats a timestamp as RFC 3339 in UTC with milliseconds and `Z`, the format of all timestamps in the API.
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_milliseconds_and_z() {
        assert_eq!(rfc3339(from_ms(1_700_000_000_000)), "2023-11-14T22:13:20.000Z");
        assert_eq!(rfc3339(from_ms(1_700_000_000_007)), "2023-11-14T22:13:20.007Z");
    }

    #[test]
    fn manual_clock_moves_only_manually() {
        let clock = Clock::manual(from_ms(1_000));
        clock.follow(99_000, 0);
        assert_eq!(clock.now_ms(), 1_000);
        clock.advance(std::time::Duration::from_secs(2));
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (3_000, 2_000));
        clock.jump(SignedDuration::from_secs(-1));
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (2_000, 2_000));
    }

    #[test]
    fn system_clock_follows_database() {
        let clock = Clock::system();
        clock.follow(machine_offset_ms() + 3_600_000, 0);
        let ahead = clock.now_ms() - machine_now_ms();
        assert!((3_599_900..=3_600_100).contains(&ahead), "{ahead}");
        let (Reading { now_ms, monotonic_ms }, later) = (clock.reading(), clock.reading());
        assert!(monotonic_ms > 0);
        assert_eq!(later.now_ms - later.monotonic_ms, now_ms - monotonic_ms);
    }

    #[test]
    fn reading_within_its_accuracy_changes_nothing() {
        let clock = Clock::system();
        let ahead = || clock.now_ms() - machine_now_ms();
        clock.follow(machine_offset_ms() + 60, 80);
        assert!(ahead().abs() < 20, "{}", ahead());
        clock.follow(machine_offset_ms() + 600, 80);
        assert!((500..=700).contains(&ahead()), "{}", ahead());
        clock.follow(machine_offset_ms(), 1);
        assert!(ahead().abs() < 20, "{}", ahead());
    }
}
