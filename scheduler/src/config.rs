//! The configuration of the scheduler.

use std::time::Duration;

use kernel::env::{Env, EnvError};

use crate::campaigns::Limits;

#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// Interval between polls while rows are due.
    pub busy: Duration,
    /// Interval between polls while none are due.
    pub idle: Duration,
    /// Failures that pause a campaign.
    pub failures: Limits,
    /// How long applied entries of the ingest stream are kept, for a restored database to catch up.
    pub keep_ingest: Duration,
    /// Fill level of the ingest stream, in percent of its maximum bytes, from which applied entries are removed
    /// earlier.
    pub purge_above_percent: u64,
    /// How long in-app messages are kept after they arrived.
    pub keep_inbox: Duration,
    /// How long items that could not be recorded are kept.
    pub keep_dead_letters: Duration,
}

impl SchedulerConfig {
    /// `SCHEDULER_TICK_MS` (250), `CAMPAIGN_FAILURES_IN_ROW` (100), `CAMPAIGN_FAILURES_OF` (1000), `INGEST_KEEP_HOURS`
    /// (72), `INGEST_PURGE_ABOVE_PERCENT` (70), `INBOX_KEEP_DAYS` (90), `DEAD_LETTERS_KEEP_DAYS` (90).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let tick = env.bounded("SCHEDULER_TICK_MS", 250, 10..=10_000, "10 to 10000")?;
        let hours = env.bounded("INGEST_KEEP_HOURS", 72, 1..=8_760, "1 to 8760")?;
        Ok(Self {
            busy: Duration::from_millis(tick),
            idle: Duration::from_millis(tick * 2),
            failures: Limits {
                in_row: env.bounded("CAMPAIGN_FAILURES_IN_ROW", 100, 1..=1_000_000, "1 to 1000000")?,
                window: env.bounded("CAMPAIGN_FAILURES_OF", 1_000, 1..=1_000_000, "1 to 1000000")?,
            },
            keep_ingest: Duration::from_hours(hours),
            purge_above_percent: env.bounded("INGEST_PURGE_ABOVE_PERCENT", 70, 1..=100, "1 to 100")?,
            keep_inbox: Duration::from_hours(24 * env.bounded("INBOX_KEEP_DAYS", 90, 1..=3_650, "1 to 3650")?),
            keep_dead_letters: Duration::from_hours(
                24 * env.bounded("DEAD_LETTERS_KEEP_DAYS", 90, 1..=3_650, "1 to 3650")?,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_bounds() {
        let config = SchedulerConfig::from_env(&Env::default()).unwrap();
        assert_eq!((config.busy.as_millis(), config.idle.as_millis()), (250, 500));
        for (name, value) in [
            ("SCHEDULER_TICK_MS", "0"),
            ("INGEST_KEEP_HOURS", "x"),
            ("INGEST_PURGE_ABOVE_PERCENT", "101"),
            ("CAMPAIGN_FAILURES_OF", "0"),
            ("INBOX_KEEP_DAYS", "0"),
            ("DEAD_LETTERS_KEEP_DAYS", "0"),
        ] {
            assert_eq!(SchedulerConfig::from_env(&Env::from_pairs([(name, value)])).unwrap_err().name, name);
        }
    }
}
