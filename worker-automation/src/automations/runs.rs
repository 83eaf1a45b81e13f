//! Runs within the recording transaction: starts and advances them, and collects their effects.
//!
//! Timers, call results and user activity are applied in the order in which they were accepted.
//! [`automation::journey::step`] decides what a run does next; this module loads its input and collects its effects.

mod dates;
mod heard;
mod outcome;
mod person;
mod programs;
mod start;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use automation::journey::{self, Input, Moved, NeedsPerson, Occurrence, Program, Run, RunStatus, Situation, State};
use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::{Map, Value};
use store_profiles::users::record::PersonKey;
use store_sending::runs::record::{self as runs, Enrolment, RunRow};
use trace::{Kind, Span};
use uuid::Uuid;

use crate::automations::matching::Index;
use crate::ingest::item::{Action, Item};
use crate::record::days::Days;
use crate::record::new_event::NewEvent;
use crate::record::people::People;

pub use outcome::Outcome;
pub use programs::Programs;

type RunKey = (ProjectId, Uuid);

/// The context in which runs are advanced.
pub struct Stage<'a> {
    pub tx: &'a Transaction<'a>,
    pub index: &'a Index,
    pub programs: &'a Programs,
    pub days: &'a Days,
    pub people: &'a mut People,
}

/// An input that may affect runs.
enum Turn<'a> {
    Timer {
        item: &'a Item,
        run: RunKey,
        wait_seq: i32,
    },
    Answer {
        item: &'a Item,
        run: RunKey,
        wait_seq: i32,
        answer: &'a journey::Answer,
    },
    Event {
        event: &'a NewEvent<'a>,
    },
    /// A changed profile.
    Changed {
        item: &'a Item,
        person: PersonKey,
    },
    Start {
        item: &'a Item,
        person: PersonKey,
    },
}

/// A loaded run.
struct Held {
    row: RunRow,
    program: Arc<Program>,
    /// The events that it listens for, as stored in the database.
    before: BTreeMap<String, Option<Timestamp>>,
    had_timer: bool,
    /// Whether its row must be written.
    is_changed: bool,
}

/// The runs of a batch.
pub struct Runs<'a> {
    stage: Stage<'a>,
    held: HashMap<RunKey, Held>,
    /// The loaded runs of each user, oldest first.
    by_person: HashMap<PersonKey, BTreeSet<Uuid>>,
    enrolled: HashMap<Enrolment, i64>,
    /// Number of runs that automations have recently started for each user.
    caused: HashMap<PersonKey, i64>,
    outcome: Outcome,
}

/// Returns the users whose rows must be locked, because a run whose wait has ended may change them.
pub async fn changing(
    tx: &Transaction<'_>,
    programs: &Programs,
    items: &[&Item],
) -> Result<Vec<PersonKey>, StoreError> {
    let keys: BTreeSet<RunKey> = items.iter().filter_map(|item| waiting_run(item)).collect();
    let mut people = Vec::new();
    for (run, automation, version, person) in runs::people(tx, &keys.into_iter().collect::<Vec<_>>()).await? {
        let program = programs.get(tx, run.0, automation, version).await?;
        if program.is_some_and(|program| program.changes_person()) {
            people.push(person);
        }
    }
    Ok(people)
}

/// Returns the run whose wait an item ends.
fn waiting_run(item: &Item) -> Option<RunKey> {
    match item.action {
        Action::Timer { run, .. } | Action::Answer { run, .. } => Some((item.project, run)),
        _ => None,
    }
}

/// New events and receipts of a batch, each in the order of the items.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Events that were not recorded before.
    pub events: &'a [NewEvent<'a>],
    /// Receipts that automations wait for.
    pub receipts: &'a [NewEvent<'a>],
}

/// Applies the items to runs, in order.
pub async fn apply(
    stage: Stage<'_>,
    items: &[&Item],
    observed: Observed<'_>,
    now: Timestamp,
) -> Result<Outcome, StoreError> {
    let turns = turns(&stage, items, observed);
    if turns.is_empty() {
        return Ok(Outcome::default());
    }
    let mut runs = Runs::load(stage, &turns, now).await?;
    for turn in &turns {
        runs.take(turn).await?;
    }
    Ok(runs.finish())
}

/// Returns the inputs that may affect runs; usually there are none.
fn turns<'a>(stage: &Stage<'_>, items: &[&'a Item], observed: Observed<'a>) -> Vec<Turn<'a>> {
    let (mut events, mut receipts) = (observed.events.iter().peekable(), observed.receipts.iter().peekable());
    let mut turns = Vec::new();
    for item in items {
        let is_of = |event: &&NewEvent<'_>| std::ptr::eq(event.item, *item);
        let event = events.next_if(is_of).or_else(|| receipts.next_if(is_of));
        match &item.action {
            Action::Timer { run, wait_seq } => {
                turns.push(Turn::Timer { item, run: (item.project, *run), wait_seq: *wait_seq });
            }
            Action::Answer { run, wait_seq, answer } => {
                turns.push(Turn::Answer { item, run: (item.project, *run), wait_seq: *wait_seq, answer });
            }
            Action::Start { .. } => {
                turns.extend(stage.people.of(item).map(|person| Turn::Start { item, person }));
            }
            Action::Identify { .. } if stage.index.minds_profiles(item.project) => {
                turns.extend(stage.people.of(item).map(|person| Turn::Changed { item, person }));
            }
            _ => {
                let concerns = |event: &&NewEvent<'_>| stage.index.concerns(item.project, event.trigger(), event.name);
                turns.extend(event.filter(concerns).map(|event| Turn::Event { event }));
            }
        }
    }
    turns
}

impl Runs<'_> {
    async fn take(&mut self, turn: &Turn<'_>) -> Result<(), StoreError> {
        match turn {
            Turn::Timer { item, run, wait_seq } => self.go(*run, Input::Timer { wait_seq: *wait_seq }, item).await,
            Turn::Answer { item, run, wait_seq, answer } => {
                self.go(*run, Input::Answer { wait_seq: *wait_seq, answer }, item).await
            }
            Turn::Event { event } => {
                let properties: Map<String, Value> = serde_json::from_str(event.properties).unwrap_or_default();
                let item = event.item;
                let id = item.dedupe.unwrap_or(item.id);
                let occurrence = Occurrence { id, name: event.name, properties: &properties, at: item.timestamp };
                for run in self.listening(event.person, event.name) {
                    self.go(run, Input::Event(occurrence), item).await?;
                }
                for automation in event.starts(self.stage.index) {
                    self.start_by_event(event, occurrence, automation).await?;
                }
                Ok(())
            }
            Turn::Changed { item, person } => {
                self.note_changed(item, *person);
                for run in self.listening(*person, journey::ANYTHING) {
                    self.go(run, Input::Changed, item).await?;
                }
                Ok(())
            }
            Turn::Start { item, person } => self.start_by_item(item, *person).await,
        }
    }

    /// Advances a run. Does nothing if the run no longer exists.
    async fn go(&mut self, key: RunKey, input: Input<'_>, item: &Item) -> Result<(), StoreError> {
        let Some(mut held) = self.held.remove(&key) else { return Ok(()) };
        self.advance(&mut held, input, item).await?;
        self.hold(key, held);
        Ok(())
    }

    async fn advance(&mut self, held: &mut Held, input: Input<'_>, item: &Item) -> Result<(), StoreError> {
        // Continues the item's trace, or else the one that started the run.
        let hop = Span::child(item.trace.or(held.row.trace), "run", Kind::Internal);
        let (project, row) = (held.row.project, &held.row);
        let mut situation = Situation {
            now: item.received,
            active: self.stage.index.is_active(project, row.automation),
            timezone: self.stage.days.timezone(project),
            person: None,
        };
        let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
        let moved = match journey::step(&held.program, run, &row.state, input, &mut situation) {
            Ok(moved) => Some(moved),
            Err(NeedsPerson) => {
                let key = (project, row.user_id);
                situation.person = person::load(&self.stage, key, &held.program, item.received).await?;
                journey::step(&held.program, run, &row.state, input, &mut situation).ok()
            }
        };
        // An erasure removes a user's runs. If one is left, it ends here.
        let moved = moved.unwrap_or_else(|| ended(&row.state, RunStatus::Failed, "user_not_found"));
        let person = (project, row.user_id);
        let written = self.written(person, &moved);
        held.row.trace = hop.context();
        self.took(held, moved, item);
        self.outcome.passed(hop, &held.row);
        if !written.is_empty() {
            self.note_dates(item, person, |key| written.iter().any(|properties| properties.contains_key(key)));
        }
        Ok(())
    }

    /// Applies the result of an input to the run, and collects its effects.
    fn took(&mut self, held: &mut Held, moved: Moved, item: &Item) {
        let row = &mut held.row;
        let was_under_way = row.ended_at.is_none();
        held.is_changed |= moved.state != row.state || !moved.marks.is_empty();
        self.outcome.take(row, moved, item, self.stage.people);
        if was_under_way
            && row.ended_at.is_some()
            && let Some(runs) = self.enrolled.get_mut(&(row.project, row.automation, row.user_id))
        {
            *runs -= 1;
        }
    }

    fn hold(&mut self, key: RunKey, held: Held) {
        let runs = self.by_person.entry((key.0, held.row.user_id)).or_default();
        runs.insert(key.1);
        self.held.insert(key, held);
    }

    fn finish(mut self) -> Outcome {
        for (_, held) in self.held.drain() {
            self.outcome.keep(held);
        }
        self.outcome
    }
}

/// Returns the result that ends a run at its current step.
fn ended(state: &State, status: RunStatus, reason: &str) -> Moved {
    let state = State { status, due_at: None, reason: Some(reason.to_owned()), ..state.clone() };
    Moved { state, effects: Vec::new(), marks: Vec::new() }
}
