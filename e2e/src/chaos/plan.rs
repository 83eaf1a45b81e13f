//! Plans the faults of a run, with their times and durations, from the seed alone. Pure.

mod deck;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use self::deck::{DECK, DISKS, draw};
use super::provider::FaultMode;
use super::proxy::{Direction, LinkFault};

pub const PROGRAMS: [&str; 4] = ["gateway", "worker-automation", "worker-delivery", "scheduler"];
/// Processes of each program.
pub const PROCESSES_PER_PROGRAM: usize = 2;
/// Servers of a cluster.
pub const CLUSTER_SIZE: usize = 3;
/// Maximum clock shift in minutes. A jump between both extremes is still below the size at which the scheduler holds, which is tested
/// elsewhere.
pub const MAX_CLOCK_SHIFT_MINUTES: i16 = 4;

/// Milliseconds from one fault to the next.
const FAULT_GAP_MS: Range<u64> = 300..2_500;
/// Delay between two faults of one target.
const TARGET_COOLDOWN: Duration = Duration::from_secs(1);
/// One fault in `ISOLATED_EVERY` has no other fault near it for a while, so that the time to recovery can be measured.
const ISOLATED_EVERY: usize = 10;
const ISOLATION_PAUSE: Duration = Duration::from_secs(5);
/// How often another target is drawn if the drawn one is busy.
const MAX_DRAWS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub program: &'static str,
    /// From 0.
    pub number: usize,
}

impl Process {
    pub fn all() -> impl Iterator<Item = Self> {
        PROGRAMS.into_iter().flat_map(|program| (0..PROCESSES_PER_PROGRAM).map(move |number| Self { program, number }))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.number + 1)
    }
}

/// The far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Postgres,
    Nats,
    Redis,
    Mail,
    Sms,
    Smtp,
    /// The clients of a gateway.
    Clients,
}

impl Endpoint {
    pub const ALL: [Self; 7] =
        [Self::Postgres, Self::Nats, Self::Redis, Self::Mail, Self::Sms, Self::Smtp, Self::Clients];

    /// Returns the programs that connect to it.
    pub fn callers(self) -> &'static [&'static str] {
        match self {
            Self::Postgres | Self::Nats => &PROGRAMS,
            Self::Redis => &["gateway", "worker-delivery"],
            Self::Mail | Self::Sms | Self::Smtp => &["worker-delivery"],
            Self::Clients => &["gateway"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub process: Process,
    pub to: Endpoint,
}

impl Link {
    /// The address of a project's mail server is one of its settings, so all processes use the first process's link.
    pub fn is_used(&self) -> bool {
        self.to != Endpoint::Smtp || self.process.number == 0
    }

    pub fn all() -> impl Iterator<Item = Self> {
        let links_of =
            move |process: Process| Endpoint::ALL.into_iter().filter(move |to| to.callers().contains(&process.program));
        let all = Process::all().flat_map(move |process| links_of(process).map(move |to| Self { process, to }));
        all.filter(Self::is_used)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.to == Endpoint::Smtp {
            return write!(f, "{} → {:?}", self.process.program, self.to);
        }
        write!(f, "{} → {:?}", self.process, self.to)
    }
}

/// A kind of fault, with its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGKILL; restarted at the end of the fault, like those below.
    Killed(Process),
    /// SIGTERM.
    Stopped(Process),
    /// SIGSTOP until the end of the fault.
    Suspended(Process),
    /// Restarted so that it dies at the n-th hit of a failpoint.
    DiesAtFailpoint(Process, String, u32),
    /// Immediate shutdown until the end of the fault.
    PostgresStopped,
    /// The server closes all of the programs' connections to PostgreSQL.
    BackendsKilled,
    /// SIGKILL until the end of the fault. In a cluster, the server with this number, or all servers if the number is past the last.
    NatsKilled(usize),
    /// SIGSTOP until the end of the fault.
    NatsHung,
    /// The ingest stream has reached its maximum size, and accepts nothing until the end of the fault.
    NatsFull,
    /// The disk with the data and the WAL is full until the end of the fault.
    PostgresDiskFull,
    /// The disk with the streams is full until the end of the fault.
    NatsDiskFull,
    RedisKilled,
    RedisHung,
    RedisFlushed,
    Network(Link, LinkFault),
    Provider(FaultMode),
    /// The database's clock is shifted by this number of minutes, ahead or back, until the end of the fault.
    ClockShifted(i16),
}

impl FaultKind {
    /// Returns the name by which faults are counted.
    pub fn name(&self) -> String {
        match self {
            Self::Killed(process) => format!("{} killed", process.program),
            Self::Stopped(process) => format!("{} stopped", process.program),
            Self::Suspended(process) => format!("{} suspended", process.program),
            Self::DiesAtFailpoint(process, ..) => format!("{} dies at a failpoint", process.program),
            Self::PostgresStopped => "PostgreSQL stopped".to_owned(),
            Self::BackendsKilled => "PostgreSQL's connections killed".to_owned(),
            Self::NatsKilled(_) => "NATS killed".to_owned(),
            Self::NatsHung => "NATS hung".to_owned(),
            Self::NatsFull => "NATS full".to_owned(),
            Self::PostgresDiskFull => "disk of PostgreSQL full".to_owned(),
            Self::NatsDiskFull => "disk of NATS full".to_owned(),
            Self::RedisKilled => "Redis killed".to_owned(),
            Self::RedisHung => "Redis hung".to_owned(),
            Self::RedisFlushed => "Redis flushed".to_owned(),
            Self::Network(link, link_fault) => {
                let link_fault = match link_fault {
                    LinkFault::Latency(_) => "delayed",
                    LinkFault::Stalls => "stalling",
                    LinkFault::BlackHole => "black hole",
                    LinkFault::Blocked(Direction::ToServer) => "blocked to the server",
                    LinkFault::Blocked(Direction::ToClient) => "blocked to the client",
                    LinkFault::Reset => "reset",
                };
                format!("link to {:?} {link_fault}", link.to)
            }
            Self::Provider(mode) => format!("providers {}", mode.description()),
            Self::ClockShifted(minutes) => format!("clock {}", if *minutes > 0 { "ahead" } else { "behind" }),
        }
    }

    /// Returns the target. Faults of the same target never overlap.
    fn target(&self) -> String {
        match self {
            Self::Killed(process)
            | Self::Stopped(process)
            | Self::Suspended(process)
            | Self::DiesAtFailpoint(process, ..) => process.to_string(),
            Self::PostgresStopped | Self::BackendsKilled | Self::PostgresDiskFull => "PostgreSQL".to_owned(),
            Self::NatsKilled(_) | Self::NatsHung | Self::NatsFull | Self::NatsDiskFull => "NATS".to_owned(),
            Self::RedisKilled | Self::RedisHung | Self::RedisFlushed => "Redis".to_owned(),
            Self::Network(link, _) => link.to_string(),
            Self::Provider(_) => "providers".to_owned(),
            Self::ClockShifted(_) => "clock".to_owned(),
        }
    }

    /// Returns the range of its duration, in milliseconds.
    fn duration_range(&self) -> Range<u64> {
        match self {
            Self::Killed(_) | Self::Stopped(_) => 0..2_000,
            Self::Suspended(_) => 500..8_000,
            // By then it should have hit the failpoint.
            Self::DiesAtFailpoint(..) => 3_000..6_000,
            Self::PostgresStopped => 500..5_000,
            Self::NatsKilled(_) | Self::NatsHung => 200..4_000,
            Self::RedisKilled | Self::RedisHung | Self::NatsFull => 1_000..5_000,
            Self::PostgresDiskFull | Self::NatsDiskFull => 2_000..10_000,
            Self::BackendsKilled | Self::RedisFlushed => 0..1,
            Self::Network(..) => 1_000..8_000,
            Self::Provider(_) => 2_000..6_000,
            // Long enough for every process to notice the shift.
            Self::ClockShifted(_) => 3_000..20_000,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(process) => write!(f, "{process} killed"),
            Self::Stopped(process) => write!(f, "{process} stopped"),
            Self::Suspended(process) => write!(f, "{process} suspended"),
            Self::DiesAtFailpoint(process, at, hit) => write!(f, "{process} dies at {at}={hit}"),
            Self::Network(link, link_fault) => write!(f, "{link}: {link_fault:?}"),
            Self::NatsKilled(number) => write!(f, "NATS killed ({number})"),
            Self::ClockShifted(minutes) => write!(f, "clock shifted by {minutes} minutes"),
            other => f.write_str(&other.name()),
        }
    }
}

/// A planned fault; its times count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    pub duration: Duration,
    pub kind: FaultKind,
}

/// The targets that a run has.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Failpoints by program, as named in the sources (`automation` for `worker-automation`).
    pub failpoints: BTreeMap<String, Vec<String>>,
    /// NATS is a cluster, to which there are no links.
    pub cluster: bool,
    /// The database's clock also jumps.
    pub clock: bool,
    /// The data of PostgreSQL and NATS is on disks that can be filled.
    pub disk: bool,
}

/// Plans all cards of the deck in a random order, then again, until the time is up. All faults end by then.
pub fn plan(seed: u64, span: Duration, targets: &Targets) -> Vec<Fault> {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut plan, mut busy) = (Vec::new(), BTreeMap::<String, Duration>::new());
    let (mut at, mut deck) = (Duration::ZERO, Vec::new());
    loop {
        at += Duration::from_millis(random.random_range(FAULT_GAP_MS));
        let isolated = plan.len() % ISOLATED_EVERY == ISOLATED_EVERY - 1;
        if isolated {
            at = busy.values().copied().fold(at, Duration::max);
        }
        if at >= span {
            return plan;
        }
        if deck.is_empty() {
            deck = DECK.to_vec();
            // Added only with disks: without them, a seed's plan does not change.
            deck.extend(DISKS.iter().filter(|_| targets.disk));
            deck.shuffle(&mut random);
        }
        let Some(card) = deck.pop() else { continue };
        let drawn = (0..MAX_DRAWS).filter_map(|_| draw(card, &mut random, targets)).collect::<Vec<_>>();
        let free = |kind: &FaultKind| busy.get(&kind.target()).is_none_or(|until| *until <= at);
        let Some(kind) = drawn.into_iter().find(free) else { continue };
        let duration = Duration::from_millis(random.random_range(kind.duration_range())).min(span.saturating_sub(at));
        busy.insert(kind.target(), at + duration + TARGET_COOLDOWN);
        plan.push(Fault { at, duration, kind });
        if isolated {
            at += duration + ISOLATION_PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SPAN: Duration = Duration::from_hours(1);

    fn targets(cluster: bool) -> Targets {
        let failpoints = ["gateway", "automation", "delivery", "scheduler"];
        let failpoints = failpoints.map(|program| (program.to_owned(), vec![format!("{program}.after_commit")])).into();
        Targets { failpoints, cluster, clock: false, disk: false }
    }

    #[test]
    fn plan_depends_on_seed_only() {
        let one = plan(7, SPAN, &targets(false));
        assert_eq!(one, plan(7, SPAN, &targets(false)));
        assert_ne!(one, plan(8, SPAN, &targets(false)));
    }

    #[test]
    fn plan_has_all_kinds_and_ends_in_time() {
        let plan = plan(7, SPAN, &targets(false));
        let kinds: BTreeSet<String> = plan.iter().map(|fault| fault.kind.name()).collect();
        for kind in [
            "PostgreSQL stopped",
            "NATS killed",
            "NATS hung",
            "NATS full",
            "Redis killed",
            "Redis hung",
            "Redis flushed",
        ] {
            assert!(kinds.contains(kind), "{kind}: {kinds:?}");
        }
        for program in PROGRAMS {
            for how in ["killed", "stopped", "suspended", "dies at a failpoint"] {
                assert!(kinds.contains(&format!("{program} {how}")), "{program} {how}");
            }
        }
        for end in ["Postgres", "Nats", "Redis", "Mail", "Sms", "Smtp", "Clients"] {
            assert!(kinds.iter().any(|kind| kind.starts_with(&format!("link to {end} "))), "{end}: {kinds:?}");
        }
        assert!(plan.iter().all(|fault| fault.at + fault.duration <= SPAN));
        assert!(plan.is_sorted_by_key(|fault| fault.at));
    }

    #[test]
    fn faults_of_one_target_do_not_overlap() {
        for seed in 0..20 {
            let mut until = BTreeMap::new();
            for Fault { at, duration, kind } in plan(seed, SPAN, &targets(false)) {
                let before = until.insert(kind.target(), at + duration + TARGET_COOLDOWN);
                assert!(before.is_none_or(|before| before <= at), "seed {seed}: {kind} at {at:?}");
            }
        }
    }

    #[test]
    fn some_faults_are_isolated() {
        let plan = plan(7, SPAN, &targets(false));
        let mut isolated =
            plan.iter().enumerate().filter(|(place, _)| place % ISOLATED_EVERY == ISOLATED_EVERY - 1).peekable();
        assert!(isolated.peek().is_some());
        for (place, fault) in isolated {
            assert!(plan[..place].iter().all(|before| before.at + before.duration <= fault.at), "{fault:?}");
            let over = fault.at + fault.duration + ISOLATION_PAUSE;
            assert!(plan[place + 1..].iter().all(|later| later.at >= over), "{fault:?}");
        }
    }

    #[test]
    fn clock_jumps_only_if_enabled() {
        let moved = |clock| {
            let plan = plan(7, SPAN, &Targets { clock, ..targets(false) });
            plan.iter()
                .filter_map(|f| if let FaultKind::ClockShifted(by) = f.kind { Some(by) } else { None })
                .collect::<Vec<_>>()
        };
        assert!(moved(false).is_empty());
        let moved = moved(true);
        assert!(moved.iter().any(|by| *by > 0) && moved.iter().any(|by| *by < 0), "{moved:?}");
        // Two in a row must not be a jump at which the scheduler holds.
        assert!(moved.iter().all(|by| (1..=MAX_CLOCK_SHIFT_MINUTES).contains(&by.abs())), "{moved:?}");
    }

    #[test]
    fn disks_fill_up_only_if_enabled() {
        let full = |disk| {
            let plan = plan(7, SPAN, &Targets { disk, ..targets(false) });
            let of = |kind| plan.iter().filter(|fault| fault.kind == kind).count();
            [of(FaultKind::PostgresDiskFull), of(FaultKind::NatsDiskFull)]
        };
        assert_eq!(full(false), [0, 0]);
        assert!(full(true).into_iter().all(|times| times > 10), "{:?}", full(true));
    }

    #[test]
    fn cluster_has_no_link_faults_and_no_hangs() {
        let plan = plan(7, SPAN, &targets(true));
        let is_unavailable = |kind: &FaultKind| match kind {
            FaultKind::NatsHung | FaultKind::NatsFull => true,
            FaultKind::Network(link, _) => link.to == Endpoint::Nats,
            _ => false,
        };
        assert!(plan.iter().all(|fault| !is_unavailable(&fault.kind)));
        let killed: BTreeSet<usize> = plan
            .iter()
            .filter_map(|fault| if let FaultKind::NatsKilled(number) = fault.kind { Some(number) } else { None })
            .collect();
        assert_eq!(killed, (0..=CLUSTER_SIZE).collect());
    }
}
