//! Rows that come to an account in random groups: how many wait in memory, and when the others come again.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn what_has_no_room_comes_back_in_order_and_no_faster_than_it_can_go_out(
        per_second in 1..50_u32,
        workers in 1..5_u32,
        lane in prop::sample::select(Lane::ALL.to_vec()),
        groups in prop::collection::vec((0..400_usize, any::<bool>(), 0..20_000_u64, 0..100_usize), 1..30),
    ) {
        let pace = Pace { lane, per_second, workers };
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let mut here = 0;
        let mut last_due = now;
        for (rows, scarce, pause_ms, gone) in groups {
            // Meanwhile some go out.
            here -= gone.min(here);
            queue.here = here;
            now += Duration::from_millis(pause_ms);
            let place = if scarce { Place::Scarce } else { Place::Here };
            let (fit, later) = queue.enter(rows, place, pace, now);
            here += fit;
            prop_assert_eq!(fit + later.len(), rows);
            let half_minute = usize::try_from(per_second.div_ceil(workers) * 30).unwrap().max(50);
            let most = if scarce { 8 } else { half_minute };
            prop_assert!(fit == 0 || here <= most, "{} wait here", here);
            prop_assert!(later.is_empty() || here >= most, "{} more would have had room", most - here);
            // Those that wait here go first, and of the others each in its turn.
            let longest = if lane == Lane::Campaign { 600 } else { 3_600 };
            let first = now + Duration::from_secs_f64(here as f64 / f64::from(per_second));
            for wait in later {
                prop_assert!(wait <= Duration::from_secs(longest));
                if wait < Duration::from_secs(longest) / 2 {
                    let due = now + wait;
                    let apart = Duration::from_secs_f64(1.0 / f64::from(per_second) - 1e-6);
                    prop_assert!(due >= last_due + apart, "in {:?}, and one already in {:?}", wait, last_due - now);
                    prop_assert!(due + Duration::from_millis(1) >= first);
                }
                last_due = now + wait;
            }
        }
    }
}
