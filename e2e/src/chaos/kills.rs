//! Kills parts of a system at random with SIGKILL, one after the other, and restarts each after a while.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::System;

/// Time between a kill and the restart, in milliseconds.
const DOWNTIME_MS: Range<u64> = 0..400;

/// The parts that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    Scheduler,
    Delivery,
    Automation,
    Nats,
}

/// Seeded random kills, counted.
#[derive(Debug)]
pub struct RandomKills {
    random: StdRng,
    victims: &'static [Victim],
    /// Milliseconds before each kill.
    pause: Range<u64>,
    pub killed: BTreeMap<Victim, u32>,
}

impl RandomKills {
    pub fn new(seed: u64, victims: &'static [Victim], pause: Range<u64>) -> Self {
        Self { random: StdRng::seed_from_u64(seed), victims, pause, killed: BTreeMap::new() }
    }

    /// After a pause, kills one of the victims and restarts it. It is ready on return.
    pub async fn kill_one(&mut self, system: &mut System) {
        let pause = self.random.random_range(self.pause.clone());
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let victim = self.victims[self.random.random_range(0..self.victims.len())];
        let down = Duration::from_millis(self.random.random_range(DOWNTIME_MS));
        *self.killed.entry(victim).or_default() += 1;
        match victim {
            Victim::Scheduler => system.scheduler.restart(down).await,
            Victim::Delivery => system.delivery.restart(down).await,
            Victim::Automation => system.automation.restart(down).await,
            Victim::Nats => {
                system.nats.kill().await;
                tokio::time::sleep(down).await;
                system.nats.start_again().await;
            }
        }
    }

    /// Returns the number of kills.
    pub fn kills(&self) -> u64 {
        self.killed.values().copied().map(u64::from).sum()
    }
}
