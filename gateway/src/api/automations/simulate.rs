//! A dry run: the way that a person would take, with nothing sent, written or called.

mod input;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::ids;
use shared::journey::{
    Answer, Effect, Input, Mark, Moved, Occurrence, Person, Program, Run, RunFacts, RunStatus, Situation, State, step,
};
use shared::rule::{self, eval};
use shared::store::segments::{evaluate, person};
use shared::store::users::read;
use shared::store::{automations, projects};
use uuid::Uuid;

use super::{path, runs, shape};
use crate::api::rendering;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::respond::{Reply, ok};
use input::{Happening, Simulation};

/// Turns of one simulation; an automation has 100 steps, and as many events may be given.
const TURNS: usize = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SimulationView {
    /// Whether the trigger's filter and the entry rules let the person in.
    admitted: bool,
    status: Option<&'static str>,
    reason: Option<String>,
    converted: bool,
    path: Vec<runs::MarkView>,
    /// What would be done.
    effects: Vec<EffectView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EffectView {
    #[serde(serialize_with = "shape::time")]
    at: Timestamp,
    step: String,
    #[serde(flatten)]
    what: Value,
}

/// `POST /automations/:id/simulate`
pub async fn simulate(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path::id(segment, "automation")?;
    let asked = input::simulation(&cx.read_json(body::MAX_BYTES).await?)?;
    let db = cx.database().await?;
    let automation = automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let program = Program::compile(&automation.definition).map_err(ApiError::Internal)?;
    let now = cx.app.clock.now();
    let rules = program.person_rules();
    let person: Person = match &asked.user_id {
        Some(named) => {
            let user = read::find(&db, cx.project, named).await?;
            let user = user.ok_or_else(|| ApiError::invalid("userId", "no such user in this project"))?;
            let segments = evaluate::definitions(&db, cx.project, &rule::segments(rules)).await?;
            person::load(&db, cx.project, user, (rules, &segments), now).await?.into()
        }
        None => nobody(now),
    };
    let timezone = projects::timezone(&db, cx.project).await?;
    drop(db);
    let thought_through = move || {
        let mut ride = Ride::new(&program, asked, person, timezone, now);
        let admitted = ride.is_admitted();
        if admitted {
            ride.run();
        }
        let Ride { state, marks, effects, .. } = ride;
        SimulationView {
            admitted,
            status: admitted.then(|| state.status.as_str()),
            reason: state.reason,
            converted: state.converted_at.is_some(),
            path: runs::way(marks, Some(&automation.definition), &HashMap::new()),
            effects,
        }
    };
    ok(&rendering::rendered(cx, thought_through).await?)
}

/// Somebody of whom nothing is known.
fn nobody(now: Timestamp) -> Person {
    Person {
        id: Uuid::nil(),
        external_id: None,
        anonymous_id: None,
        email: None,
        name: None,
        properties: Map::new(),
        created_at: now,
        last_seen_at: now,
        platforms: BTreeSet::new(),
        stats: Vec::new(),
        segments: HashSet::new(),
    }
}

/// A run that is only thought through.
struct Ride<'a> {
    program: &'a Program,
    asked: Simulation,
    situation: Situation,
    id: Uuid,
    started_at: Timestamp,
    trigger: Value,
    state: State,
    marks: Vec<Mark>,
    effects: Vec<EffectView>,
    /// Calls that wait for the answer that was given, by the number of the wait.
    calls: BTreeMap<i32, String>,
}

impl<'a> Ride<'a> {
    fn new(program: &'a Program, asked: Simulation, mut person: Person, timezone: TimeZone, now: Timestamp) -> Self {
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
        }
    }

    fn is_admitted(&self) -> bool {
        let Some(person) = &self.situation.person else { return false };
        let none = Map::new();
        let facts = RunFacts { person, trigger: &self.trigger, steps: &none };
        let now = self.situation.now;
        eval::holds_for_event(&self.program.trigger_filter, &self.asked.trigger.properties, now)
            && eval::holds(&self.program.entry_rules, &facts, now)
    }

    /// Lets time pass from one thing to the next, until the run has ended and nothing more happens.
    fn run(&mut self) {
        self.meet(Input::Start);
        let mut events = std::mem::take(&mut self.asked.events).into_iter().peekable();
        for _ in 0..TURNS {
            let due = self.state.due_at.filter(|_| self.state.status == RunStatus::Waiting);
            let due =
                due.map(|due| if self.calls.contains_key(&self.state.wait_seq) { self.situation.now } else { due });
            let next = events.peek().map(|event| self.at(event));
            match (due, next) {
                (Some(due), next) if next.is_none_or(|next| due <= next) => {
                    self.situation.now = due;
                    self.end_wait();
                }
                (_, Some(next)) => {
                    self.situation.now = next.max(self.situation.now);
                    let Some(event) = events.next() else { return };
                    let id = ids::fresh(self.situation.now.as_millisecond());
                    let (name, properties) = (event.name.as_str(), &event.properties);
                    self.meet(Input::Event(Occurrence { id, name, properties, at: self.situation.now }));
                }
                (_, None) => return,
            }
        }
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
        let run = Run { id: self.id, started_at: self.started_at, depth: 0, trigger: &self.trigger };
        // The person is there.
        let Ok(moved) = step(self.program, run, &self.state, input, &mut self.situation) else { return };
        let Moved { state, effects, marks } = moved;
        self.state = state;
        self.marks.extend(marks);
        for effect in effects {
            let (step, what) = match effect {
                Effect::SetTimer { .. } => continue,
                Effect::Send { channel, template_id, position } => {
                    (position, json!({ "type": "message", "channel": channel.as_str(), "templateId": template_id }))
                }
                Effect::UpdateUser { position, properties } => {
                    (position, json!({ "type": "userUpdated", "properties": properties }))
                }
                Effect::TrackEvent { position, name, properties, .. } => {
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
