//! Compares a worker's user cache with a database that other workers, erasures and failovers change.

use std::collections::{BTreeSet, HashMap};

use kernel::clock::from_ms;
use kernel::ids::ProjectId;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const USERS: u128 = 4;
const LANES: usize = 2;

#[derive(Clone, Debug)]
enum Action {
    /// A transaction whose items name these users.
    Begin {
        names: BTreeSet<u128>,
    },
    /// An event of a user, `ago_ms` milliseconds ago. The user is looked up if necessary.
    Event {
        user: u128,
        ago_ms: i64,
    },
    Merge {
        user: u128,
        into: u128,
    },
    Commit,
    /// The worker continues after its commit.
    ApplyUpdate,
    /// Changes by other workers.
    MergedElsewhere {
        user: u128,
        into: u128,
    },
    SeenElsewhere {
        user: u128,
    },
    EraseAnnounced {
        user: u128,
    },
    EraseFinished {
        user: u128,
    },
    /// The last commit is lost.
    FailedOver {
        user: u128,
    },
    Invalidate,
}

fn action() -> impl Strategy<Value = Action> {
    let user = || 0..USERS;
    prop_oneof![
        6 => prop::collection::btree_set(user(), 1..=USERS as usize).prop_map(|names| Action::Begin { names }),
        12 => (user(), prop_oneof![0..2_000_i64, 0..200_000_i64]).prop_map(|(user, ago_ms)| Action::Event { user, ago_ms }),
        1 => (user(), user()).prop_map(|(user, into)| Action::Merge { user, into }),
        6 => Just(Action::Commit),
        6 => Just(Action::ApplyUpdate),
        1 => (user(), user()).prop_map(|(user, into)| Action::MergedElsewhere { user, into }),
        1 => user().prop_map(|user| Action::SeenElsewhere { user }),
        2 => user().prop_map(|user| Action::EraseAnnounced { user }),
        4 => user().prop_map(|user| Action::EraseFinished { user }),
        1 => user().prop_map(|user| Action::FailedOver { user }),
        1 => Just(Action::Invalidate),
    ]
}

struct Row {
    seen: i64,
    merged: Option<u128>,
}

/// The transaction of a lane, and whether it is committed.
struct Tx {
    cache_version: CacheVersion,
    names: BTreeSet<u128>,
    now: i64,
    cache_update: CacheUpdate,
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
        rows.map(|(user, (seq, is_pending))| Removal { user: key(*user), seq: *seq, is_pending: *is_pending }).collect()
    }
}

/// Like `UserCache::refresh`, with these erasures.
fn refresh(cache: &UserCache, generation: Generation, erasures: &Erasures) -> CacheVersion {
    let last = cache.state.read().unwrap().generation;
    match last.filter(|last| last.server_started == generation.server_started) {
        Some(last) if last.seq >= generation.seq => {}
        Some(last) => cache.remove(generation, &erasures.changed_since(Some(last.seq))),
        None => cache.reset(generation, &erasures.changed_since(None)),
    }
    cache.cache_version(generation)
}

fn key(user: u128) -> ProjectUserId {
    (ProjectId(Uuid::from_u128(1)), Uuid::from_u128(user))
}

fn merge(rows: &mut HashMap<u128, Row>, user: u128, into: u128) -> bool {
    let is_possible = user != into && rows.get(&user).is_some_and(|row| row.merged.is_none());
    if is_possible {
        rows.get_mut(&user).unwrap().merged = Some(into);
    }
    is_possible
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn cached_users_exist_and_are_fresh_enough(
        actions in prop::collection::vec((prop_oneof![3 => 0..500_i64, 1 => 0..90_000_i64], 0..LANES, action()), 1..120),
    ) {
        let cache = UserCache::new(10_000);
        let mut now = 1_790_000_000_000_i64;
        let mut generation = Generation { seq: 1, server_started: from_ms(now) };
        let mut rows: HashMap<u128, Row> = HashMap::new();
        let mut erasures = Erasures::default();
        // When each user was last looked up.
        let mut checked: HashMap<u128, i64> = HashMap::new();
        let mut lanes: [Option<Tx>; LANES] = [None, None];
        for (pause_ms, lane, action) in actions {
            now += pause_ms;
            let is_locked = lanes.iter().flatten().any(|tx| !tx.is_committed);
            match action {
                Action::Begin { names } if lanes[lane].is_none() => {
                    let cache_version = refresh(&cache, generation, &erasures);
                    lanes[lane] = Some(Tx { cache_version, names, now, cache_update: CacheUpdate::default(), is_committed: false });
                }
                Action::Event { user, ago_ms } => {
                    let Some(tx) = lanes[lane].as_mut().filter(|tx| !tx.is_committed && tx.names.contains(&user)) else { continue };
                    let at = tx.now - ago_ms;
                    let status = cache.status(&key(user), from_ms(at), from_ms(tx.now));
                    let row = rows.get(&user);
                    prop_assert!(cache.present.peek(&key(user)).is_none() || row.is_some(), "{} has no row", user);
                    match status {
                        CachedStatus::Fresh => {
                            let stored_seen = row.map(|row| row.seen);
                            prop_assert!(stored_seen.is_some_and(|stored_seen| at - stored_seen <= MAX_LAST_SEEN_LAG_MS), "{:?} for {}", stored_seen, at);
                            let age = checked.get(&user).map(|checked| tx.now - checked);
                            prop_assert!(age.is_some_and(|age| age < MAX_AGE_MS), "looked up {:?} ms ago", age);
                        }
                        CachedStatus::Merged(into) => {
                            prop_assert_eq!(row.and_then(|row| row.merged), Some(into.as_u128()));
                        }
                        CachedStatus::Unknown | CachedStatus::Erased => {
                            let row = rows.entry(user).or_insert(Row { seen: at, merged: None });
                            row.seen = row.seen.max(at);
                            let last = checked.entry(user).or_insert(tx.now);
                            *last = tx.now.max(*last);
                            match row.merged {
                                Some(into) => tx.cache_update.merged.push((key(user), Uuid::from_u128(into))),
                                None => tx.cache_update.present.push((key(user), from_ms(row.seen))),
                            }
                        }
                    }
                }
                Action::Merge { user, into } => {
                    let names = |tx: &&mut Tx| !tx.is_committed && tx.names.contains(&user);
                    let Some(tx) = lanes[lane].as_mut().filter(names) else { continue };
                    if merge(&mut rows, user, into) {
                        tx.cache_update.merged.push((key(user), Uuid::from_u128(into)));
                    }
                }
                Action::Commit => if let Some(tx) = &mut lanes[lane] {
                    tx.is_committed = true;
                    erasures.awaited.values_mut().for_each(|lanes| lanes.retain(|other| *other != lane));
                },
                Action::ApplyUpdate if lanes[lane].as_ref().is_some_and(|tx| tx.is_committed) => {
                    let Tx { cache_version, cache_update, now: at, .. } = lanes[lane].take().unwrap();
                    // Does not apply if the cache was cleared or the user erased in the meantime.
                    let is_of_use = cache.state.read().unwrap().resets == cache_version.resets && now - at < MAX_AGE_MS - 1_000;
                    let is_erased = |key: &ProjectUserId| {
                        erasures.rows.get(&key.1.as_u128()).is_some_and(|(seq, is_pending)| *is_pending || *seq > cache_version.seq)
                    };
                    let present = cache_update.present.clone();
                    cache.apply(cache_version, cache_update, from_ms(at));
                    for (key, seen) in present.into_iter().filter(|(key, _)| is_of_use && !is_erased(key)) {
                        let is_merged = rows[&key.1.as_u128()].merged.is_some();
                        let status = cache.status(&key, seen, from_ms(now));
                        prop_assert!(is_merged || status == CachedStatus::Fresh, "{:?} directly after the update", status);
                    }
                }
                Action::MergedElsewhere { user, into } => {
                    merge(&mut rows, user, into);
                }
                Action::SeenElsewhere { user } => if let Some(row) = rows.get_mut(&user) {
                    row.seen = row.seen.max(now);
                },
                Action::EraseAnnounced { user } => {
                    generation.seq += 1;
                    erasures.rows.insert(user, (generation.seq, true));
                    let under_way = (0..LANES).filter(|lane| lanes[*lane].as_ref().is_some_and(|tx| !tx.is_committed));
                    erasures.awaited.insert(user, under_way.collect());
                }
                Action::EraseFinished { user } => {
                    let is_pending = erasures.rows.get(&user).is_some_and(|(_, is_pending)| *is_pending);
                    let is_awaited = erasures.awaited.get(&user).is_some_and(|lanes| !lanes.is_empty());
                    // Transactions that name the user have locked the row.
                    let is_named = lanes.iter().flatten().any(|tx| !tx.is_committed && tx.names.contains(&user));
                    if is_pending && !is_awaited && !is_named {
                        rows.remove(&user);
                        generation.seq += 1;
                        erasures.rows.insert(user, (generation.seq, false));
                    }
                }
                Action::FailedOver { user } if !is_locked => {
                    rows.remove(&user);
                    generation.server_started = from_ms(now);
                }
                Action::Invalidate => cache.invalidate(),
                _ => {}
            }
        }
    }
}
