//! A slice of messages to some people by some channels, judged by its book.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use shared::rule::time::Span;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn nobody_gets_more_than_a_cap_allows_and_no_room_is_left_unused(
        had in prop::collection::hash_map((prop::sample::select(Channel::ALL.to_vec()), 0..3_u128), 0..6_i64, 0..8),
        messages in prop::collection::vec((prop::sample::select(Channel::ALL.to_vec()), 0..3_u128, 0..8_i64), 1..60),
    ) {
        let had: HashMap<(Channel, Uuid), i64> =
            had.into_iter().map(|((channel, person), count)| ((channel, Uuid::from_u128(person)), count)).collect();
        let mut frequency = Frequency { had: had.clone(), ..Frequency::default() };
        // Whom they went to, whatever the channel.
        let mut went: Vec<Uuid> = Vec::new();
        for (channel, person, max) in messages {
            let person = Uuid::from_u128(person);
            let cap = FrequencyCap { max, within: Span::parse("1d").unwrap() };
            let goes = frequency.has_room(cap, channel, person);
            if goes {
                went.push(person);
            }
            let before = had.get(&(channel, person)).copied().unwrap_or(0);
            let count = before + went.iter().filter(|to| **to == person).count() as i64;
            prop_assert!(!goes || count <= max, "{} of {}", count, max);
            prop_assert!(goes || count >= max, "{} of {}, and it does not go", count, max);
        }
    }
}
