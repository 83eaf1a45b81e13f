//! Projects that take places and leave them at random, against a list of who is in.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Take(u128),
    Leave(Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![3 => (0..4_u128).prop_map(Act::Take), 2 => any::<Index>().prop_map(Act::Leave)]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn there_is_a_place_just_when_neither_the_gateway_nor_the_project_is_full(
        most in 1..8_usize,
        of_project in 1..5_usize,
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let places = Places::new(most, of_project);
        let mut held: Vec<(ProjectId, Place)> = Vec::new();
        for act in acts {
            match act {
                Act::Take(project) => {
                    let project = ProjectId(Uuid::from_u128(project));
                    let own = held.iter().filter(|(of, _)| *of == project).count();
                    match places.take(project) {
                        Ok(place) => {
                            prop_assert!(own < of_project && held.len() < most);
                            held.push((project, place));
                        }
                        Err(Full::Project) => prop_assert!(own >= of_project, "it has {}", own),
                        Err(Full::Gateway) => prop_assert!(own < of_project && held.len() >= most),
                    }
                }
                Act::Leave(which) if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                Act::Leave(_) => {}
            }
            prop_assert_eq!(places.taken(), held.len());
        }
        held.clear();
        prop_assert!(locked(&places.taken).is_empty(), "projects that are gone are forgotten");
    }
}
