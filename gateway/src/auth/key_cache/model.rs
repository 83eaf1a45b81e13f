//! Lookups and changes of keys in random order, checked against a database's history: the cache keeps nothing outdated.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use kernel::ids::ProjectId;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use store_projects::api_keys::{KeySettings, KeyType};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::*;

const PROJECT: ProjectId = ProjectId(Uuid::from_u128(1));
const KEYS: u8 = 3;

#[derive(Clone, Debug)]
enum Act {
    /// A request with a key arrives.
    Find(u8),
    /// The database responds to a pending lookup, which reads the response in `PollLookup`.
    Respond(Index),
    PollLookup(Index),
    /// A pending lookup is dropped.
    Cancel(Index),
    /// A key is created or revoked.
    Toggle(u8),
    /// The project's limit changes.
    ChangeLimit(u32),
    /// The watch reads the changes, and applies them to the cache in `Apply`.
    Watch,
    Apply,
    /// `Watch` and `Apply` in one step.
    WatchAndApply,
    /// The watch has lost track of the changes, so the cache is cleared.
    Clear,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Act::Find),
        4 => any::<Index>().prop_map(Act::Respond),
        3 => any::<Index>().prop_map(Act::PollLookup),
        1 => any::<Index>().prop_map(Act::Cancel),
        2 => (0..KEYS).prop_map(Act::Toggle),
        2 => (1..5_u32).prop_map(Act::ChangeLimit),
        1 => Just(Act::Watch),
        1 => Just(Act::Apply),
        3 => Just(Act::WatchAndApply),
        2 => Just(Act::Clear),
    ]
}

type LookupResult = Result<Option<Arc<CachedKey>>, StoreError>;

struct Lookup {
    key: u8,
    /// The newest state applied to the cache when this lookup, or the first pending one for its key, began.
    applied: usize,
    is_queried: Rc<Cell<bool>>,
    /// Present until the database has responded.
    responder: Option<oneshot::Sender<Option<ActiveKey>>>,
    found: Pin<Box<dyn Future<Output = LookupResult>>>,
}

/// The project's limit and the keys that work, after one change.
#[derive(Clone, Debug, PartialEq)]
struct State {
    works: [bool; KEYS as usize],
    limit: u32,
}

impl State {
    fn active(&self, key: u8) -> Option<ActiveKey> {
        self.works[usize::from(key)].then(|| ActiveKey {
            id: Uuid::from_u128(key.into()),
            project: PROJECT,
            key_type: KeyType::Public,
            prefix: String::new(),
            owner: PROJECT.into(),
            settings: KeySettings::default(),
            rate_limit: self.limit,
            identity_verification: false,
        })
    }
}

fn hash(key: u8) -> KeyHash {
    [key; 32]
}

/// Returns whether each part of a lookup's result was true in a state from `from` on.
///
/// The limit is applied separately and may be of another state than the key.
fn is_consistent(history: &[State], from: usize, key: u8, found: Option<&ActiveKey>) -> bool {
    let was = |works: bool| history[from..].iter().any(|state| state.works[usize::from(key)] == works);
    match found {
        None => was(false),
        Some(found) => was(true) && history[from..].iter().any(|state| state.limit == found.rate_limit),
    }
}

/// Polls a pending lookup and checks its result.
fn poll_lookup(pending: &mut Vec<Lookup>, one: usize, history: &[State]) -> Result<(), TestCaseError> {
    if let Poll::Ready(found) = pending[one].found.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        let Lookup { key, applied, .. } = pending.swap_remove(one);
        let found = found.unwrap().map(|known| known.key.clone());
        prop_assert!(is_consistent(history, applied, key, found.as_ref()), "{:?} is older than the lookup", found);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn cache_keeps_nothing_older_than_the_last_applied_change(acts in prop::collection::vec(act(), 1..80)) {
        // The runtime is entered only for its timers, which never fire.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let cache = Arc::new(KeyCache::default());
        let mut history = vec![State { works: [true, false, true], limit: 1 }];
        // The newest state applied to the cache, and the newest one that the watch has read but not applied.
        let (mut applied, mut watched) = (0, None);
        let mut pending: Vec<Lookup> = Vec::new();
        for act in acts.into_iter().chain([Act::WatchAndApply]) {
            let current = history.last().cloned().unwrap();
            match act {
                Act::Find(key) => {
                    let (responder, response) = oneshot::channel();
                    let is_queried = Rc::new(Cell::new(false));
                    let (cache, queried) = (cache.clone(), is_queried.clone());
                    // Like `KeyCache::find`, but the test sends the database's response.
                    let found = async move {
                        if let Some(known) = cache.entries.get(&hash(key)) {
                            return Ok(Some(known.key));
                        }
                        if cache.is_absent(&hash(key)) {
                            return Ok(None);
                        }
                        let query = async {
                            queried.set(true);
                            Ok(response.await.unwrap_or_default())
                        };
                        cache.load(&hash(key), query).await
                    };
                    let before = pending.iter().filter(|other| other.key == key).map(|other| other.applied).min();
                    let applied = before.unwrap_or(applied);
                    pending.push(Lookup { key, applied, is_queried, responder: Some(responder), found: Box::pin(found) });
                    let last = pending.len() - 1;
                    poll_lookup(&mut pending, last, &history)?;
                }
                Act::Respond(which) if !pending.is_empty() => {
                    let one = which.index(pending.len());
                    let Lookup { key, is_queried, responder, .. } = &mut pending[one];
                    if is_queried.get() && let Some(responder) = responder.take() {
                        let _ = responder.send(current.active(*key));
                    }
                }
                Act::PollLookup(which) if !pending.is_empty() => {
                    let one = which.index(pending.len());
                    poll_lookup(&mut pending, one, &history)?;
                }
                Act::Cancel(which) if !pending.is_empty() => drop(pending.swap_remove(which.index(pending.len()))),
                Act::Respond(_) | Act::PollLookup(_) | Act::Cancel(_) => {}
                Act::Toggle(key) => {
                    let mut next = current;
                    next.works[usize::from(key)] ^= true;
                    history.push(next);
                }
                Act::ChangeLimit(limit) => history.push(State { limit, ..current }),
                Act::Watch => watched = Some(history.len() - 1),
                Act::Apply | Act::WatchAndApply => {
                    if matches!(act, Act::WatchAndApply) {
                        watched = Some(history.len() - 1);
                    }
                    let Some(to) = watched.take() else { continue };
                    let (before, now) = (&history[applied], &history[to]);
                    let works = |state: &State, key: u8| state.works[usize::from(key)];
                    let changed =
                        |key: &u8| history[applied..=to].iter().any(|state| works(state, *key) != works(before, *key));
                    let hashes: Vec<KeyHash> = (0..KEYS).filter(changed).map(hash).collect();
                    if !hashes.is_empty() {
                        cache.invalidate(&hashes);
                    }
                    if history[applied..=to].iter().any(|state| state.limit != before.limit) {
                        cache.apply_project_settings(&[ProjectRules { id: PROJECT, rate_limit: now.limit, identity_verification: false }]);
                    }
                    applied = to;
                }
                Act::Clear => {
                    cache.invalidate_all();
                    (applied, watched) = (history.len() - 1, None);
                }
            }
            for key in 0..KEYS {
                if let Some(known) = cache.entries.peek(&hash(key)) {
                    let known = &known.key.key;
                    prop_assert!(is_consistent(&history, applied, key, Some(known)), "the cached key is outdated: {:?}", known);
                }
                prop_assert!(!cache.is_absent(&hash(key)) || is_consistent(&history, applied, key, None), "key {} is wrongly cached as absent", key);
            }
        }
    }

    /// `unwritten` returns uses up to the last `MIN_USE_INTERVAL_MS`, and never returns a written one again.
    #[test]
    fn only_the_latest_use_is_written(acts in prop::collection::vec((0..5_000_i64, 0..4_usize), 1..60)) {
        let key = State { works: [true; KEYS as usize], limit: 1 }.active(0).unwrap();
        let known = CachedKey::new(key);
        let (mut now, mut last, mut written) = (1_790_000_000_000_i64, None, 0);
        for (pause_ms, act) in acts {
            now += pause_ms;
            if act > 0 {
                known.record_use(now);
                last = Some(now);
                continue;
            }
            let noted = known.unwritten(from_ms(now)).map(|used| used.at.as_millisecond());
            match (noted, last) {
                (Some(at), Some(last)) => {
                    prop_assert!(at > written && at <= last && last - at < MIN_USE_INTERVAL_MS, "{} of {}", at, last);
                    prop_assert!(written == 0 || known.unwritten(from_ms(written - 1)).is_none(), "a use was written within the interval");
                    known.mark_written(from_ms(at));
                    written = at;
                    prop_assert!(known.unwritten(from_ms(now)).is_none(), "the use was just written");
                }
                (Some(at), None) => return Err(TestCaseError::fail(format!("a use at {at} that never occurred"))),
                (None, last) => prop_assert!(last.is_none_or(|last| last - written < MIN_USE_INTERVAL_MS), "the use at {:?} is not returned", last),
            }
        }
    }
}
