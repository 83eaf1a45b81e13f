//! Runs random automations with random scripts of events, timers (due, stale and repeated), pauses, resumptions and
//! restarts. A reference implementation that walks the step tree must produce the same effects.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::{Action, Step};

/// One step of a script.
#[derive(Clone, Debug)]
enum ScriptStep {
    /// Seconds pass. A timer that becomes due meanwhile fires at their end.
    Elapse(i64),
    Event(usize),
    /// A timer with an arbitrary wait number.
    StaleTimer(i32),
    /// The previous timer fires again.
    RepeatTimer,
    ToggleActive,
    /// All state that is not stored is lost.
    Restart,
}

const EVENTS: [&str; 2] = ["a", "b"];

fn script_step() -> impl Strategy<Value = ScriptStep> {
    prop_oneof![
        4 => (1..50_i64).prop_map(ScriptStep::Elapse),
        4 => (0..2_usize).prop_map(ScriptStep::Event),
        1 => (0..6_i32).prop_map(ScriptStep::StaleTimer),
        1 => Just(ScriptStep::RepeatTimer),
        1 => Just(ScriptStep::ToggleActive),
        1 => Just(ScriptStep::Restart),
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
    ended_while_inactive: Option<bool>,
    x: i64,
    id: Uuid,
    done: bool,
    log: Vec<String>,
}

impl<'s> Reference<'s> {
    fn new(steps: &'s [Step], id: Uuid) -> Self {
        let arms = vec![("steps".to_owned(), steps, 0)];
        Self { arms, waits: None, ended_while_inactive: None, x: 0, id, done: false, log: Vec::new() }
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
            self.ended_while_inactive = self.ended_while_inactive.or(Some(by_event));
            return;
        }
        let by_event = self.ended_while_inactive.take().unwrap_or(by_event);
        let Some((_, path, action)) = self.waits.take() else { return };
        if matches!(action, Action::WaitForEvent { .. }) {
            self.enter(&path, if by_event { ".then" } else { ".else" }, action);
        }
        self.go(now);
    }

    fn event(&mut self, name: &str, active: bool, now: i64) {
        let waited = matches!(&self.waits, Some((_, _, Action::WaitForEvent { event, .. })) if event == name);
        if waited && self.ended_while_inactive.is_none() {
            self.end_wait(true, active, now);
        }
    }

    fn due(&self) -> Option<i64> {
        self.waits.as_ref().filter(|_| self.ended_while_inactive.is_none()).map(|(due, ..)| *due)
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

fn drive(steps: &[Value], scripts: &[(Vec<ScriptStep>, u128)]) {
    let whole = json!({ "triggerType": "EVENT", "triggerEvent": "e", "reentry": "always", "steps": steps });
    let definition = Definition::decode(whole).unwrap();
    let first = Program::compile(&definition).unwrap();
    let again = Program::compile(&Definition::decode(definition.encode()).unwrap()).unwrap();
    for (script, id) in scripts {
        follow(&definition, [&first, &again], script, *id);
    }
}

fn follow(definition: &Definition, [first, again]: [&Program; 2], script: &[ScriptStep], id: u128) {
    let mut test_run = TestRun { id: Uuid::from_u128(id), ..TestRun::new(first) };
    let mut reference = Reference::new(&definition.steps, test_run.id);
    let (mut now, mut compared, mut is_over) = (0, 0, false);
    test_run.apply(Input::Start, 0);
    reference.go(0);
    // Enough time at the end for every wait to end.
    let is_off = script.iter().filter(|script_step| matches!(script_step, ScriptStep::ToggleActive)).count() % 2 == 1;
    let on = is_off.then_some(ScriptStep::ToggleActive);
    let rest = std::iter::repeat_n(ScriptStep::Elapse(100), 150);
    for (n, script_step) in script.iter().cloned().chain(on).chain(rest).enumerate() {
        if is_over && n > script.len() {
            break;
        }
        match script_step {
            ScriptStep::Elapse(seconds) => {
                now += seconds;
                if reference.due().is_some_and(|due| due <= now) {
                    reference.end_wait(false, test_run.active, now);
                }
                // Like the scheduler, fire the timer once when it is due.
                let due = test_run.state.due_at.is_some_and(|due| due <= from_ms(now * 1_000));
                if test_run.state.status == RunStatus::Waiting && due {
                    let wait_seq = test_run.state.wait_seq;
                    test_run.timer(wait_seq, now * 1_000);
                }
            }
            ScriptStep::Event(n) => {
                reference.event(EVENTS[n], test_run.active, now);
                test_run.event(EVENTS[n], json!({}), now * 1_000);
            }
            ScriptStep::StaleTimer(n) => {
                if n != test_run.state.wait_seq {
                    test_run.timer(n, now * 1_000);
                }
            }
            ScriptStep::RepeatTimer => {
                let before = test_run.state.wait_seq - 1;
                test_run.timer(before, now * 1_000);
            }
            ScriptStep::ToggleActive => {
                test_run.active = !test_run.active;
                if test_run.active && test_run.state.status == RunStatus::Frozen {
                    test_run.state.status = RunStatus::Waiting;
                    let wait_seq = test_run.state.wait_seq;
                    test_run.timer(wait_seq, now * 1_000);
                }
                if test_run.active && reference.ended_while_inactive.is_some() {
                    reference.end_wait(false, true, now);
                }
            }
            ScriptStep::Restart => (test_run.state, test_run.program) = (stored(&test_run.state), again),
        }
        // Compare the effects of this script step only; earlier ones are already compared.
        assert_eq!(logged(&std::mem::take(&mut test_run.effects)), reference.log[compared..]);
        compared = reference.log.len();
        is_over = reference.done;
        assert_eq!(test_run.state.status.has_ended(), is_over);
    }
    assert!(reference.done, "the run did not end: {:?}", test_run.state);
}

/// Number of random automations, each run with `SCRIPTS` random scripts: 100,000 in total.
const AUTOMATIONS: u32 = 10_000;
const SCRIPTS: usize = 10;

proptest! {
    #![proptest_config(ProptestConfig { cases: AUTOMATIONS, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn run_matches_reference(
        steps in prop::collection::vec(a_step(), 0..6),
        scripts in prop::collection::vec((prop::collection::vec(script_step(), 0..40), any::<u128>()), SCRIPTS),
    ) {
        drive(&steps, &scripts);
    }
}
