//! Random starts, stops, crashes, rounds and settlements of workers, with the leases in memory.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

use super::{fair_share, spare_capacity, surplus};

#[derive(Clone, Debug)]
enum Action {
    Start,
    /// A worker releases its partitions and stops, or crashes.
    Stop {
        which: Index,
        crashes: bool,
    },
    Round(Index),
    /// The partitions that it is releasing are settled.
    Settle(Index),
    /// The leases of crashed workers expire.
    ExpireLeases,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Start),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(which, crashes)| Action::Stop { which, crashes }),
        8 => any::<Index>().prop_map(Action::Round),
        4 => any::<Index>().prop_map(Action::Settle),
        1 => Just(Action::ExpireLeases),
    ]
}

#[derive(Default)]
struct Worker {
    held: BTreeSet<i16>,
    releasing: BTreeSet<i16>,
}

struct World {
    /// Partitions without a lease.
    free: BTreeSet<i16>,
    partitions: u16,
    /// Crashed workers: each counts until its leases expire.
    crashed: Vec<Worker>,
    workers: BTreeMap<u32, Worker>,
    started: u32,
}

impl World {
    fn new(partitions: u16) -> Self {
        let free = (0..partitions.cast_signed()).collect();
        Self { free, partitions, crashed: Vec::new(), workers: BTreeMap::new(), started: 0 }
    }

    fn start(&mut self) {
        self.started += 1;
        self.workers.insert(self.started, Worker::default());
    }

    /// Like `Leases::round`. Returns how many partitions it gave up and acquired.
    fn round(&mut self, which: u32) -> usize {
        let share = fair_share(self.partitions, (self.workers.len() + self.crashed.len()) as i64);
        let worker = self.workers.get_mut(&which).unwrap();
        let given_up = surplus(worker.held.iter().copied(), share);
        worker.held.retain(|partition| !given_up.contains(partition));
        worker.releasing.extend(&given_up);
        let taken: Vec<i16> =
            self.free.iter().copied().take(spare_capacity(share, worker.held.len(), worker.releasing.len())).collect();
        self.free.retain(|partition| !taken.contains(partition));
        worker.held.extend(&taken);
        assert!(taken.is_empty() || worker.held.len() + worker.releasing.len() <= share, "more than its share");
        given_up.len() + taken.len()
    }

    fn settle(&mut self, which: u32) {
        self.free.append(&mut self.workers.get_mut(&which).unwrap().releasing);
    }

    fn expire_leases(&mut self) {
        for worker in self.crashed.drain(..) {
            self.free.extend(worker.held.into_iter().chain(worker.releasing));
        }
    }

    fn all(&self) -> Vec<u32> {
        self.workers.keys().copied().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn two_rounds_assign_every_partition_after_any_history(
        partitions in prop_oneof![4 => 1..20_u16, 1 => 20..257_u16],
        actions in prop::collection::vec(action(), 0..120),
        order in any::<Index>(),
    ) {
        let mut world = World::new(partitions);
        for action in actions {
            let all = world.all();
            let one = |which: Index| all[which.index(all.len())];
            match action {
                Action::Start => world.start(),
                Action::ExpireLeases => world.expire_leases(),
                _ if all.is_empty() => {}
                Action::Stop { which, crashes } => {
                    let worker = world.workers.remove(&one(which)).unwrap();
                    if crashes {
                        world.crashed.push(worker);
                    } else {
                        world.free.extend(worker.held.into_iter().chain(worker.releasing));
                    }
                }
                Action::Round(which) => {
                    world.round(one(which));
                }
                Action::Settle(which) => world.settle(one(which)),
            }
            let leased = world.workers.values().chain(&world.crashed).map(|w| w.held.len() + w.releasing.len());
            prop_assert_eq!(world.free.len() + leased.sum::<usize>(), usize::from(partitions), "each partition has one owner");
        }
        world.expire_leases();
        if world.workers.is_empty() {
            world.start();
        }
        let mut all = world.all();
        all.rotate_left(order.index(world.workers.len()));
        // In the first round, workers give up their surplus; in the second, workers that went before them acquire it.
        for _ in 0..2 {
            for which in &all {
                world.round(*which);
                world.settle(*which);
            }
        }
        prop_assert!(world.free.is_empty(), "{:?} have no reader", world.free);
        let most = world.workers.values().map(|worker| worker.held.len()).max().unwrap();
        prop_assert!(most * all.len() < usize::from(partitions) + all.len(), "{} with {} workers", most, all.len());
        let moved: usize = all.iter().map(|which| world.round(*which)).sum();
        prop_assert_eq!(moved, 0, "the assignment is stable");
    }
}
