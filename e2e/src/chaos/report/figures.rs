//! The figures of a run, as one line of JSON, so that the lines of many runs form a table.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Observations, RECOVERY_GOAL};
use crate::chaos::injected::InjectedFault;
use crate::chaos::plan::{CLUSTER_SIZE, FaultKind};
use crate::chaos::recovery::recovery_time;

/// The figures; times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    pub seed: u64,
    /// RFC 3339.
    pub began: String,
    pub minutes: f64,
    pub load: u32,
    pub cluster: bool,
    pub clock: bool,
    pub disk: bool,
    /// The programs are release builds.
    pub release: bool,
    pub sound: bool,
    /// The broken promises, and `drained` if something was still in flight.
    pub broken: Vec<&'static str>,
    pub kills: Kills,
    pub faults: usize,
    pub kinds: BTreeMap<String, KindStats>,
    /// Requests by their response.
    pub accepted: u64,
    pub throttled: u64,
    pub unanswered: u64,
    pub events_tried: usize,
    pub events_accepted: usize,
    pub events_stored: usize,
    /// Messages that clients sent with idempotency keys, and all messages of the ledger.
    pub sends: usize,
    pub messages: usize,
    pub sent: usize,
    pub runs: usize,
    pub campaigns: usize,
    /// Calls with an unknown outcome, and the copies that resulted from them.
    pub ambiguous: u64,
    pub second_copies: u64,
    /// Calls that the providers' servers failed.
    pub failed_calls: u64,
    pub drained_after: Option<f64>,
    pub recoveries: usize,
    pub late_recoveries: usize,
    pub longest_recovery: Option<f64>,
}

/// Numbers of sudden deaths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kills {
    /// SIGKILL of the product's programs.
    pub programs: u32,
    /// Deaths at a failpoint, which act like SIGKILL.
    pub failpoints: u32,
    pub postgres: u32,
    /// Servers; a cluster has several.
    pub nats: u32,
    pub redis: u32,
}

impl Kills {
    /// Counts the kills. `failpoints`: how often a program died at one.
    pub fn of(injected: &[InjectedFault], failpoints: u32, cluster: bool) -> Self {
        let mut kills = Self { failpoints, ..Self::default() };
        for fault in injected {
            match &fault.kind {
                // A program that is to die at a failpoint is killed first, to be restarted with it.
                FaultKind::Killed(_) | FaultKind::DiesAtFailpoint(..) => kills.programs += 1,
                FaultKind::PostgresStopped => kills.postgres += 1,
                FaultKind::NatsKilled(number) => {
                    kills.nats += if cluster && *number >= CLUSTER_SIZE { CLUSTER_SIZE as u32 } else { 1 }
                }
                FaultKind::RedisKilled => kills.redis += 1,
                _ => {}
            }
        }
        kills
    }

    /// Returns the number for the product's own programs.
    pub fn total_programs(self) -> u32 {
        self.programs + self.failpoints
    }
}

/// One kind of fault: how often it occurred, and the times to recovery where they could be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KindStats {
    pub times: u32,
    pub seen: usize,
    pub longest: Option<f64>,
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}

impl Observations<'_> {
    pub(super) fn figures(&self) -> Figures {
        let Self { settings, record, state, .. } = self;
        let mut kinds: BTreeMap<String, KindStats> = BTreeMap::new();
        let mut recoveries = Vec::new();
        for fault in self.injected {
            let kind = kinds.entry(fault.kind.name()).or_default();
            kind.times += 1;
            if let Some(took) = recovery_time(fault, self.injected, self.batches) {
                kind.seen += 1;
                kind.longest = Some(kind.longest.map_or(seconds(took), |longest| longest.max(seconds(took))));
                recoveries.push(took);
            }
        }
        let mut broken: Vec<&'static str> =
            self.violations.iter().filter(|(_, findings)| !findings.is_empty()).map(|(promise, _)| *promise).collect();
        broken.extend(self.drained.is_err().then_some("drained"));
        let [accepted, throttled, unanswered] = self.responses;
        Figures {
            seed: settings.seed,
            began: self.began.clone(),
            minutes: settings.span.as_secs_f64() / 60.0,
            load: settings.load,
            cluster: settings.cluster,
            clock: settings.clock,
            disk: settings.disk,
            release: !cfg!(debug_assertions),
            sound: broken.is_empty(),
            broken,
            kills: Kills::of(self.injected, self.failpoint_deaths, settings.cluster),
            faults: self.injected.len(),
            kinds,
            accepted,
            throttled,
            unanswered,
            events_tried: record.tried.len(),
            events_accepted: record.accepted.len(),
            events_stored: state.events.len(),
            sends: record.sends.len(),
            messages: state.messages.len(),
            sent: state.messages.iter().filter(|message| message.status == "sent").count(),
            runs: state.runs.len(),
            campaigns: record.campaigns.len(),
            ambiguous: state.messages.iter().map(|message| u64::from(message.ambiguous)).sum(),
            second_copies: state.copies.values().map(|copies| u64::from(copies.saturating_sub(1))).sum(),
            failed_calls: self.affected,
            drained_after: self.drained.as_ref().ok().copied().map(seconds),
            recoveries: recoveries.len(),
            late_recoveries: recoveries.iter().filter(|took| **took > RECOVERY_GOAL).count(),
            longest_recovery: recoveries.into_iter().max().map(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::Process;

    #[test]
    fn kills_are_counted_by_target() {
        let process = Process { program: "gateway", number: 0 };
        let kinds = [
            FaultKind::Killed(process),
            FaultKind::Stopped(process),
            FaultKind::Suspended(process),
            FaultKind::DiesAtFailpoint(process, "gateway.before_publish".to_owned(), 1),
            FaultKind::PostgresStopped,
            FaultKind::BackendsKilled,
            FaultKind::NatsKilled(0),
            FaultKind::NatsKilled(CLUSTER_SIZE),
            FaultKind::RedisKilled,
            FaultKind::RedisHung,
        ];
        let injected = kinds.map(|kind| InjectedFault { kind, from: Duration::ZERO, healed: Duration::ZERO });
        let single = Kills { programs: 2, failpoints: 1, postgres: 1, nats: 2, redis: 1 };
        assert_eq!(Kills::of(&injected, 1, false), single);
        assert_eq!(Kills::of(&injected, 1, true), Kills { nats: 4, ..single });
        assert_eq!(single.total_programs(), 3);
    }
}
