//! Executes a simulated run: time advances immediately, and effects are recorded instead of applied.

use std::collections::{BTreeMap, VecDeque};

use automation::journey::{
    CallOutcome, Effect, Input, LogEntry, Occurrence, Program, Run, RunFacts, RunStatus, RunUser, Situation, State,
    Transition, step,
};
use automation::{Definition, TriggerType};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kernel::ids;
use rules::eval;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::segments::user_facts::past::Past;
use uuid::Uuid;

use super::input::{SimulatedEvent, Simulation};
use crate::resources::time_format;

/// Limits per simulation: inputs, and intermediate checks of exit rules. An automation has at most 100 steps, and a
/// request at most 100 events.
const MAX_INPUTS: usize = 1_000;
const MAX_EXIT_CHECKS: usize = 1_000;
const LIMIT_REACHED: &str = "simulated_no_further";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EffectView {
    #[serde(serialize_with = "time_format::time")]
    at: Timestamp,
    step: String,
    #[serde(flatten)]
    details: Value,
}

/// A simulated run.
pub(super) struct SimulatedRun<'a> {
    program: &'a Program,
    request: Simulation,
    situation: Situation,
    id: Uuid,
    started_at: Timestamp,
    trigger: Value,
    pub state: State,
    pub marks: Vec<LogEntry>,
    pub effects: Vec<EffectView>,
    /// Pending webhook calls: step names by wait number. Each is answered from the request.
    calls: BTreeMap<i32, String>,
    /// The user's event history, including simulated events.
    past: Past,
    /// Time for which the user's event counts were last computed; `None` if they must be recomputed.
    counted_at: Option<Timestamp>,
    /// Events tracked by steps and not yet processed.
    tracked: VecDeque<(String, Map<String, Value>)>,
}

impl<'a> SimulatedRun<'a> {
    pub fn new(
        program: &'a Program,
        request: Simulation,
        (mut person, past): (RunUser, Past),
        timezone: TimeZone,
        now: Timestamp,
    ) -> Self {
        person.patch(&request.properties);
        let id = ids::fresh(now.as_millisecond());
        let trigger = &request.trigger;
        let trigger = Occurrence { id, name: &trigger.name, properties: &trigger.properties, at: now }.shown();
        Self {
            program,
            request,
            situation: Situation { now, active: true, timezone, user: Some(person) },
            id,
            started_at: now,
            trigger,
            state: State::at_start(),
            marks: Vec::new(),
            effects: Vec::new(),
            calls: BTreeMap::new(),
            past,
            counted_at: None,
            tracked: VecDeque::new(),
        }
    }

    /// Records the trigger event in the user's history, since the user performed it.
    pub fn record_trigger(&mut self, definition: &Definition) {
        if matches!(definition.trigger_type, TriggerType::Event | TriggerType::Webhook) {
            let named = Some(&self.request.trigger.name).filter(|name| !name.is_empty());
            let name = named.or(definition.trigger_event.as_ref()).cloned().unwrap_or_default();
            let properties = self.request.trigger.properties.clone();
            self.record_event(&name, &properties);
        }
        self.update_counts();
    }

    fn record_event(&mut self, event: &str, properties: &Map<String, Value>) {
        let now = self.situation.now;
        self.past.add_event(event, properties, now);
        self.counted_at = None;
        if let Some(person) = &mut self.situation.user {
            person.last_seen_at = now;
        }
    }

    /// Updates the user's event counts as of now.
    fn update_counts(&mut self) {
        let now = self.situation.now;
        if let Some(person) = self.situation.user.as_mut().filter(|_| self.counted_at != Some(now)) {
            self.past.apply_to(person, now);
            self.counted_at = Some(now);
        }
    }

    pub fn is_admitted(&self) -> bool {
        let Some(person) = &self.situation.user else { return false };
        let none = Map::new();
        let facts = RunFacts { user: person, trigger: &self.trigger, steps: &none };
        let now = self.situation.now;
        eval::holds_for_event(&self.program.trigger_filter, &self.request.trigger.properties, now)
            && eval::holds(&self.program.entry_rules, &facts, now)
    }

    /// Advances time from one input to the next, until the run has ended and no input remains.
    pub fn run(&mut self) {
        self.handle(Input::Start);
        let mut events = std::mem::take(&mut self.request.events).into_iter().peekable();
        let (mut inputs, mut exit_checks) = (0, 0);
        while inputs < MAX_INPUTS && exit_checks < MAX_EXIT_CHECKS {
            inputs += 1;
            if let Some((name, properties)) = self.tracked.pop_front() {
                self.process_event(&name, &properties);
                continue;
            }
            let due = self.state.timer_at().filter(|_| self.state.status == RunStatus::Waiting);
            let is_answered = self.calls.contains_key(&self.state.wait_seq);
            let due = due.map(|due| if is_answered { self.situation.now } else { due });
            let next = events.peek().map(|event| self.at(event));
            match (due, next) {
                (Some(due), next) if next.is_none_or(|next| due <= next) => {
                    if !is_answered && self.state.due_at.is_some_and(|end| due < end) {
                        (inputs, exit_checks) = (inputs - 1, exit_checks + 1);
                    }
                    self.situation.now = due;
                    self.end_wait();
                }
                (_, Some(next)) => {
                    self.situation.now = next.max(self.situation.now);
                    let Some(event) = events.next() else { return };
                    self.process_event(&event.name, &event.properties);
                }
                (_, None) => return,
            }
        }
        if self.state.status == RunStatus::Waiting {
            self.state.reason = Some(LIMIT_REACHED.to_owned());
        }
    }

    fn process_event(&mut self, name: &str, properties: &Map<String, Value>) {
        let at = self.situation.now;
        self.record_event(name, properties);
        self.handle(Input::Event(Occurrence { id: ids::fresh(at.as_millisecond()), name, properties, at }));
    }

    fn at(&self, event: &SimulatedEvent) -> Timestamp {
        let after = SignedDuration::try_from_secs_f64(event.after).unwrap_or(SignedDuration::ZERO);
        self.started_at.checked_add(after).unwrap_or(Timestamp::MAX)
    }

    fn end_wait(&mut self) {
        let wait_seq = self.state.wait_seq;
        let Some(name) = self.calls.remove(&wait_seq) else { return self.handle(Input::Timer { wait_seq }) };
        let answer = match self.request.answers.get(&name) {
            Some(response) => CallOutcome { status: Some(200), response: response.clone(), error: None },
            None => CallOutcome {
                status: None,
                response: Value::Null,
                error: Some("not_called_in_a_simulation".to_owned()),
            },
        };
        self.handle(Input::CallOutcome { wait_seq, outcome: &answer });
    }

    fn handle(&mut self, input: Input<'_>) {
        self.update_counts();
        let run = Run { id: self.id, started_at: self.started_at, depth: 0, trigger: &self.trigger };
        // Fails only without a user, and a simulation always has one.
        let Ok(moved) = step(self.program, run, &self.state, input, &mut self.situation) else { return };
        let Transition { state, effects, log: marks } = moved;
        self.state = state;
        self.marks.extend(marks);
        for effect in effects {
            let (step, details) = match effect {
                Effect::SetTimer { .. } => continue,
                Effect::Send { channel, template_id, position, .. } => {
                    (position, json!({ "type": "message", "channel": channel.as_str(), "templateId": template_id }))
                }
                Effect::UpdateUser { position, properties } => {
                    // Segment rules may depend on the properties.
                    self.counted_at = None;
                    (position, json!({ "type": "userUpdated", "properties": properties }))
                }
                Effect::TrackEvent { position, name, properties, .. } => {
                    self.tracked.push_back((name.clone(), properties.clone()));
                    (position, json!({ "type": "eventTracked", "event": name, "properties": properties }))
                }
                Effect::StartAutomation { position, automation_id, .. } => {
                    (position, json!({ "type": "automationStarted", "automationId": automation_id }))
                }
                Effect::Call { wait_seq, position, name, url, body } => {
                    self.calls.insert(wait_seq, name);
                    (position, json!({ "type": "webhook", "url": url, "body": body }))
                }
            };
            self.effects.push(EffectView { at: self.situation.now, step, details });
        }
    }
}
