//! Gateways that share an exact bucket in the place of Redis, which comes and goes and answers late or not at all: what they let
//! in, by their books.

use governor::clock::FakeRelativeClock;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

/// A millionth of a token: at so many tokens a second, as many of them come in a microsecond.
const MICRO: u64 = 1_000_000;

/// In whole millionths and microseconds, so that nothing is rounded.
struct Bucket {
    micros: u64,
    at_us: u64,
}

impl Bucket {
    fn lease(&mut self, terms: Terms, wanted: u32, now_us: u64) -> Lease {
        self.fill(terms, now_us);
        let taken = (self.micros / MICRO).min(wanted.into()) as u32;
        self.micros -= u64::from(taken) * MICRO;
        let missing = MICRO.saturating_sub(self.micros);
        let wait_ms = if taken == 0 { missing.div_ceil(terms.rate as u64).div_ceil(1_000) } else { 0 };
        Lease { taken, left: (self.micros / MICRO) as u32, wait: Duration::from_millis(wait_ms) }
    }

    fn fill(&mut self, terms: Terms, now_us: u64) {
        let come = (now_us - self.at_us) * terms.rate as u64;
        (self.micros, self.at_us) = ((self.micros + come).min(terms.most as u64 * MICRO), now_us);
    }
}

/// What Redis said: nothing where that was lost.
#[derive(Clone, Copy, Debug)]
struct Answer(Option<Lease>);

struct Gateway {
    project: Project,
    local: Local<FakeRelativeClock>,
    /// What Redis said to the one who gets the next tokens, and who has not heard it yet.
    underway: Option<Answer>,
    /// Since Redis had too few for whoever found none.
    quiet_until_us: u64,
    /// Let in by tokens of Redis.
    spent: u64,
}

struct World {
    start: Instant,
    now_us: u64,
    clock: FakeRelativeClock,
    is_up: bool,
    bucket: Bucket,
    leased: u64,
    /// Leased by an answer that never came.
    lost: u64,
    gateways: Vec<Gateway>,
}

/// By what a request was let in or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Redis,
    Own,
}

impl World {
    fn new(limit: u32, gateways: u32) -> Self {
        let clock = FakeRelativeClock::default();
        let gateway = |_| Gateway {
            project: Project::new(ProjectId(Uuid::nil()), limit, gateways),
            local: Local::by(clock.clone(), limit, gateways),
            underway: None,
            quiet_until_us: 0,
            spent: 0,
        };
        let gateways: Vec<_> = (0..gateways).map(gateway).collect();
        let bucket = Bucket { micros: gateways[0].project.terms().most as u64 * MICRO, at_us: 0 };
        Self { start: Instant::now(), now_us: 0, clock, is_up: true, bucket, leased: 0, lost: 0, gateways }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.now_us)
    }

    fn pass(&mut self, time_us: u64) {
        self.now_us += time_us;
        self.clock.advance(Duration::from_micros(time_us));
    }

    /// As `Project::take`, but that what Redis says is known at once, or (`is_lost`) never.
    fn take(&mut self, which: usize, is_lost: bool) -> (Allowance, By) {
        let now = self.now();
        let gateway = &mut self.gateways[which];
        if !self.is_up {
            return (gateway.local.take(), By::Own);
        }
        let project = &gateway.project;
        let mut lease = || {
            let lease = self.bucket.lease(project.terms(), project.lease_size(), self.now_us);
            self.leased += u64::from(lease.taken);
            if is_lost {
                self.lost += u64::from(lease.taken);
            }
            Some(lease).filter(|_| !is_lost)
        };
        let mut underway = None;
        let spent = project.spend(|| now, || underway = Some(Answer(lease())));
        let is_quiet = self.now_us < gateway.quiet_until_us;
        if underway.is_some() {
            assert!(gateway.underway.is_none(), "two get the next tokens at a time");
            assert!(!is_quiet, "the next tokens are asked for too soon");
            gateway.underway = underway;
        }
        let allowance = match spent {
            Some(allowance) => allowance,
            None => {
                assert!(!is_quiet, "Redis is asked again too soon");
                let Some(lease) = lease() else { return (gateway.local.take(), By::Own) };
                if lease.taken < project.lease_size() {
                    gateway.quiet_until_us = self.now_us + 10_000;
                }
                project.answered(lease, || now)
            }
        };
        gateway.spent += u64::from(allowance.granted.is_ok());
        (allowance, By::Redis)
    }

    fn hear(&mut self, which: usize) {
        let gateway = &mut self.gateways[which];
        if let Some(Answer(lease)) = gateway.underway.take() {
            gateway.project.refilled(lease);
        }
    }

    /// Leased, heard of or not, and not spent.
    fn held(&self) -> u64 {
        let held = |gateway: &Gateway| {
            let underway = gateway.underway.and_then(|answer| answer.0).map_or(0, |lease| lease.taken);
            gateway.project.tokens.load(Ordering::Relaxed) as u64 + u64::from(underway)
        };
        self.gateways.iter().map(held).sum()
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many requests at once.
    Take {
        requests: u32,
        is_lost: bool,
    },
    /// Nobody else comes, and whoever was refused comes again when told.
    Await,
    Hear,
    Redis {
        is_up: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (1..80_u32, prop::bool::weighted(0.1)).prop_map(|(requests, is_lost)| Act::Take { requests, is_lost }),
        2 => Just(Act::Await),
        4 => Just(Act::Hear),
        1 => prop::bool::weighted(0.7).prop_map(|is_up| Act::Redis { is_up }),
    ]
}

/// Whether no stretch of a book of times and numbers sees more than `rate` a second and `most` at once.
fn keeps(book: &[(u64, u64)], rate: f64, most: f64) -> bool {
    (0..book.len()).all(|first| {
        let mut sum = 0;
        book[first..].iter().all(|(at_us, let_in)| {
            sum += let_in;
            sum as f64 <= most + (at_us - book[first].0) as f64 / 1e6 * rate + 1e-3
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn all_gateways_let_in_no_more_than_the_limit_and_nobody_is_refused_for_ever(
        limit in prop_oneof![1..50_u32, 50..500_u32],
        gateways in 1..4_u32,
        acts in prop::collection::vec((prop_oneof![Just(0), 0..50_000_u64, 0..3_000_000_u64], 0..4_usize, act()), 1..60),
    ) {
        let mut world = World::new(limit, gateways);
        let mut by_redis: Vec<(u64, u64)> = Vec::new();
        let mut by_own: Vec<Vec<(u64, u64)>> = vec![Vec::new(); gateways as usize];
        for (pause_us, which, act) in acts {
            let which = which % gateways as usize;
            world.pass(pause_us);
            let mut note = |world: &mut World, is_lost| {
                let (allowance, by) = world.take(which, is_lost);
                let book = if by == By::Redis { &mut by_redis } else { &mut by_own[which] };
                let let_in = u64::from(allowance.granted.is_ok());
                match book.last_mut() {
                    Some((at_us, before)) if *at_us == world.now_us => *before += let_in,
                    _ => book.push((world.now_us, let_in)),
                }
                (allowance, by)
            };
            match act {
                Act::Take { requests, is_lost } => for _ in 0..requests {
                    let (allowance, by) = note(&mut world, is_lost);
                    prop_assert!(allowance.limit == limit && allowance.remaining <= limit);
                    // What Redis has said holds to the millisecond, and it is asked again within a few: what is refused meanwhile is
                    // not there, or has just come.
                    if allowance.granted.is_err() && by == By::Redis {
                        let terms = world.gateways[which].project.terms();
                        world.bucket.fill(terms, world.now_us);
                        let gathered = u64::from(limit) * 1_000 * GATHER.as_millis() as u64;
                        prop_assert!(world.bucket.micros < MICRO + gathered, "{:?} of {}", allowance, world.bucket.micros);
                    }
                },
                Act::Await => {
                    world.hear(which);
                    if let (Allowance { granted: Err(seconds), .. }, _) = note(&mut world, false) {
                        world.pass(u64::from(seconds) * MICRO);
                        let (allowance, by) = note(&mut world, false);
                        prop_assert!(allowance.granted.is_ok(), "{:?} by {:?}, as it was told {} s", allowance, by, seconds);
                    }
                }
                Act::Hear => world.hear(which),
                Act::Redis { is_up } => world.is_up = is_up,
            }
            let spent: u64 = world.gateways.iter().map(|gateway| gateway.spent).sum();
            prop_assert_eq!(world.leased, spent + world.held() + world.lost, "each token is spent once");
            // A lease or two each.
            let lease = u64::from(world.gateways[0].project.lease_size());
            prop_assert!(world.held() <= 2 * lease * u64::from(gateways), "{} are held", world.held());
        }
        let lease = f64::from(world.gateways[0].project.lease_size());
        let (limit, gateways) = (f64::from(limit), f64::from(gateways));
        prop_assert!(keeps(&by_redis, limit, 2.0 * limit + 2.0 * lease * gateways), "over all gateways");
        let share = (limit / gateways).floor().max(1.0);
        for book in by_own {
            // A period in whole nanoseconds is a little short.
            prop_assert!(keeps(&book, share * 1.000_001, 2.0 * share + 1.0), "by a gateway's own share");
        }
    }
}
