//! Compares a worker's user cache with a database that other workers, erasures and failovers change.

use std::collections::{BTreeSet, HashMap};

use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const PEOPLE: u128 = 4;
const LANES: usize = 2;

#[derive(Clone, Debug)]
enum Act {
    /// A transaction whose items name these users.
    Begin {
        names: BTreeSet<u128>,
    },
    /// An event of a user, `ago_ms` milliseconds ago. The user is looked up if necessary.
    Event {
        person: u128,
        ago_ms: i64,
    },
    Merge {
        person: u128,
        into: u128,
    },
    Commit,
    /// The worker continues after its commit.
    Learn,
    /// Changes by other workers.
    MergedElsewhere {
        person: u128,
        into: u128,
    },
    SeenElsewhere {
        person: u128,
    },
    EraseAnnounced {
        person: u128,
    },
    EraseFinished {
        person: u128,
    },
    /// The last commit is lost.
    FailedOver {
        person: u128,
    },
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    let person = || 0..PEOPLE;
    prop_oneof![
        6 => prop::collection::btree_set(person(), 1..=PEOPLE as usize).prop_map(|names| Act::Begin { names }),
        12 => (person(), prop_oneof![0..2_000_i64, 0..200_000_i64]).prop_map(|(person, ago_ms)| Act::Event { person, ago_ms }),
        1 => (person(), person()).prop_map(|(person, into)| Act::Merge { person, into }),
        6 => Just(Act::Commit),
        6 => Just(Act::Learn),
        1 => (person(), person()).prop_map(|(person, into)| Act::MergedElsewhere { person, into }),
        1 => person().prop_map(|person| Act::SeenElsewhere { person }),
        2 => person().prop_map(|person| Act::EraseAnnounced { person }),
        4 => person().prop_map(|person| Act::EraseFinished { person }),
        1 => person().prop_map(|person| Act::FailedOver { person }),
        1 => Just(Act::Forget),
    ]
}

struct Row {
    seen: i64,
    merged: Option<u128>,
}

/// The transaction of a lane, and whether it is committed.
struct Tx {
    begun: Begun,
    names: BTreeSet<u128>,
    now: i64,
    learnt: Learnt,
    is_committed: bool,
}

/// Erasures as stored in the database.
#[derive(Default)]
struct Erasures {
    rows: HashMap<u128, (i64, bool)>,
    /// Lanes whose transactions started before the announcement.
    awaited: HashMap<u128, BTreeSet<usize>>,
}

impl Erasures {
    fn changed_since(&self, seq: Option<i64>) -> Vec<Removal> {
        let rows = self.rows.iter().filter(|(_, (at, is_pending))| seq.map_or(*is_pending, |seq| *at > seq));
        rows.map(|(person, (seq, is_pending))| Removal { user: key(*person), seq: *seq, is_pending: *is_pending })
            .collect()
    }
}

/// Like `Known::follow`, with these erasures.
fn follow(known: &Known, edition: Edition, erasures: &Erasures) -> Begun {
    let last = known.state.read().unwrap().edition;
    match last.filter(|last| last.server_started == edition.server_started) {
        Some(last) if last.seq >= edition.seq => {}
        Some(last) => known.remove(edition, &erasures.changed_since(Some(last.seq))),
        None => known.reset(edition, &erasures.changed_since(None)),
    }
    known.begun(edition)
}

fn key(person: u128) -> PersonKey {
    (ProjectId(Uuid::from_u128(1)), Uuid::from_u128(person))
}

fn merge(rows: &mut HashMap<u128, Row>, person: u128, into: u128) -> bool {
    let is_possible = person != into && rows.get(&person).is_some_and(|row| row.merged.is_none());
    if is_possible {
        rows.get_mut(&person).unwrap().merged = Some(into);
    }
    is_possible
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn what_is_remembered_in_a_transaction_is_there_and_not_older_than_was_promised(
        acts in prop::collection::vec((prop_oneof![3 => 0..500_i64, 1 => 0..90_000_i64], 0..LANES, act()), 1..120),
    ) {
        let known = Known::new(10_000);
        let mut now = 1_790_000_000_000_i64;
        let mut edition = Edition { seq: 1, server_started: from_ms(now) };
        let mut rows: HashMap<u128, Row> = HashMap::new();
        let mut erasures = Erasures::default();
        // When each user was last looked up.
        let mut checked: HashMap<u128, i64> = HashMap::new();
        let mut lanes: [Option<Tx>; LANES] = [None, None];
        for (pause_ms, lane, act) in acts {
            now += pause_ms;
            let is_locked = lanes.iter().flatten().any(|tx| !tx.is_committed);
            match act {
                Act::Begin { names } if lanes[lane].is_none() => {
                    let begun = follow(&known, edition, &erasures);
                    lanes[lane] = Some(Tx { begun, names, now, learnt: Learnt::default(), is_committed: false });
                }
                Act::Event { person, ago_ms } => {
                    let Some(tx) = lanes[lane].as_mut().filter(|tx| !tx.is_committed && tx.names.contains(&person)) else { continue };
                    let at = tx.now - ago_ms;
                    let standing = known.standing(&key(person), from_ms(at), from_ms(tx.now));
                    let row = rows.get(&person);
                    prop_assert!(known.present.peek(&key(person)).is_none() || row.is_some(), "{} has no row", person);
                    match standing {
                        Standing::Fresh => {
                            let noted = row.map(|row| row.seen);
                            prop_assert!(noted.is_some_and(|noted| at - noted <= SEEN_EVERY), "{:?} for {}", noted, at);
                            let age = checked.get(&person).map(|checked| tx.now - checked);
                            prop_assert!(age.is_some_and(|age| age < TRUST), "looked up {:?} ms ago", age);
                        }
                        Standing::Merged(into) => {
                            prop_assert_eq!(row.and_then(|row| row.merged), Some(into.as_u128()));
                        }
                        Standing::Unknown | Standing::Erased => {
                            let row = rows.entry(person).or_insert(Row { seen: at, merged: None });
                            row.seen = row.seen.max(at);
                            let last = checked.entry(person).or_insert(tx.now);
                            *last = tx.now.max(*last);
                            match row.merged {
                                Some(into) => tx.learnt.merged.push((key(person), Uuid::from_u128(into))),
                                None => tx.learnt.present.push((key(person), from_ms(row.seen))),
                            }
                        }
                    }
                }
                Act::Merge { person, into } => {
                    let names = |tx: &&mut Tx| !tx.is_committed && tx.names.contains(&person);
                    let Some(tx) = lanes[lane].as_mut().filter(names) else { continue };
                    if merge(&mut rows, person, into) {
                        tx.learnt.merged.push((key(person), Uuid::from_u128(into)));
                    }
                }
                Act::Commit => if let Some(tx) = &mut lanes[lane] {
                    tx.is_committed = true;
                    erasures.awaited.values_mut().for_each(|lanes| lanes.retain(|other| *other != lane));
                },
                Act::Learn if lanes[lane].as_ref().is_some_and(|tx| tx.is_committed) => {
                    let Tx { begun, learnt, now: at, .. } = lanes[lane].take().unwrap();
                    // Does not apply if the cache was cleared or the user erased in the meantime.
                    let is_of_use = known.state.read().unwrap().resets == begun.resets && now - at < TRUST - 1_000;
                    let is_erased = |key: &PersonKey| {
                        erasures.rows.get(&key.1.as_u128()).is_some_and(|(seq, is_pending)| *is_pending || *seq > begun.seq)
                    };
                    let present = learnt.present.clone();
                    known.learn(begun, learnt, from_ms(at));
                    for (key, seen) in present.into_iter().filter(|(key, _)| is_of_use && !is_erased(key)) {
                        let is_merged = rows[&key.1.as_u128()].merged.is_some();
                        let standing = known.standing(&key, seen, from_ms(now));
                        prop_assert!(is_merged || standing == Standing::Fresh, "{:?} directly after the update", standing);
                    }
                }
                Act::MergedElsewhere { person, into } => {
                    merge(&mut rows, person, into);
                }
                Act::SeenElsewhere { person } => if let Some(row) = rows.get_mut(&person) {
                    row.seen = row.seen.max(now);
                },
                Act::EraseAnnounced { person } => {
                    edition.seq += 1;
                    erasures.rows.insert(person, (edition.seq, true));
                    let under_way = (0..LANES).filter(|lane| lanes[*lane].as_ref().is_some_and(|tx| !tx.is_committed));
                    erasures.awaited.insert(person, under_way.collect());
                }
                Act::EraseFinished { person } => {
                    let is_pending = erasures.rows.get(&person).is_some_and(|(_, is_pending)| *is_pending);
                    let is_awaited = erasures.awaited.get(&person).is_some_and(|lanes| !lanes.is_empty());
                    // Transactions that name the user have locked the row.
                    let is_named = lanes.iter().flatten().any(|tx| !tx.is_committed && tx.names.contains(&person));
                    if is_pending && !is_awaited && !is_named {
                        rows.remove(&person);
                        edition.seq += 1;
                        erasures.rows.insert(person, (edition.seq, false));
                    }
                }
                Act::FailedOver { person } if !is_locked => {
                    rows.remove(&person);
                    edition.server_started = from_ms(now);
                }
                Act::Forget => known.forget(),
                _ => {}
            }
        }
    }
}
