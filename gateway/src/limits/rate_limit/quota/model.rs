//! Gateways that share an exact bucket in place of Redis, which comes and goes and answers late or not at all: what they let
//! in, by their books.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// A millionth of a token: at N tokens per second, N of them come in a microsecond.
const MICRO: u64 = 1_000_000;
/// Of what comes, one part in this many goes to the priority tokens first.
const PARTS: u64 = 5;

/// In whole millionths and microseconds, so that nothing is rounded.
struct Bucket {
    micros: u64,
    priority: u64,
    at_us: u64,
}

impl Bucket {
    fn full(leased: &Leased) -> Self {
        let (most, capacity) = (leased.terms().most as u64, leased.priority().capacity as u64);
        Self { micros: most * MICRO, priority: capacity * MICRO, at_us: 0 }
    }

    fn lease(&mut self, leased: &Leased, wanted: u32, now_us: u64) -> Lease {
        self.fill(leased, now_us);
        let is_granted = leased.priority().is_granted;
        let own = (self.micros / MICRO).min(wanted.into());
        self.micros -= own * MICRO;
        let extra = if is_granted { (self.priority / MICRO).min(u64::from(wanted) - own) } else { 0 };
        self.priority -= extra * MICRO;
        let wait = if own + extra == 0 { self.wait(leased) } else { Duration::ZERO };
        let left = self.micros / MICRO + if is_granted { self.priority / MICRO } else { 0 };
        Lease { taken: (own + extra) as u32, left: left as u32, wait }
    }

    fn fill(&mut self, leased: &Leased, now_us: u64) {
        let (terms, capacity) = (leased.terms(), leased.priority().capacity as u64 * MICRO);
        let come = (now_us - self.at_us) * terms.rate as u64;
        let to_priority = (capacity - self.priority).min(come / PARTS);
        self.priority += to_priority;
        self.micros = (self.micros + come - to_priority).min(terms.most as u64 * MICRO);
        self.at_us = now_us;
    }

    /// In whole milliseconds, rounded up.
    fn wait(&self, leased: &Leased) -> Duration {
        let missing = leased.priority().capacity as u64 * MICRO - self.priority;
        let short = MICRO - self.micros;
        let mut needed = (short * PARTS).div_ceil(PARTS - 1).min(short + missing);
        if leased.priority().is_granted {
            needed = needed.min(MICRO.saturating_sub(self.priority) * PARTS);
        }
        Duration::from_millis(needed.div_ceil(leased.terms().rate as u64).div_ceil(1_000))
    }
}

/// What Redis answered: nothing where the answer was lost.
#[derive(Clone, Copy, Debug)]
struct Answer(Option<Lease>);

struct Gateway {
    lanes: [Leased; 2],
    local: Local,
    /// Answers to the background refills that have not arrived yet.
    underway: [Option<Answer>; 2],
    /// Since Redis had too few for a request that found no token.
    quiet_until_us: [u64; 2],
    /// Let in by tokens of Redis.
    spent: u64,
}

const LANES: [Lane; 2] = [Lane::Public, Lane::Priority];

struct World {
    start: Instant,
    now_us: u64,
    limit: u32,
    is_up: bool,
    bucket: Bucket,
    leased: u64,
    /// Leased by an answer that never came.
    lost: u64,
    gateways: Vec<Gateway>,
}

/// Which count let a request in or denied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Redis,
    Own,
}

impl World {
    fn new(limit: u32, gateways: u32) -> Self {
        let gateway = |_| Gateway {
            lanes: LANES.map(|lane| Leased::new(Scope::Project, limit, lane)),
            local: Local::share(limit, gateways, true),
            underway: [None, None],
            quiet_until_us: [0, 0],
            spent: 0,
        };
        let gateways: Vec<_> = (0..gateways).map(gateway).collect();
        let bucket = Bucket::full(&gateways[0].lanes[0]);
        Self { start: Instant::now(), now_us: 0, limit, is_up: true, bucket, leased: 0, lost: 0, gateways }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.now_us)
    }

    fn by_own_share(limit: u32, local: &Local, lane: usize, now: Instant) -> (Allowance, By) {
        let allowance = match local.take(LANES[lane], now) {
            Ok(left) => Allowance::granted(Scope::Project, limit, left),
            Err(wait) => Allowance::denied(Scope::Project, limit, wait),
        };
        (allowance, By::Own)
    }

    /// As `Quota::take`, but that what Redis says is known at once, or (`is_lost`) never.
    fn take(&mut self, which: usize, lane: usize, is_lost: bool) -> (Allowance, By) {
        let now = self.now();
        let gateway = &mut self.gateways[which];
        if !self.is_up {
            return Self::by_own_share(self.limit, &gateway.local, lane, now);
        }
        let leased = &gateway.lanes[lane];
        let mut lease = || {
            let lease = self.bucket.lease(leased, leased.size(), self.now_us);
            self.leased += u64::from(lease.taken);
            if is_lost {
                self.lost += u64::from(lease.taken);
            }
            Some(lease).filter(|_| !is_lost)
        };
        let mut underway = None;
        let spent = leased.spend(|| now, || underway = Some(Answer(lease())));
        let is_quiet = self.now_us < gateway.quiet_until_us[lane];
        if underway.is_some() {
            assert!(gateway.underway[lane].is_none(), "two get the next tokens at a time");
            assert!(!is_quiet, "the next tokens are asked for too soon");
            gateway.underway[lane] = underway;
        }
        let allowance = match spent {
            Some(allowance) => allowance,
            None => {
                assert!(!is_quiet, "Redis is asked again too soon");
                let Some(lease) = lease() else {
                    return Self::by_own_share(self.limit, &gateway.local, lane, now);
                };
                if lease.taken < leased.size() {
                    gateway.quiet_until_us[lane] = self.now_us + 10_000;
                }
                leased.answered(lease, || now)
            }
        };
        gateway.spent += u64::from(allowance.granted.is_ok());
        (allowance, By::Redis)
    }

    fn hear(&mut self, which: usize, lane: usize) {
        let gateway = &mut self.gateways[which];
        if let Some(Answer(lease)) = gateway.underway[lane].take() {
            gateway.lanes[lane].refilled(lease);
        }
    }

    /// Leased, whether or not the answer arrived, and not spent.
    fn held(&self) -> u64 {
        let held = |gateway: &Gateway| {
            let underway = gateway.underway.iter().flatten().filter_map(|answer| answer.0);
            let tokens = gateway.lanes.iter().map(|leased| leased.tokens.load(Ordering::Relaxed) as u64);
            tokens.sum::<u64>() + underway.map(|lease| u64::from(lease.taken)).sum::<u64>()
        };
        self.gateways.iter().map(held).sum()
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// This many requests at once.
    Take {
        requests: u32,
        is_lost: bool,
    },
    /// No other request comes, and a denied request is repeated after its `Retry-After`.
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

/// Whether no stretch of a book of times and numbers sees more than `rate` per second and `most` at once.
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
    fn all_gateways_let_in_no_more_than_the_limit_and_no_caller_is_denied_for_ever(
        limit in prop_oneof![1..50_u32, 50..500_u32],
        gateways in 1..4_u32,
        acts in prop::collection::vec(
            (prop_oneof![Just(0), 0..50_000_u64, 0..3_000_000_u64], 0..4_usize, 0..2_usize, act()), 1..60),
    ) {
        let mut world = World::new(limit, gateways);
        let mut by_redis: Vec<(u64, u64)> = Vec::new();
        let mut by_own: Vec<Vec<(u64, u64)>> = vec![Vec::new(); gateways as usize];
        for (pause_us, which, lane, act) in acts {
            let which = which % gateways as usize;
            world.now_us += pause_us;
            let mut note = |world: &mut World, is_lost| {
                let (allowance, by) = world.take(which, lane, is_lost);
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
                    // What Redis answered holds to the millisecond, and it is asked again within a few: what is denied
                    // meanwhile is not there, or has just come.
                    if allowance.granted.is_err() && by == By::Redis {
                        let leased = &world.gateways[which].lanes[lane];
                        world.bucket.fill(leased, world.now_us);
                        let gathered = u64::from(limit) * 1_000 * GATHER.as_millis() as u64;
                        let bucket = &world.bucket;
                        prop_assert!(bucket.micros < MICRO + gathered, "{:?} of {}", allowance, bucket.micros);
                        let is_kept = leased.priority().is_granted && bucket.priority >= MICRO + gathered;
                        prop_assert!(!is_kept, "{:?} beside {}", allowance, bucket.priority);
                    }
                },
                Act::Await => {
                    world.hear(which, lane);
                    if let (Allowance { granted: Err(seconds), .. }, _) = note(&mut world, false) {
                        world.now_us += u64::from(seconds) * MICRO;
                        let (allowance, by) = note(&mut world, false);
                        prop_assert!(allowance.granted.is_ok(), "{:?} by {:?}, {} s after its denial", allowance, by, seconds);
                    }
                }
                Act::Hear => world.hear(which, lane),
                Act::Redis { is_up } => world.is_up = is_up,
            }
            let spent: u64 = world.gateways.iter().map(|gateway| gateway.spent).sum();
            prop_assert_eq!(world.leased, spent + world.held() + world.lost, "each token is spent once");
            // A lease or two of each lane.
            let lease = u64::from(world.gateways[0].lanes[0].size());
            prop_assert!(world.held() <= 4 * lease * u64::from(gateways), "{} are held", world.held());
        }
        let (lease, kept) = (f64::from(world.gateways[0].lanes[0].size()), f64::from(priority_capacity(limit)));
        let (limit, gateways) = (f64::from(limit), f64::from(gateways));
        prop_assert!(keeps(&by_redis, limit, 2.0 * limit + kept + 4.0 * lease * gateways), "over all gateways");
        let share = (limit / gateways).floor().max(1.0);
        let kept = (share / 10.0).floor().max(1.0);
        for book in by_own {
            prop_assert!(keeps(&book, share, 2.0 * share + kept + 1e-3), "by a gateway's own share");
        }
    }

    /// What public callers cannot take is there for the others at any time, within a second of their last burst.
    #[test]
    fn no_flood_of_public_requests_keeps_the_others_out(
        limit in prop_oneof![1..50_u32, 50..500_u32],
        floods in prop::collection::vec((0..200_000_u64, 1..200_u32), 1..60),
    ) {
        let (public, priority) = (Leased::new(Scope::Project, limit, LANES[0]), Leased::new(Scope::Project, limit, LANES[1]));
        let mut bucket = Bucket::full(&public);
        let local = Local::share(limit, 1, true);
        let (start, mut now_us) = (Instant::now(), 0);
        for (pause_us, requests) in floods {
            now_us += pause_us;
            bucket.lease(&public, requests, now_us);
            let now = start + Duration::from_micros(now_us);
            for _ in 0..requests {
                let _ = local.take(Lane::Public, now);
            }
            prop_assert_eq!(bucket.priority / MICRO, u64::from(priority_capacity(limit)));
            prop_assert!(local.peek(Lane::Priority, now).is_ok());
        }
        // Taken at a fifth of the limit, they are there again and again.
        for _ in 0..50 {
            now_us += PARTS * MICRO / u64::from(limit) + 1;
            let now = start + Duration::from_micros(now_us);
            bucket.lease(&public, 1_000, now_us);
            prop_assert_eq!(bucket.lease(&priority, 1, now_us).taken, 1);
            while local.take(Lane::Public, now).is_ok() {}
            prop_assert!(local.take(Lane::Priority, now).is_ok());
        }
    }
}
