//! Work: whether partitions have owners, no work waits for too long, and time partitions exist ahead.

pub mod observe;

use super::finding::Finding;

/// Work that waits longer than this counts as abandoned.
pub const OUTBOX_SECONDS: i64 = 30;
pub const TIMERS_SECONDS: i64 = 60;
pub const CHUNKS_SECONDS: i64 = 180;
/// Maximum count. More does not change the finding.
pub const MAX_COUNT: i64 = 10_000;
/// Days of time partitions ahead. The scheduler keeps fourteen.
const MIN_DAYS_AHEAD: i64 = 2;
const EXPECTED_DAYS_AHEAD: i64 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkState {
    /// Partitions of the ingest stream; 0 before the first worker.
    pub partitions: i64,
    pub orphaned: Vec<i16>,
    pub outbox: i64,
    pub timers: i64,
    /// Chunks of messages to send.
    pub chunks: i64,
    pub days_ahead: Vec<(&'static str, i64)>,
}

pub fn judge(seen: &WorkState) -> Vec<Finding> {
    vec![
        partitions(seen),
        overdue(
            "work.outbox",
            seen.outbox,
            OUTBOX_SECONDS,
            "rows of the outbox",
            "check that worker-automation runs, and that its NATS user may publish to ingest.* and send.*.direct",
        ),
        overdue("work.timers", seen.timers, TIMERS_SECONDS, "timers", "check that the scheduler runs, and its log"),
        overdue(
            "work.messages",
            seen.chunks,
            CHUNKS_SECONDS,
            "chunks of messages",
            "check that worker-delivery runs for every channel (DELIVERY_CHANNELS). If it does, it cannot keep up: \
             add workers, or raise the provider's limits",
        ),
        ahead(&seen.days_ahead),
    ]
}

fn partitions(seen: &WorkState) -> Finding {
    const CHECK: &str = "work.partitions";
    let start = "start worker-automation, or check its log: leases last PARTITION_LEASE_MS, 8 s by default";
    if seen.partitions == 0 {
        return Finding::wrong(CHECK, "no worker-automation has ever run: accepted events are not recorded", start);
    }
    if seen.orphaned.is_empty() {
        return Finding::well(CHECK, format!("all {} have a worker", seen.partitions));
    }
    let which = seen.orphaned.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let what = format!("{} of {} have no worker: {which}", seen.orphaned.len(), seen.partitions);
    Finding::wrong(CHECK, what, start)
}

fn overdue(check: &'static str, count: i64, seconds: i64, of: &str, remedy: &str) -> Finding {
    match count {
        0 => Finding::well(check, format!("no {of} are overdue by more than {seconds} s")),
        _ => {
            let more = if count >= MAX_COUNT { " or more" } else { "" };
            Finding::wrong(check, format!("{count}{more} {of} are overdue by more than {seconds} s"), remedy)
        }
    }
}

fn ahead(days: &[(&'static str, i64)]) -> Finding {
    const CHECK: &str = "work.time_partitions";
    let remedy =
        "the scheduler creates them every hour, and `rekindle migrate` at once; check the scheduler's log for errors";
    match days.iter().min_by_key(|(_, days)| *days) {
        Some((table, days)) if *days < MIN_DAYS_AHEAD => {
            let what =
                format!("{table} has partitions for {} days: after that, no rows can be inserted", (*days).max(0));
            Finding::wrong(CHECK, what, remedy)
        }
        Some((table, days)) if *days < EXPECTED_DAYS_AHEAD => {
            Finding::notable(CHECK, format!("{table} has partitions for only {days} days"), remedy)
        }
        Some((_, days)) => Finding::well(CHECK, format!("exist for {days} days ahead")),
        None => Finding::unseen(CHECK, "no partitioned table exists"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn well() -> WorkState {
        let days_ahead = vec![("events", 13), ("message", 13)];
        WorkState { partitions: 8, orphaned: Vec::new(), outbox: 0, timers: 0, chunks: 0, days_ahead }
    }

    fn wrong(seen: &WorkState) -> Vec<&'static str> {
        let findings = judge(seen);
        findings.iter().filter(|f| f.verdict == Verdict::Wrong).map(|f| f.check).collect()
    }

    #[test]
    fn each_kind_of_work_is_judged_separately() {
        assert_eq!(wrong(&well()), [""; 0]);
        assert_eq!(wrong(&WorkState { orphaned: vec![3], ..well() }), ["work.partitions"]);
        assert_eq!(wrong(&WorkState { partitions: 0, ..well() }), ["work.partitions"]);
        assert_eq!(wrong(&WorkState { outbox: 1, ..well() }), ["work.outbox"]);
        assert_eq!(wrong(&WorkState { timers: 2, ..well() }), ["work.timers"]);
        assert_eq!(wrong(&WorkState { chunks: MAX_COUNT, ..well() }), ["work.messages"]);
        assert_eq!(
            wrong(&WorkState { days_ahead: vec![("events", 13), ("message", 1)], ..well() }),
            ["work.time_partitions"]
        );
    }

    #[test]
    fn too_few_days_ahead_are_reported() {
        assert_eq!(ahead(&[("events", 5)]).verdict, Verdict::Notable);
        assert!(ahead(&[("events", -3)]).what.contains("for 0 days"));
    }
}
