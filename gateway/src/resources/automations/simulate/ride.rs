//! Executes a simulated run: time advances immediately, and effects are recorded instead of applied.

use std::collections::{BTreeMap, VecDeque};

use automation::journey::{
    Answer, Effect, Input, Mark, Moved, Occurrence, Person, Program, Run, RunFacts, RunStatus, Situation, State, step,
};
use automation::{Definition, TriggerType};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kernel::ids;
use rules::eval;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::segments::person::past::Past;
use uuid::Uuid;

use super::input::{Happening, Simulation};
use crate::resources::time_format;

/// Limits per simulation: inputs, and intermediate checks of exit rules. An automation has at most 100 steps, and a
/// request at most 100 events.
const TURNS: usize = 1_000;
const LOOKS: usize = 1_000;
const TOO_LONG: &str = "simulated_no_further";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EffectView {
    #[serde(serialize_with = "time_format::time")]
    at: Timestamp,
    step: String,
    #[serde(flatten)]
    what: Value,
}

/// A simulated run.
pub(super) struct Ride<'a> {
    program: &'a Program,
    asked: Simulation,
    situation: Situation,
    id: Uuid,
    started_at: Timestamp,
    trigger: Value,
    pub state: State,
    pub marks: Vec<Mark>,
    pub effects: Vec<EffectView>,
    /// Pending webhook calls: step names by wait number. Each is answered from the request.
    calls: BTreeMap<i32, String>,
    /// The user's event history, including simulated events.
    past: Past,
    /// Time for which the user's event counts were last computed; `None` if they must be recomputed.
    told: Option<Timestamp>,
    /// Events tracked by steps and not yet processed.
    tracked: VecDeque<(String, Map<String, Value>)>,
}

impl<'a> Ride<'a> {
    pub fn new(
        program: &'a Program,
        asked: Simulation,
        (mut person, past): (Person, Past),
        timezone: TimeZone,
        now: Timestamp,
    ) -> Self {
        person.patch(&asked.properties);
        let id = ids::fresh(now.as_millisecond());
        let trigger = &asked.trigger;
        let trigger = Occurrence { id, name: &trigger.name, properties: &trigger.properties, at: now }.shown();
        Self {
            program,
            asked,
            situation: Situation { now, active: true, timezone, person: Some(person) },
            id,
            started_at: now,
            trigger,
            state: State::at_start(),
            marks: Vec::new(),
            effects: Vec::new(),
            calls: BTreeMap::new(),
            past,
            told: None,
            tracked: VecDeque::new(),
        }
    }

    /// Records the trigger event in the user's history, since the user performed it.
    pub fn note_trigger(&mut self, definition: &Definition) {
        if matches!(definition.trigger_type, TriggerType::Event | TriggerType::Webhook) {
            let named = Some(&self.asked.trigger.name).filter(|name| !name.is_empty());
            let name = named.or(definition.trigger_event.as_ref()).cloned().unwrap_or_default();
            let properties = self.asked.trigger.properties.clone();
            self.does(&name, &properties);
        }
        self.remember();
    }

    fn does(&mut self, event: &str, properties: &Map<String, Value>) {
        let now = self.situation.now;
        self.past.take(event, properties, now);
        self.told = None;
        if let Some(person) = &mut self.situation.person {
            person.last_seen_at = now;
        }
    }

    /// Updates the user's event counts as of now.
    fn remember(&mut self) {
        let now = self.situation.now;
        if let Some(person) = self.situation.person.as_mut().filter(|_| self.told != Some(now)) {
            self.past.tell(person, now);
            self.told = Some(now);
        }
    }

    pub fn is_admitted(&self) -> bool {
        let Some(person) = &self.situation.person else { return false };
        let none = Map::new();
        let facts = RunFacts { person, trigger: &self.trigger, steps: &none };
        let now = self.situation.now;
        eval::holds_for_event(&self.program.trigger_filter, &self.asked.trigger.properties, now)
            && eval::holds(&self.program.entry_rules, &facts, now)
    }

    /// Advances time from one input to the next, until the run has ended and no input remains.
    pub fn run(&mut self) {
        self.meet(Input::Start);
        let mut events = std::mem::take(&mut self.asked.events).into_iter().peekable();
        let (mut turns, mut looks) = (0, 0);
        while turns < TURNS && looks < LOOKS {
            turns += 1;
            if let Some((name, properties)) = self.tracked.pop_front() {
                self.happens(&name, &properties);
                continue;
            }
            let due = self.state.timer_at().filter(|_| self.state.status == RunStatus::Waiting);
            let is_answered = self.calls.contains_key(&self.state.wait_seq);
            let due = due.map(|due| if is_answered { self.situation.now } else { due });
            let next = events.peek().map(|event| self.at(event));
            match (due, next) {
                (Some(due), next) if next.is_none_or(|next| due <= next) => {
                    if !is_answered && self.state.due_at.is_some_and(|end| due < end) {
                        (turns, looks) = (turns - 1, looks + 1);
                    }
                    self.situation.now = due;
                    self.end_wait();
                }
                (_, Some(next)) => {
                    self.situation.now = next.max(self.situation.now);
                    let Some(event) = events.next() else { return };
                    self.happens(&event.name, &event.properties);
                }
                (_, None) => return,
            }
        }
        if self.state.status == RunStatus::Waiting {
            self.state.reason = Some(TOO_LONG.to_owned());
        }
    }

    fn happens(&mut self, name: &str, properties: &Map<String, Value>) {
        let at = self.situation.now;
        self.does(name, properties);
        self.meet(Input::Event(Occurrence { id: ids::fresh(at.as_millisecond()), name, properties, at }));
    }

    fn at(&self, event: &Happening) -> Timestamp {
        let after = SignedDuration::try_from_secs_f64(event.after).unwrap_or(SignedDuration::ZERO);
        self.started_at.checked_add(after).unwrap_or(Timestamp::MAX)
    }

    fn end_wait(&mut self) {
        let wait_seq = self.state.wait_seq;
        let Some(name) = self.calls.remove(&wait_seq) else { return self.meet(Input::Timer { wait_seq }) };
        let answer = match self.asked.answers.get(&name) {
            Some(response) => Answer { status: Some(200), response: response.clone(), error: None },
            None => {
                Answer { status: None, response: Value::Null, error: Some("not_called_in_a_simulation".to_owned()) }
            }
        };
        self.meet(Input::Answer { wait_seq, answer: &answer });
    }

    fn meet(&mut self, input: Input<'_>) {
        self.remember();
        let run = Run { id: self.id, started_at: self.started_at, depth: 0, trigger: &self.trigger };
        // Fails only without a user, and a simulation always has one.
        let Ok(moved) = step(self.program, run, &self.state, input, &mut self.situation) else { return };
        let Moved { state, effects, marks } = moved;
        self.state = state;
        self.marks.extend(marks);
        for effect in effects {
            let (step, what) = match effect {
                Effect::SetTimer { .. } => continue,
                Effect::Send { channel, template_id, position, .. } => {
                    (position, json!({ "type": "message", "channel": channel.as_str(), "templateId": template_id }))
                }
                Effect::UpdateUser { position, properties } => {
                    // Segment rules may depend on the properties.
                    self.told = None;
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
            self.effects.push(EffectView { at: self.situation.now, step, what });
        }
    }
}
