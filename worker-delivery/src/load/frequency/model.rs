//! Messages to a few users who share a few addresses, checked against a plain count.

use kernel::clock::from_ms;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rules::time::Span;

use super::*;

const DAY_MS: i64 = 86_400_000;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn recipients_get_messages_exactly_up_to_the_cap(
        earlier in prop::collection::vec((0..3_u128, prop::option::of(10..12_u128), 0..2 * DAY_MS), 0..8),
        messages in prop::collection::vec((0..3_u128, prop::option::of(10..12_u128), 0..8_i64), 1..60),
    ) {
        let now = from_ms(10 * DAY_MS);
        let recipients = |user: u128, address: Option<u128>| [Some(Uuid::from_u128(user)), address.map(Uuid::from_u128)];
        let mut frequency = Frequency::default();
        let mut sends: Vec<(u128, Option<u128>)> = Vec::new();
        for (user, address, age) in earlier {
            frequency.count(from_ms(10 * DAY_MS - age), recipients(user, address));
            if age <= DAY_MS {
                sends.push((user, address));
            }
        }
        for (user, address, max) in messages {
            let cap = FrequencyCap { max, within: Span::parse("1d").unwrap() };
            let before = sends.iter().filter(|(u, a)| *u == user || a.is_some() && *a == address).count() as i64;
            let is_admitted = frequency.is_below_cap(cap, recipients(user, address), now);
            prop_assert_eq!(is_admitted, before < max, "{} of {}", before, max);
            if is_admitted {
                frequency.count(now, recipients(user, address));
                sends.push((user, address));
            }
        }
    }
}
