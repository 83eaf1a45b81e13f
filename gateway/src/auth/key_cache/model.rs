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
    Answer(Index),
    Hear(Index),
    /// A pending lookup is dropped.
    Leave(Index),
    /// A key is created or revoked.
    Turn(u8),
    /// The project's limit changes.
    Limit(u32),
    /// The watch reads the changes, and applies them to the cache in `Apply`.
    Watch,
    Tell,
    /// `Watch` and `Apply` in one step.
    Follow,
    /// The watch has lost track of the changes, so the cache is cleared.
    TellAll,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Act::Find),
        4 => any::<Index>().prop_map(Act::Answer),
        3 => any::<Index>().prop_map(Act::Hear),
        1 => any::<Index>().prop_map(Act::Leave),
        2 => (0..KEYS).prop_map(Act::Turn),
        2 => (1..5_u32).prop_map(Act::Limit),
        1 => Just(Act::Watch),
        1 => Just(Act::Tell),
        3 => Just(Act::Follow),
        2 => Just(Act::TellAll),
    ]
}

type Found = Result<Option<Arc<KnownKey>>, StoreError>;

struct LookUp {
    key: u8,
    /// The newest state applied to the cache when this lookup, or the first pending one for its key, began.
    told: usize,
    is_asked: Rc<Cell<bool>>,
    /// Present until the database has responded.
    answer: Option<oneshot::Sender<Option<ActiveKey>>>,
    found: Pin<Box<dyn Future<Output = Found>>>,
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
fn is_of(history: &[State], from: usize, key: u8, found: Option<&ActiveKey>) -> bool {
    let was = |works: bool| history[from..].iter().any(|state| state.works[usize::from(key)] == works);
    match found {
        None => was(false),
        Some(found) => was(true) && history[from..].iter().any(|state| state.limit == found.rate_limit),
    }
}

/// Polls a pending lookup and checks its result.
fn hear(waiting: &mut Vec<LookUp>, one: usize, history: &[State]) -> Result<(), TestCaseError> {
    if let Poll::Ready(found) = waiting[one].found.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        let LookUp { key, told, .. } = waiting.swap_remove(one);
        let found = found.unwrap().map(|known| known.key.clone());
        prop_assert!(is_of(history, told, key, found.as_ref()), "{:?} is older than the lookup", found);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_kept_that_is_older_than_what_was_told(acts in prop::collection::vec(act(), 1..80)) {
        // The runtime is entered only for its timers, which never fire.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let cache = Arc::new(KeyCache::default());
        let mut history = vec![State { works: [true, false, true], limit: 1 }];
        // The newest state applied to the cache, and the newest one that the watch has read but not applied.
        let (mut told, mut watched) = (0, None);
        let mut waiting: Vec<LookUp> = Vec::new();
        for act in acts.into_iter().chain([Act::Follow]) {
            let current = history.last().cloned().unwrap();
            match act {
                Act::Find(key) => {
                    let (answer, asked) = oneshot::channel();
                    let is_asked = Rc::new(Cell::new(false));
                    let (cache, asks) = (cache.clone(), is_asked.clone());
                    // Like `KeyCache::find`, but the test sends the database's response.
                    let found = async move {
                        if let Some(known) = cache.known.get(&hash(key)) {
                            return Ok(Some(known.key));
                        }
                        if cache.is_absent(&hash(key)) {
                            return Ok(None);
                        }
                        let ask = async {
                            asks.set(true);
                            Ok(asked.await.unwrap_or_default())
                        };
                        cache.load(&hash(key), ask).await
                    };
                    let before = waiting.iter().filter(|other| other.key == key).map(|other| other.told).min();
                    let told = before.unwrap_or(told);
                    waiting.push(LookUp { key, told, is_asked, answer: Some(answer), found: Box::pin(found) });
                    let last = waiting.len() - 1;
                    hear(&mut waiting, last, &history)?;
                }
                Act::Answer(which) if !waiting.is_empty() => {
                    let one = which.index(waiting.len());
                    let LookUp { key, is_asked, answer, .. } = &mut waiting[one];
                    if is_asked.get() && let Some(answer) = answer.take() {
                        let _ = answer.send(current.active(*key));
                    }
                }
                Act::Hear(which) if !waiting.is_empty() => {
                    let one = which.index(waiting.len());
                    hear(&mut waiting, one, &history)?;
                }
                Act::Leave(which) if !waiting.is_empty() => drop(waiting.swap_remove(which.index(waiting.len()))),
                Act::Answer(_) | Act::Hear(_) | Act::Leave(_) => {}
                Act::Turn(key) => {
                    let mut next = current;
                    next.works[usize::from(key)] ^= true;
                    history.push(next);
                }
                Act::Limit(limit) => history.push(State { limit, ..current }),
                Act::Watch => watched = Some(history.len() - 1),
                Act::Tell | Act::Follow => {
                    if matches!(act, Act::Follow) {
                        watched = Some(history.len() - 1);
                    }
                    let Some(to) = watched.take() else { continue };
                    let (before, now) = (&history[told], &history[to]);
                    let works = |state: &State, key: u8| state.works[usize::from(key)];
                    let changed =
                        |key: &u8| history[told..=to].iter().any(|state| works(state, *key) != works(before, *key));
                    let hashes: Vec<KeyHash> = (0..KEYS).filter(changed).map(hash).collect();
                    if !hashes.is_empty() {
                        cache.forget(&hashes);
                    }
                    if history[told..=to].iter().any(|state| state.limit != before.limit) {
                        cache.apply(&[ProjectRules { id: PROJECT, rate_limit: now.limit, identity_verification: false }]);
                    }
                    told = to;
                }
                Act::TellAll => {
                    cache.forget_all();
                    (told, watched) = (history.len() - 1, None);
                }
            }
            for key in 0..KEYS {
                if let Some(known) = cache.known.peek(&hash(key)) {
                    let known = &known.key.key;
                    prop_assert!(is_of(&history, told, key, Some(known)), "the cached key is outdated: {:?}", known);
                }
                prop_assert!(!cache.is_absent(&hash(key)) || is_of(&history, told, key, None), "key {} is wrongly cached as absent", key);
            }
        }
    }

    /// `unwritten` returns uses up to the last `MIN_USE_INTERVAL_MS`, and never returns a written one again.
    #[test]
    fn the_latest_use_is_written_down_and_no_other(acts in prop::collection::vec((0..5_000_i64, 0..4_usize), 1..60)) {
        let key = State { works: [true; KEYS as usize], limit: 1 }.active(0).unwrap();
        let known = KnownKey::new(key);
        let (mut now, mut last, mut written) = (1_790_000_000_000_i64, None, 0);
        for (pause_ms, act) in acts {
            now += pause_ms;
            if act > 0 {
                known.used(now);
                last = Some(now);
                continue;
            }
            let noted = known.unwritten(from_ms(now)).map(|used| used.at.as_millisecond());
            match (noted, last) {
                (Some(at), Some(last)) => {
                    prop_assert!(at > written && at <= last && last - at < NOTED, "{} of {}", at, last);
                    prop_assert!(written == 0 || known.unwritten(from_ms(written - 1)).is_none(), "a use was written within the interval");
                    known.written(from_ms(at));
                    written = at;
                    prop_assert!(known.unwritten(from_ms(now)).is_none(), "the use was just written");
                }
                (Some(at), None) => return Err(TestCaseError::fail(format!("a use at {at} that never occurred"))),
                (None, last) => prop_assert!(last.is_none_or(|last| last - written < NOTED), "the use at {:?} is not returned", last),
            }
        }
    }
}
