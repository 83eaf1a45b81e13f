//! What goes wrong in a run, when and for how long: all of it by the seed. Pure.

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
/// How far the clock is moved. From one such time to the other it is less than what the scheduler holds, which is another matter.
pub const FURTHEST_MINUTES: i16 = 4;

/// Milliseconds from one fault to the next.
const GAP: Range<u64> = 300..2_500;
/// Between two faults of one target.
const REST: Duration = Duration::from_secs(1);
/// One fault in so many comes alone, with nothing else under way for a while before and behind it, so that it can be seen how
/// soon all is well again.
const ALONE: usize = 10;
const CALM: Duration = Duration::from_secs(5);
/// How often somebody else is looked for when the one who was drawn is busy.
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

/// Who is at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Postgres,
    Nats,
    Redis,
    Mail,
    Sms,
    Smtp,
    /// Of a gateway, who talk to it.
    Clients,
}

impl End {
    pub const ALL: [Self; 7] =
        [Self::Postgres, Self::Nats, Self::Redis, Self::Mail, Self::Sms, Self::Smtp, Self::Clients];

    /// Who talks to it.
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
    /// The way to a project's mail server is one of its settings, and so the first process's link is all processes'.
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

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// SIGKILL, and another start when it ends. So do the next ones.
    Killed(Process),
    /// SIGTERM.
    Stopped(Process),
    /// SIGSTOP until it ends.
    Suspended(Process),
    /// It is started anew, to die at the n-th hit of a failpoint.
    Dies(Process, String, u32),
    /// Immediate shutdown until it ends.
    PostgresGone,
    /// All of the programs' connections to PostgreSQL are closed by the server.
    BackendsKilled,
    /// SIGKILL until it ends. Of a cluster the server of this number, or all with a number behind the last.
    NatsGone(usize),
    /// SIGSTOP until it ends.
    NatsHung,
    /// The ingest stream has reached its size, and takes nothing more until it ends.
    NatsFull,
    /// No room is left where its data lies, its log among it, until this ends.
    PostgresDiskFull,
    /// No room is left where its streams lie until this ends.
    NatsDiskFull,
    RedisGone,
    RedisHung,
    RedisFlushed,
    Network(Link, Trouble),
    Provider(Mood),
    /// The database's clock shows so many minutes more, or less, until it ends.
    ClockMoved(i16),
}

impl What {
    /// By which faults are counted.
    pub fn kind(&self) -> String {
        match self {
            Self::Killed(process) => format!("{} killed", process.program),
            Self::Stopped(process) => format!("{} stopped", process.program),
            Self::Suspended(process) => format!("{} suspended", process.program),
            Self::Dies(process, ..) => format!("{} dies at a failpoint", process.program),
            Self::PostgresGone => "PostgreSQL gone".to_owned(),
            Self::BackendsKilled => "PostgreSQL's connections killed".to_owned(),
            Self::NatsGone(_) => "NATS killed".to_owned(),
            Self::NatsHung => "NATS hung".to_owned(),
            Self::NatsFull => "NATS full".to_owned(),
            Self::PostgresDiskFull => "disk of PostgreSQL full".to_owned(),
            Self::NatsDiskFull => "disk of NATS full".to_owned(),
            Self::RedisGone => "Redis gone".to_owned(),
            Self::RedisHung => "Redis hung".to_owned(),
            Self::RedisFlushed => "Redis flushed".to_owned(),
            Self::Network(link, trouble) => {
                let trouble = match trouble {
                    Trouble::Latency(_) => "late",
                    Trouble::Stalls => "stalling",
                    Trouble::BlackHole => "a black hole",
                    Trouble::Deaf(Way::There) => "deaf there",
                    Trouble::Deaf(Way::Back) => "deaf back",
                    Trouble::Reset => "reset",
                };
                format!("link to {:?} {trouble}", link.to)
            }
            Self::Provider(mood) => format!("providers {}", mood.words()),
            Self::ClockMoved(minutes) => format!("clock {}", if *minutes > 0 { "ahead" } else { "behind" }),
        }
    }

    /// No two faults of one target are under way at a time.
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

    /// How long it may last, in milliseconds.
    fn duration(&self) -> Range<u64> {
        match self {
            Self::Killed(_) | Self::Stopped(_) => 0..2_000,
            Self::Suspended(_) => 500..8_000,
            // By then it should have come by.
            Self::Dies(..) => 3_000..6_000,
            Self::PostgresGone => 500..5_000,
            Self::NatsGone(_) | Self::NatsHung => 200..4_000,
            Self::RedisGone | Self::RedisHung | Self::NatsFull => 1_000..5_000,
            Self::PostgresDiskFull | Self::NatsDiskFull => 2_000..10_000,
            Self::BackendsKilled | Self::RedisFlushed => 0..1,
            Self::Network(..) => 1_000..8_000,
            Self::Provider(_) => 2_000..6_000,
            // Long enough for every process to take it over.
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
            Self::ClockMoved(minutes) => write!(f, "clock moved by {minutes} minutes"),
            other => f.write_str(&other.kind()),
        }
    }
}

/// One thing that goes wrong; its times count from the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    pub lasts: Duration,
    pub what: What,
}

/// What there is to strike at.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// Failpoints by program, as they are called in the sources (`automation` for `worker-automation`).
    pub failpoints: BTreeMap<String, Vec<String>>,
    /// NATS is several servers, to which there are no links of ours.
    pub cluster: bool,
    /// The database's clock jumps, too.
    pub clock: bool,
    /// The data of PostgreSQL and NATS lies on disks that can be filled.
    pub disk: bool,
}

/// Of each kind of fault one after the other in a random order, then of each again, until the time is up; all have ended
/// by then.
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
            // Without these, a seed's plan stays what it was.
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
            ["PostgreSQL gone", "NATS killed", "NATS hung", "NATS full", "Redis gone", "Redis hung", "Redis flushed"]
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
        // Two of them in a row must not be a jump that the scheduler holds.
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
