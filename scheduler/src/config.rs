//! The configuration of the scheduler.

use std::time::Duration;

use shared::env::{Env, EnvError};

#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// Between two looks at what is due, while there is something.
    pub busy: Duration,
    /// The same, while there is nothing.
    pub idle: Duration,
    /// After the database was away, before the first look at messages: so long, delivery writes down what it knows of
    /// those whose lease ran out meanwhile.
    pub calm: Duration,
    /// Applied entries of the ingest stream are kept for so long, for a restored database to catch up.
    pub keep_ingest: Duration,
    /// Share of the ingest stream's bytes, in percent, from which on applied entries go earlier.
    pub purge_above_percent: u64,
}

impl SchedulerConfig {
    /// `SCHEDULER_TICK_MS` (250), `INGEST_KEEP_HOURS` (72), `INGEST_PURGE_ABOVE_PERCENT` (70).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let tick = env.bounded("SCHEDULER_TICK_MS", 250, 10..=10_000, "10 to 10000")?;
        let hours = env.bounded("INGEST_KEEP_HOURS", 72, 1..=8_760, "1 to 8760")?;
        Ok(Self {
            busy: Duration::from_millis(tick),
            idle: Duration::from_millis(tick * 2),
            calm: Duration::from_secs(5),
            keep_ingest: Duration::from_hours(hours),
            purge_above_percent: env.bounded("INGEST_PURGE_ABOVE_PERCENT", 70, 1..=100, "1 to 100")?,
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
        for (name, value) in
            [("SCHEDULER_TICK_MS", "0"), ("INGEST_KEEP_HOURS", "x"), ("INGEST_PURGE_ABOVE_PERCENT", "101")]
        {
            assert_eq!(SchedulerConfig::from_env(&Env::from_pairs([(name, value)])).unwrap_err().name, name);
        }
    }
}
