//! A bucket with random callers: the tokens taken in any period stay within its rate and capacity.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Take {
        urgent: bool,
        max: u32,
    },
    /// Takes a token after the wait that the bucket returned.
    Await {
        urgent: bool,
    },
    Pause {
        ms: u64,
    },
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (any::<bool>(), prop_oneof![0..4_u32, Just(1_000)]).prop_map(|(urgent, max)| Act::Take { urgent, max }),
        4 => any::<bool>().prop_map(|urgent| Act::Await { urgent }),
        1 => (0..3_000_u64).prop_map(|ms| Act::Pause { ms }),
        1 => Just(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn rate_holds_in_every_period_and_a_token_is_available_after_the_returned_wait(
        rate in prop_oneof![1..20_u32, 20..2_000_u32],
        acts in prop::collection::vec((0..2_000_u64, act()), 1..60),
    ) {
        let (rate, start) = (f64::from(rate), Instant::now());
        let (mut bucket, mut now) = (LocalBucket::default(), start);
        let mut paused_until = start;
        // The times and numbers of tokens taken.
        let mut leases: Vec<(Duration, f64)> = Vec::new();
        for (pause_ms, act) in acts {
            now += Duration::from_millis(pause_ms);
            let of = |urgent: bool| if urgent { super::urgent(terms(rate)) } else { terms(rate) };
            let mut taken = 0;
            match act {
                Act::Take { urgent, max } => {
                    let lease = bucket.lease(of(urgent), max, now);
                    prop_assert!(lease.taken <= max);
                    prop_assert!(lease.taken > 0 || max == 0 || lease.wait > Duration::ZERO);
                    taken += lease.taken;
                    if now >= paused_until && max == 1_000 {
                        let left = bucket.lease(super::urgent(terms(rate)), u32::MAX, now).taken;
                        prop_assert!(left.abs_diff(lease.left) <= 1, "{} tokens left, reported as {}", left, lease.left);
                        taken += left;
                    }
                }
                Act::Await { urgent } => {
                    let mut lease = bucket.lease(of(urgent), 1, now);
                    if lease.taken == 0 {
                        now += lease.wait + Duration::from_micros(1);
                        lease = bucket.lease(of(urgent), 1, now);
                    }
                    prop_assert_eq!(lease.taken, 1, "no token after the returned wait");
                    taken += 1;
                }
                Act::Pause { ms } => {
                    bucket.pause(Duration::from_millis(ms), now);
                    paused_until = paused_until.max(now + Duration::from_millis(ms));
                }
                Act::Forget => bucket.forget(),
            }
            if taken > 0 {
                prop_assert!(now >= paused_until, "{} tokens taken during a pause", taken);
                leases.push((now - start, f64::from(taken)));
            }
        }
        let capacity = terms(rate).capacity;
        for (first, (from, _)) in leases.iter().enumerate() {
            let mut sum = 0.0;
            for (at, taken) in &leases[first..] {
                sum += taken;
                let period = at.saturating_sub(*from).as_secs_f64();
                prop_assert!(sum <= capacity + period * rate + 0.01, "{} in {} s at {} a second", sum, period, rate);
            }
        }
    }
}
