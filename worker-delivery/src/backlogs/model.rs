//! Random projects whose messages join their backlogs, are handed over again, and go out: against one list for each.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Join { project: u128, first: u128, count: u128 },
    Next { project: u128, most: usize },
    End { project: u128 },
}

fn act() -> impl Strategy<Value = Act> {
    let project = 0..30_u128;
    prop_oneof![
        4 => (project.clone(), 0..30_000_u128, 1..9_000_u128)
            .prop_map(|(project, first, count)| Act::Join { project, first, count }),
        3 => (project.clone(), 1..3_000_usize).prop_map(|(project, most)| Act::Next { project, most }),
        1 => project.prop_map(|project| Act::End { project }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn each_row_waits_once_in_the_order_of_its_coming_or_hears_when_to_come_again(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let backlogs = Backlogs::default();
        let mut model: BTreeMap<u128, (Opened, Vec<Row>)> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Join { project, first, count } => {
                    let key = (ProjectId(Uuid::from_u128(project)), Channel::Push);
                    let rows: Vec<Row> = (first..first + count).map(|id| (Uuid::from_u128(id), 1)).collect();
                    let (was_open, had_room) = (model.contains_key(&project), backlogs.has_room(key));
                    let Joined { opened, left } = backlogs.join(key, rows.clone());
                    prop_assert_eq!(opened.is_some(), had_room && !was_open);
                    prop_assert!(left.iter().all(|(_, due)| *due <= LATEST));
                    if let Some(opened) = opened {
                        model.insert(project, (opened, Vec::new()));
                    }
                    let mut wanted = rows;
                    if let Some((_, waiting)) = model.get_mut(&project) {
                        let known: HashSet<Row> = waiting.iter().copied().collect();
                        wanted.retain(|row| !known.contains(row));
                        let fit = wanted.len() - left.len();
                        waiting.extend(wanted.drain(..fit));
                        prop_assert!(waiting.len() <= OF_ONE);
                    }
                    prop_assert_eq!(wanted, left.into_iter().map(|(row, _)| row).collect::<Vec<Row>>());
                }
                Act::Next { project, most } => {
                    let Some((opened, mut waiting)) = model.remove(&project) else { continue };
                    let taken: Vec<Row> = waiting.drain(..most.min(waiting.len())).collect();
                    let portion = opened.next(most).map(|portion| portion.rows.clone());
                    prop_assert_eq!(portion, (!taken.is_empty()).then_some(taken.clone()));
                    if !taken.is_empty() {
                        model.insert(project, (opened, waiting));
                    }
                }
                Act::End { project } => drop(model.remove(&project)),
            }
            let waiting: usize = model.values().map(|(_, waiting)| waiting.len()).sum();
            prop_assert_eq!(backlogs.state().rows, waiting);
            prop_assert!(waiting <= OF_ALL);
        }
    }
}
