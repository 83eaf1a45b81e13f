//! Gateways that share an exact bucket instead of Redis. It fails, recovers, and responds late or never. The model records the
//! admitted requests.

mod world;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use world::{Bucket, DecidedBy, LANES, MICRO, PARTS, World};

#[derive(Clone, Copy, Debug)]
enum Act {
    /// This many requests at once.
    Take {
        requests: u32,
        is_lost: bool,
    },
    /// No other request arrives, and a denied request is repeated after its `Retry-After`.
    Await,
    ReceiveRefill,
    Redis {
        is_up: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (1..80_u32, prop::bool::weighted(0.1)).prop_map(|(requests, is_lost)| Act::Take { requests, is_lost }),
        2 => Just(Act::Await),
        4 => Just(Act::ReceiveRefill),
        1 => prop::bool::weighted(0.7).prop_map(|is_up| Act::Redis { is_up }),
    ]
}

/// The number of requests admitted at a time.
#[derive(Clone, Copy)]
struct Admitted {
    at_us: u64,
    requests: u64,
}

/// Returns whether every interval of `book` has at most `most` requests plus `rate` per second.
fn is_within_limit(book: &[Admitted], rate: f64, most: f64) -> bool {
    (0..book.len()).all(|first| {
        let mut sum = 0;
        book[first..].iter().all(|Admitted { at_us, requests }| {
            sum += requests;
            sum as f64 <= most + (at_us - book[first].at_us) as f64 / 1e6 * rate + 1e-3
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn gateways_together_keep_the_limit_and_deny_no_caller_forever(
        limit in prop_oneof![1..50_u32, 50..500_u32],
        gateways in 1..4_u32,
        acts in prop::collection::vec(
            (prop_oneof![Just(0), 0..50_000_u64, 0..3_000_000_u64], 0..4_usize, 0..2_usize, act()), 1..60),
    ) {
        let mut world = World::new(limit, gateways);
        let mut by_redis: Vec<Admitted> = Vec::new();
        let mut by_own_share: Vec<Vec<Admitted>> = vec![Vec::new(); gateways as usize];
        for (pause_us, which, lane, act) in acts {
            let which = which % gateways as usize;
            world.now_us += pause_us;
            let mut take = |world: &mut World, is_lost| {
                let (allowance, by) = world.take(which, lane, is_lost);
                let book = if by == DecidedBy::Redis { &mut by_redis } else { &mut by_own_share[which] };
                let requests = u64::from(allowance.granted.is_ok());
                match book.last_mut() {
                    Some(last) if last.at_us == world.now_us => last.requests += requests,
                    _ => book.push(Admitted { at_us: world.now_us, requests }),
                }
                (allowance, by)
            };
            match act {
                Act::Take { requests, is_lost } => for _ in 0..requests {
                    let (allowance, by) = take(&mut world, is_lost);
                    prop_assert!(allowance.limit == limit && allowance.remaining <= limit);
                    // A response from Redis is exact to the millisecond, and the gateway asks again within a few milliseconds.
                    // A token that is denied meanwhile does not exist or has only just been added.
                    if allowance.granted.is_err() && by == DecidedBy::Redis {
                        let leased = &world.gateways[which].lanes[lane];
                        world.bucket.fill(leased, world.now_us);
                        let gathered = u64::from(limit) * 1_000 * MIN_LEASE_INTERVAL.as_millis() as u64;
                        let bucket = &world.bucket;
                        prop_assert!(bucket.micros < MICRO + gathered, "{:?} with {} available", allowance, bucket.micros);
                        let is_kept = leased.priority().is_granted && bucket.priority >= MICRO + gathered;
                        prop_assert!(!is_kept, "{:?} with {} reserved", allowance, bucket.priority);
                    }
                },
                Act::Await => {
                    world.receive_refill(which, lane);
                    if let (Allowance { granted: Err(seconds), .. }, _) = take(&mut world, false) {
                        world.now_us += u64::from(seconds) * MICRO;
                        let (allowance, by) = take(&mut world, false);
                        prop_assert!(allowance.granted.is_ok(), "{:?} by {:?}, {} s after its denial", allowance, by, seconds);
                    }
                }
                Act::ReceiveRefill => world.receive_refill(which, lane),
                Act::Redis { is_up } => world.is_up = is_up,
            }
            let spent: u64 = world.gateways.iter().map(|gateway| gateway.spent).sum();
            prop_assert_eq!(world.leased, spent + world.held() + world.lost, "each token is spent once");
            // One or two leases of each lane.
            let lease = u64::from(world.gateways[0].lanes[0].size());
            prop_assert!(world.held() <= 4 * lease * u64::from(gateways), "{} are held", world.held());
        }
        let (lease, kept) = (f64::from(world.gateways[0].lanes[0].size()), f64::from(priority_capacity(limit)));
        let (limit, gateways) = (f64::from(limit), f64::from(gateways));
        prop_assert!(is_within_limit(&by_redis, limit, 2.0 * limit + kept + 4.0 * lease * gateways), "over all gateways");
        let share = (limit / gateways).floor().max(1.0);
        let kept = (share / 10.0).floor().max(1.0);
        for book in by_own_share {
            prop_assert!(is_within_limit(&book, share, 2.0 * share + kept + 1e-3), "by a gateway's own share");
        }
    }

    /// Public requests never take the tokens reserved for the priority lane. Bursts are at most 0.2 s apart.
    #[test]
    fn flood_of_public_requests_does_not_block_priority_requests(
        limit in prop_oneof![1..50_u32, 50..500_u32],
        floods in prop::collection::vec((0..200_000_u64, 1..200_u32), 1..60),
    ) {
        let (public, priority) = (LeasedTokens::new(Scope::Project, limit, LANES[0]), LeasedTokens::new(Scope::Project, limit, LANES[1]));
        let mut bucket = Bucket::full(&public);
        let local = LocalBucket::share(limit, 1, true);
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
        // Requests at a fifth of the limit are admitted again and again.
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
