//! Runs random automations with random scripts of events, timers (due, stale and repeated), pauses, resumptions and
//! restarts. A reference implementation that walks the step tree must produce the same effects.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::{Action, Step};

/// One step of a script.
#[derive(Clone, Debug)]
enum Turn {
    /// Seconds pass. A timer that becomes due meanwhile fires at their end.
    Time(i64),
    Event(usize),
    /// A timer with an arbitrary wait number.
    Stray(i32),
    /// The previous timer fires again.
    Repeat,
    Switch,
    /// All state that is not stored is lost.
    Restart,
}

const EVENTS: [&str; 2] = ["a", "b"];

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (1..50_i64).prop_map(Turn::Time),
        4 => (0..2_usize).prop_map(Turn::Event),
        1 => (0..6_i32).prop_map(Turn::Stray),
        1 => Just(Turn::Repeat),
        1 => Just(Turn::Switch),
        1 => Just(Turn::Restart),
    ]
}

fn a_step() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => (0..100_u128).prop_map(mail),
        3 => (0..40_u32).prop_map(|s| wait(f64::from(s))),
        1 => (0..3).prop_map(|x| json!({ "type": "UPDATE_USER", "properties": { "x": x } })),
        1 => Just(json!({ "type": "TRACK_EVENT", "event": "c", "properties": {} })),
        1 => Just(json!({ "type": "EXIT" })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let arm = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (0..2_usize, 1..60_u32, arm(), arm()).prop_map(|(event, timeout, then, otherwise)| json!({
                "type": "WAIT_FOR_EVENT", "event": EVENTS[event], "timeout": timeout, "then": then, "else": otherwise,
            })),
            (arm(), arm(), arm()).prop_map(|(first, second, otherwise)| {
                let arm = |x: i32, steps: Vec<Value>| {
                    json!({ "rules": [{ "field": "x", "operator": "eq", "value": x }], "steps": steps })
                };
                json!({ "type": "BRANCH", "branches": [arm(1, first), arm(2, second)], "else": otherwise })
            }),
            (1..9_u32, 1..9_u32, arm(), arm()).prop_map(|(w, v, first, second)| json!({
                "type": "SPLIT", "branches": [{ "weight": w, "steps": first }, { "weight": v, "steps": second }],
            })),
        ]
    })
}

/// The reference implementation: a stack of arms, each with the index of its next step.
struct Reference<'s> {
    arms: Vec<(String, &'s [Step], usize)>,
    /// The due time in seconds, and the waiting step.
    waits: Option<(i64, String, &'s Action)>,
    /// Whether an event (rather than the timeout) ended the wait while the automation was inactive.
    stands_still: Option<bool>,
    x: i64,
    id: Uuid,
    done: bool,
    log: Vec<String>,
}

impl<'s> Reference<'s> {
    fn new(steps: &'s [Step], id: Uuid) -> Self {
        let arms = vec![("steps".to_owned(), steps, 0)];
        Self { arms, waits: None, stands_still: None, x: 0, id, done: false, log: Vec::new() }
    }

    fn enter(&mut self, path: &str, arm: &str, action: &'s Action) {
        let (arm, steps) = action.arms().into_iter().find(|(name, _)| name == arm).unwrap();
        self.arms.push((format!("{path}{arm}"), steps, 0));
    }

    fn go(&mut self, now: i64) {
        while let Some((arm, steps, next)) = self.arms.last_mut() {
            let Some(step) = steps.get(*next) else {
                self.arms.pop();
                continue;
            };
            let path = format!("{arm}[{next}]");
            *next += 1;
            match &step.action {
                Action::SendEmail { template_id, .. } => {
                    self.log.push(format!("send {path} {}", template_id.as_u128()));
                }
                Action::TrackEvent { .. } => self.log.push(format!("track {path}")),
                Action::UpdateUser { properties } => {
                    self.x = properties["x"].as_i64().unwrap();
                    self.log.push(format!("update {path} {}", self.x));
                }
                Action::Exit {} => {
                    self.done = true;
                    return;
                }
                Action::Wait { delay } if *delay == 0.0 => {}
                Action::Wait { delay: secs } | Action::WaitForEvent { timeout: secs, .. } => {
                    self.waits = Some((now + *secs as i64, path, &step.action));
                    return;
                }
                action @ Action::Branch { .. } => {
                    let arm = if (1..=2).contains(&self.x) {
                        format!(".branches[{}].steps", self.x - 1)
                    } else {
                        ".else".to_owned()
                    };
                    self.enter(&path, &arm, action);
                }
                action @ Action::Split { branches } => {
                    let hash = xxh3_64_with_seed(path.as_bytes(), self.id.as_u64_pair().1);
                    let total = branches[0].weight + branches[1].weight;
                    let second = (hash >> 11) as f64 / (1_u64 << 53) as f64 * total >= branches[0].weight;
                    self.enter(&path, &format!(".branches[{}].steps", u8::from(second)), action);
                }
                other => panic!("{other:?}"),
            }
        }
        self.done = true;
    }

    /// Ends the wait, because of its event or its timeout.
    fn end_wait(&mut self, by_event: bool, active: bool, now: i64) {
        if !active {
            self.stands_still = self.stands_still.or(Some(by_event));
            return;
        }
        let by_event = self.stands_still.take().unwrap_or(by_event);
        let Some((_, path, action)) = self.waits.take() else { return };
        if matches!(action, Action::WaitForEvent { .. }) {
            self.enter(&path, if by_event { ".then" } else { ".else" }, action);
        }
        self.go(now);
    }

    fn event(&mut self, name: &str, active: bool, now: i64) {
        let waited = matches!(&self.waits, Some((_, _, Action::WaitForEvent { event, .. })) if event == name);
        if waited && self.stands_still.is_none() {
            self.end_wait(true, active, now);
        }
    }

    fn due(&self) -> Option<i64> {
        self.waits.as_ref().filter(|_| self.stands_still.is_none()).map(|(due, ..)| *due)
    }
}

fn logged(effects: &[Effect]) -> Vec<String> {
    let line = |effect: &Effect| match effect {
        Effect::Send { template_id, position, .. } => Some(format!("send {position} {}", template_id.as_u128())),
        Effect::TrackEvent { position, .. } => Some(format!("track {position}")),
        Effect::UpdateUser { position, properties } => Some(format!("update {position} {}", properties["x"])),
        _ => None,
    };
    effects.iter().filter_map(line).collect()
}

/// Returns the state as a restart restores it from its row.
fn stored(state: &State) -> State {
    State { memory: serde_json::from_value(json!(state.memory)).unwrap(), ..state.clone() }
}

fn drive(steps: &[Value], scripts: &[(Vec<Turn>, u128)]) {
    let whole = json!({ "triggerType": "EVENT", "triggerEvent": "e", "reentry": "always", "steps": steps });
    let definition = Definition::decode(whole).unwrap();
    let first = Program::compile(&definition).unwrap();
    let again = Program::compile(&Definition::decode(definition.encode()).unwrap()).unwrap();
    for (script, id) in scripts {
        follow(&definition, [&first, &again], script, *id);
    }
}

fn follow(definition: &Definition, [first, again]: [&Program; 2], script: &[Turn], id: u128) {
    let mut ride = Ride { id: Uuid::from_u128(id), ..Ride::new(first) };
    let mut reference = Reference::new(&definition.steps, ride.id);
    let (mut now, mut compared, mut is_over) = (0, 0, false);
    ride.meet(Input::Start, 0);
    reference.go(0);
    // Enough time at the end for every wait to end.
    let is_off = script.iter().filter(|turn| matches!(turn, Turn::Switch)).count() % 2 == 1;
    let on = is_off.then_some(Turn::Switch);
    let rest = std::iter::repeat_n(Turn::Time(100), 150);
    for (n, turn) in script.iter().cloned().chain(on).chain(rest).enumerate() {
        if is_over && n > script.len() {
            break;
        }
        match turn {
            Turn::Time(seconds) => {
                now += seconds;
                if reference.due().is_some_and(|due| due <= now) {
                    reference.end_wait(false, ride.active, now);
                }
                // Like the scheduler, fire the timer once when it is due.
                let due = ride.state.due_at.is_some_and(|due| due <= from_ms(now * 1_000));
                if ride.state.status == RunStatus::Waiting && due {
                    let wait_seq = ride.state.wait_seq;
                    ride.timer(wait_seq, now * 1_000);
                }
            }
            Turn::Event(n) => {
                reference.event(EVENTS[n], ride.active, now);
                ride.event(EVENTS[n], json!({}), now * 1_000);
            }
            Turn::Stray(n) => {
                if n != ride.state.wait_seq {
                    ride.timer(n, now * 1_000);
                }
            }
            Turn::Repeat => {
                let before = ride.state.wait_seq - 1;
                ride.timer(before, now * 1_000);
            }
            Turn::Switch => {
                ride.active = !ride.active;
                if ride.active && ride.state.status == RunStatus::Frozen {
                    ride.state.status = RunStatus::Waiting;
                    let wait_seq = ride.state.wait_seq;
                    ride.timer(wait_seq, now * 1_000);
                }
                if ride.active && reference.stands_still.is_some() {
                    reference.end_wait(false, true, now);
                }
            }
            Turn::Restart => (ride.state, ride.program) = (stored(&ride.state), again),
        }
        // Compare the effects of this script step only; earlier ones are already compared.
        assert_eq!(logged(&std::mem::take(&mut ride.effects)), reference.log[compared..]);
        compared = reference.log.len();
        is_over = reference.done;
        assert_eq!(ride.state.status.has_ended(), is_over);
    }
    assert!(reference.done, "the run did not end: {:?}", ride.state);
}

/// Number of random automations, each run with `SCRIPTS` random scripts: 100,000 in total.
const AUTOMATIONS: u32 = 10_000;
const SCRIPTS: usize = 10;

proptest! {
    #![proptest_config(ProptestConfig { cases: AUTOMATIONS, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn a_run_does_what_the_reference_does(
        steps in prop::collection::vec(a_step(), 0..6),
        scripts in prop::collection::vec((prop::collection::vec(turn(), 0..40), any::<u128>()), SCRIPTS),
    ) {
        drive(&steps, &scripts);
    }
}
