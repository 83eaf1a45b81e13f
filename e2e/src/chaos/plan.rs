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
use super::provider::Mood;
use super::proxy::{Trouble, Way};

pub const PROGRAMS: [&str; 4] = ["gateway", "worker-automation", "worker-delivery", "scheduler"];
/// Processes of each program.
pub const EACH: usize = 2;
/// Servers of a cluster.
pub const NODES: usize = 3;
/// Maximum clock shift in minutes. A jump between both extremes is still below the size at which the scheduler holds, which is tested
/// elsewhere.
pub const FURTHEST_MINUTES: i16 = 4;

/// Milliseconds from one fault to the next.
const GAP: Range<u64> = 300..2_500;
/// Delay between two faults of one target.
const REST: Duration = Duration::from_secs(1);
/// One fault in `ALONE` has no other fault near it for a while, so that the time to recovery can be measured.
const ALONE: usize = 10;
const CALM: Duration = Duration::from_secs(5);
/// How often another target is drawn if the drawn one is busy.
const DRAWS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub program: &'static str,
    /// From 0.
    pub number: usize,
}

impl Process {
    pub fn all() -> impl Iterator<Item = Self> {
        PROGRAMS.into_iter().flat_map(|program| (0..EACH).map(move |number| Self { program, number }))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.number + 1)
    }
}

/// The far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Postgres,
    Nats,
    Redis,
    Mail,
    Sms,
    Smtp,
    /// The clients of a gateway.
    Clients,
}

impl End {
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
    pub to: End,
}

impl Link {
    /// The address of a project's mail server is one of its settings, so all processes use the first process's link.
    pub fn is_one(&self) -> bool {
        self.to != End::Smtp || self.process.number == 0
    }

    pub fn all() -> impl Iterator<Item = Self> {
        let linked =
            move |process: Process| End::ALL.into_iter().filter(move |to| to.callers().contains(&process.program));
        let all = Process::all().flat_map(move |process| linked(process).map(move |to| Self { process, to }));
        all.filter(Self::is_one)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.to == End::Smtp {
            return write!(f, "{} → {:?}", self.process.program, self.to);
        }
        write!(f, "{} → {:?}", self.process, self.to)
    }
}

/// A kind of fault, with its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// SIGKILL; restarted at the end of the fault, like those below.
    Killed(Process),
    /// SIGTERM.
    Stopped(Process),
    /// SIGSTOP until the end of the fault.
    Suspended(Process),
    /// Restarted so that it dies at the n-th hit of a failpoint.
    Dies(Process, String, u32),
    /// Immediate shutdown until the end of the fault.
    PostgresGone,
    /// The server closes all of the programs' connections to PostgreSQL.
    BackendsKilled,
    /// SIGKILL until the end of the fault. In a cluster, the server with this number, or all servers if the number is past the last.
    NatsGone(usize),
    /// SIGSTOP until the end of the fault.
    NatsHung,
    /// The ingest stream has reached its maximum size, and accepts nothing until the end of the fault.
    NatsFull,
    /// The disk with the data and the WAL is full until the end of the fault.
    PostgresDiskFull,
    /// The disk with the streams is full until the end of the fault.
    NatsDiskFull,
    RedisGone,
    RedisHung,
    RedisFlushed,
    Network(Link, Trouble),
    Provider(Mood),
    /// The database's clock is shifted by this number of minutes, ahead or back, until the end of the fault.
    ClockMoved(i16),
}

impl What {
    /// Returns the name by which faults are counted.
    pub fn kind(&self) -> String {
        match self {
            Self::Killed(process) => format!("{} killed", process.program),
            Self::Stopped(process) => format!("{} stopped", process.program),
            Self::Suspended(process) => format!("{} suspended", process.program),
            Self::Dies(process, ..) => format!("{} dies at a failpoint", process.program),
            Self::PostgresGone => "PostgreSQL stopped".to_owned(),
            Self::BackendsKilled => "PostgreSQL's connections killed".to_owned(),
            Self::NatsGone(_) => "NATS killed".to_owned(),
            Self::NatsHung => "NATS hung".to_owned(),
            Self::NatsFull => "NATS full".to_owned(),
            Self::PostgresDiskFull => "disk of PostgreSQL full".to_owned(),
            Self::NatsDiskFull => "disk of NATS full".to_owned(),
            Self::RedisGone => "Redis killed".to_owned(),
            Self::RedisHung => "Redis hung".to_owned(),
            Self::RedisFlushed => "Redis flushed".to_owned(),
            Self::Network(link, trouble) => {
                let trouble = match trouble {
                    Trouble::Latency(_) => "delayed",
                    Trouble::Stalls => "stalling",
                    Trouble::BlackHole => "black hole",
                    Trouble::Deaf(Way::There) => "blocked to the server",
                    Trouble::Deaf(Way::Back) => "blocked to the client",
                    Trouble::Reset => "reset",
                };
                format!("link to {:?} {trouble}", link.to)
            }
            Self::Provider(mood) => format!("providers {}", mood.words()),
            Self::ClockMoved(minutes) => format!("clock {}", if *minutes > 0 { "ahead" } else { "behind" }),
        }
    }

    /// Returns the target. Faults of the same target never overlap.
    fn target(&self) -> String {
        match self {
            Self::Killed(process) | Self::Stopped(process) | Self::Suspended(process) | Self::Dies(process, ..) => {
                process.to_string()
            }
            Self::PostgresGone | Self::BackendsKilled | Self::PostgresDiskFull => "PostgreSQL".to_owned(),
            Self::NatsGone(_) | Self::NatsHung | Self::NatsFull | Self::NatsDiskFull => "NATS".to_owned(),
            Self::RedisGone | Self::RedisHung | Self::RedisFlushed => "Redis".to_owned(),
            Self::Network(link, _) => link.to_string(),
            Self::Provider(_) => "providers".to_owned(),
            Self::ClockMoved(_) => "clock".to_owned(),
        }
    }

    /// Returns the range of its duration, in milliseconds.
    fn duration(&self) -> Range<u64> {
        match self {
            Self::Killed(_) | Self::Stopped(_) => 0..2_000,
            Self::Suspended(_) => 500..8_000,
            // By then it should have hit the failpoint.
            Self::Dies(..) => 3_000..6_000,
            Self::PostgresGone => 500..5_000,
            Self::NatsGone(_) | Self::NatsHung => 200..4_000,
            Self::RedisGone | Self::RedisHung | Self::NatsFull => 1_000..5_000,
            Self::PostgresDiskFull | Self::NatsDiskFull => 2_000..10_000,
            Self::BackendsKilled | Self::RedisFlushed => 0..1,
            Self::Network(..) => 1_000..8_000,
            Self::Provider(_) => 2_000..6_000,
            // Long enough for every process to notice the shift.
            Self::ClockMoved(_) => 3_000..20_000,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(process) => write!(f, "{process} killed"),
            Self::Stopped(process) => write!(f, "{process} stopped"),
            Self::Suspended(process) => write!(f, "{process} suspended"),
            Self::Dies(process, at, hit) => write!(f, "{process} dies at {at}={hit}"),
            Self::Network(link, trouble) => write!(f, "{link}: {trouble:?}"),
            Self::NatsGone(number) => write!(f, "NATS killed ({number})"),
            Self::ClockMoved(minutes) => write!(f, "clock shifted by {minutes} minutes"),
            other => f.write_str(&other.kind()),
        }
    }
}

/// A planned fault; its times count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    pub lasts: Duration,
    pub what: What,
}

/// The targets that a run has.
#[derive(Clone, Debug, Default)]
pub struct Ground {
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
pub fn plan(seed: u64, span: Duration, ground: &Ground) -> Vec<Fault> {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut plan, mut busy) = (Vec::new(), BTreeMap::<String, Duration>::new());
    let (mut at, mut deck) = (Duration::ZERO, Vec::new());
    loop {
        at += Duration::from_millis(random.random_range(GAP));
        let alone = plan.len() % ALONE == ALONE - 1;
        if alone {
            at = busy.values().copied().fold(at, Duration::max);
        }
        if at >= span {
            return plan;
        }
        if deck.is_empty() {
            deck = DECK.to_vec();
            // Added only with disks: without them, a seed's plan does not change.
            deck.extend(DISKS.iter().filter(|_| ground.disk));
            deck.shuffle(&mut random);
        }
        let Some(card) = deck.pop() else { continue };
        let drawn = (0..DRAWS).filter_map(|_| draw(card, &mut random, ground)).collect::<Vec<_>>();
        let free = |what: &What| busy.get(&what.target()).is_none_or(|until| *until <= at);
        let Some(what) = drawn.into_iter().find(free) else { continue };
        let lasts = Duration::from_millis(random.random_range(what.duration())).min(span.saturating_sub(at));
        busy.insert(what.target(), at + lasts + REST);
        plan.push(Fault { at, lasts, what });
        if alone {
            at += lasts + CALM;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SPAN: Duration = Duration::from_hours(1);

    fn ground(cluster: bool) -> Ground {
        let failpoints = ["gateway", "automation", "delivery", "scheduler"];
        let failpoints = failpoints.map(|program| (program.to_owned(), vec![format!("{program}.after_commit")])).into();
        Ground { failpoints, cluster, clock: false, disk: false }
    }

    #[test]
    fn the_plan_is_of_its_seed() {
        let one = plan(7, SPAN, &ground(false));
        assert_eq!(one, plan(7, SPAN, &ground(false)));
        assert_ne!(one, plan(8, SPAN, &ground(false)));
    }

    #[test]
    fn everything_goes_wrong_and_is_over_in_time() {
        let plan = plan(7, SPAN, &ground(false));
        let kinds: BTreeSet<String> = plan.iter().map(|fault| fault.what.kind()).collect();
        for kind in
            ["PostgreSQL stopped", "NATS killed", "NATS hung", "NATS full", "Redis killed", "Redis hung", "Redis flushed"]
        {
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
        assert!(plan.iter().all(|fault| fault.at + fault.lasts <= SPAN));
        assert!(plan.is_sorted_by_key(|fault| fault.at));
    }

    #[test]
    fn no_two_faults_of_one_target_are_under_way_at_a_time() {
        for seed in 0..20 {
            let mut until = BTreeMap::new();
            for Fault { at, lasts, what } in plan(seed, SPAN, &ground(false)) {
                let before = until.insert(what.target(), at + lasts + REST);
                assert!(before.is_none_or(|before| before <= at), "seed {seed}: {what} at {at:?}");
            }
        }
    }

    #[test]
    fn some_come_alone() {
        let plan = plan(7, SPAN, &ground(false));
        let mut alone = plan.iter().enumerate().filter(|(place, _)| place % ALONE == ALONE - 1).peekable();
        assert!(alone.peek().is_some());
        for (place, fault) in alone {
            assert!(plan[..place].iter().all(|before| before.at + before.lasts <= fault.at), "{fault:?}");
            let over = fault.at + fault.lasts + CALM;
            assert!(plan[place + 1..].iter().all(|behind| behind.at >= over), "{fault:?}");
        }
    }

    #[test]
    fn the_clock_jumps_where_it_may() {
        let moved = |clock| {
            let plan = plan(7, SPAN, &Ground { clock, ..ground(false) });
            plan.iter()
                .filter_map(|f| if let What::ClockMoved(by) = f.what { Some(by) } else { None })
                .collect::<Vec<_>>()
        };
        assert!(moved(false).is_empty());
        let moved = moved(true);
        assert!(moved.iter().any(|by| *by > 0) && moved.iter().any(|by| *by < 0), "{moved:?}");
        // Two in a row must not be a jump at which the scheduler holds.
        assert!(moved.iter().all(|by| (1..=FURTHEST_MINUTES).contains(&by.abs())), "{moved:?}");
    }

    #[test]
    fn disks_become_full_where_they_may() {
        let full = |disk| {
            let plan = plan(7, SPAN, &Ground { disk, ..ground(false) });
            let of = |what| plan.iter().filter(|fault| fault.what == what).count();
            [of(What::PostgresDiskFull), of(What::NatsDiskFull)]
        };
        assert_eq!(full(false), [0, 0]);
        assert!(full(true).into_iter().all(|times| times > 10), "{:?}", full(true));
    }

    #[test]
    fn of_a_cluster_there_are_no_links_and_no_pauses() {
        let plan = plan(7, SPAN, &ground(true));
        let strange = |what: &What| match what {
            What::NatsHung | What::NatsFull => true,
            What::Network(link, _) => link.to == End::Nats,
            _ => false,
        };
        assert!(plan.iter().all(|fault| !strange(&fault.what)));
        let killed: BTreeSet<usize> = plan
            .iter()
            .filter_map(|fault| if let What::NatsGone(number) = fault.what { Some(number) } else { None })
            .collect();
        assert_eq!(killed, (0..=NODES).collect());
    }
}
