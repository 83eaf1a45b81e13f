//! A bucket under random takers, judged by its book: what was taken of it in whichever stretch of time.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Take {
        urgent: bool,
        wanted: u32,
    },
    /// Takes one when the bucket has said to come again.
    Await {
        urgent: bool,
    },
    Rest {
        ms: u64,
    },
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (any::<bool>(), prop_oneof![0..4_u32, Just(1_000)]).prop_map(|(urgent, wanted)| Act::Take { urgent, wanted }),
        4 => any::<bool>().prop_map(|urgent| Act::Await { urgent }),
        1 => (0..3_000_u64).prop_map(|ms| Act::Rest { ms }),
        1 => Just(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn no_stretch_of_time_sees_more_than_its_rate_and_who_waits_as_told_is_served(
        rate in prop_oneof![1..20_u32, 20..2_000_u32],
        acts in prop::collection::vec((0..2_000_u64, act()), 1..60),
    ) {
        let (rate, start) = (f64::from(rate), Instant::now());
        let (mut level, mut now) = (Level::default(), start);
        let mut rests_until = start;
        // When, and how many.
        let mut book: Vec<(Duration, f64)> = Vec::new();
        for (pause_ms, act) in acts {
            now += Duration::from_millis(pause_ms);
            let of = |urgent: bool| if urgent { super::urgent(terms(rate)) } else { terms(rate) };
            let mut taken = 0;
            match act {
                Act::Take { urgent, wanted } => {
                    let lease = level.lease(of(urgent), wanted, now);
                    prop_assert!(lease.taken <= wanted);
                    prop_assert!(lease.taken > 0 || wanted == 0 || lease.wait > Duration::ZERO);
                    taken += lease.taken;
                    if now >= rests_until && wanted == 1_000 {
                        let rest = level.lease(super::urgent(terms(rate)), u32::MAX, now).taken;
                        prop_assert!(rest.abs_diff(lease.left) <= 1, "{} were said to be left, and {} were", lease.left, rest);
                        taken += rest;
                    }
                }
                Act::Await { urgent } => {
                    let mut lease = level.lease(of(urgent), 1, now);
                    if lease.taken == 0 {
                        now += lease.wait + Duration::from_micros(1);
                        lease = level.lease(of(urgent), 1, now);
                    }
                    prop_assert_eq!(lease.taken, 1, "at the time that it named");
                    taken += 1;
                }
                Act::Rest { ms } => {
                    level.rest(Duration::from_millis(ms), now);
                    rests_until = rests_until.max(now + Duration::from_millis(ms));
                }
                Act::Forget => level.forget(),
            }
            if taken > 0 {
                prop_assert!(now >= rests_until, "{} were taken while it rests", taken);
                book.push((now - start, f64::from(taken)));
            }
        }
        let holds = terms(rate).most;
        for (first, (from, _)) in book.iter().enumerate() {
            let mut sum = 0.0;
            for (at, taken) in &book[first..] {
                sum += taken;
                let stretch = at.saturating_sub(*from).as_secs_f64();
                prop_assert!(sum <= holds + stretch * rate + 0.01, "{} in {} s at {} a second", sum, stretch, rate);
            }
        }
    }
}
