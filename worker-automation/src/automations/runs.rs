//! Runs within the recording transaction: starts and advances them, and collects their effects.
//!
//! Timers, call results and user activity are applied in the order in which they were accepted.
//! [`automation::journey::step`] decides what a run does next; this module loads its input and collects its effects.

mod dates;
mod effects;
mod load;
mod programs;
mod start;
mod user;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use automation::journey::{
    self, Input, Occurrence, Program, Run, RunStatus, Situation, State, Transition, UserRequired,
};
use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::{Map, Value};
use store_profiles::users::record::ProjectUserId;
use store_sending::runs::record::{self as runs, Enrolment, RunRow};
use trace::{Kind, Span};
use uuid::Uuid;

use crate::automations::matching::Index;
use crate::ingest::item::{Action, Item};
use crate::record::batch_users::BatchUsers;
use crate::record::daily_counts::TimezoneCache;
use crate::record::new_event::NewEvent;

pub use effects::RunEffects;
pub use programs::Programs;

type RunKey = (ProjectId, Uuid);

/// The context in which runs are advanced.
pub struct RunContext<'a> {
    pub tx: &'a Transaction<'a>,
    pub index: &'a Index,
    pub programs: &'a Programs,
    pub timezones: &'a TimezoneCache,
    pub users: &'a mut BatchUsers,
}

/// An input that may affect runs.
enum BatchInput<'a> {
    Timer {
        item: &'a Item,
        run: RunKey,
        wait_seq: i32,
    },
    CallOutcome {
        item: &'a Item,
        run: RunKey,
        wait_seq: i32,
        answer: &'a journey::CallOutcome,
    },
    Event {
        event: &'a NewEvent<'a>,
    },
    /// A changed profile.
    ProfileChanged {
        item: &'a Item,
        user: ProjectUserId,
    },
    Start {
        item: &'a Item,
        user: ProjectUserId,
    },
}

/// A loaded run.
struct LoadedRun {
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
    ctx: RunContext<'a>,
    loaded: HashMap<RunKey, LoadedRun>,
    /// The loaded runs of each user, oldest first.
    by_user: HashMap<ProjectUserId, BTreeSet<Uuid>>,
    enrolled: HashMap<Enrolment, i64>,
    /// Number of runs that automations have recently started for each user.
    chained: HashMap<ProjectUserId, i64>,
    effects: RunEffects,
}

/// Returns the users whose rows must be locked, because a run whose wait has ended may change them.
pub async fn users_to_lock(
    tx: &Transaction<'_>,
    programs: &Programs,
    items: &[&Item],
) -> Result<Vec<ProjectUserId>, StoreError> {
    let keys: BTreeSet<RunKey> = items.iter().filter_map(|item| waiting_run(item)).collect();
    let mut users = Vec::new();
    for (run, automation, version, user) in runs::users_of(tx, &keys.into_iter().collect::<Vec<_>>()).await? {
        let program = programs.get(tx, run.0, automation, version).await?;
        if program.is_some_and(|program| program.updates_user()) {
            users.push(user);
        }
    }
    Ok(users)
}

/// Returns the run whose wait an item ends.
fn waiting_run(item: &Item) -> Option<RunKey> {
    match item.action {
        Action::Timer { run, .. } | Action::CallOutcome { run, .. } => Some((item.project, run)),
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
    ctx: RunContext<'_>,
    items: &[&Item],
    observed: Observed<'_>,
    now: Timestamp,
) -> Result<RunEffects, StoreError> {
    let inputs = relevant_inputs(&ctx, items, observed);
    if inputs.is_empty() {
        return Ok(RunEffects::default());
    }
    let mut runs = Runs::load(ctx, &inputs, now).await?;
    for input in &inputs {
        runs.apply_input(input).await?;
    }
    Ok(runs.finish())
}

/// Returns the inputs that may affect runs; usually there are none.
fn relevant_inputs<'a>(ctx: &RunContext<'_>, items: &[&'a Item], observed: Observed<'a>) -> Vec<BatchInput<'a>> {
    let (mut events, mut receipts) = (observed.events.iter().peekable(), observed.receipts.iter().peekable());
    let mut inputs = Vec::new();
    for item in items {
        let is_of = |event: &&NewEvent<'_>| std::ptr::eq(event.item, *item);
        let event = events.next_if(is_of).or_else(|| receipts.next_if(is_of));
        match &item.action {
            Action::Timer { run, wait_seq } => {
                inputs.push(BatchInput::Timer { item, run: (item.project, *run), wait_seq: *wait_seq });
            }
            Action::CallOutcome { run, wait_seq, answer } => {
                inputs.push(BatchInput::CallOutcome { item, run: (item.project, *run), wait_seq: *wait_seq, answer });
            }
            Action::Start { .. } => {
                inputs.extend(ctx.users.of(item).map(|user| BatchInput::Start { item, user }));
            }
            Action::Identify { .. } if ctx.index.depends_on_profiles(item.project) => {
                inputs.extend(ctx.users.of(item).map(|user| BatchInput::ProfileChanged { item, user }));
            }
            _ => {
                let concerns = |event: &&NewEvent<'_>| ctx.index.concerns(item.project, event.trigger(), event.name);
                inputs.extend(event.filter(concerns).map(|event| BatchInput::Event { event }));
            }
        }
    }
    inputs
}

impl Runs<'_> {
    async fn apply_input(&mut self, input: &BatchInput<'_>) -> Result<(), StoreError> {
        match input {
            BatchInput::Timer { item, run, wait_seq } => {
                self.advance_by_key(*run, Input::Timer { wait_seq: *wait_seq }, item).await
            }
            BatchInput::CallOutcome { item, run, wait_seq, answer } => {
                self.advance_by_key(*run, Input::CallOutcome { wait_seq: *wait_seq, outcome: answer }, item).await
            }
            BatchInput::Event { event } => {
                let properties: Map<String, Value> = serde_json::from_str(event.properties).unwrap_or_default();
                let item = event.item;
                let id = item.dedupe.unwrap_or(item.id);
                let occurrence = Occurrence { id, name: event.name, properties: &properties, at: item.timestamp };
                for run in self.listening(event.user, event.name) {
                    self.advance_by_key(run, Input::Event(occurrence), item).await?;
                }
                for automation in event.starts(self.ctx.index) {
                    self.start_by_event(event, occurrence, automation).await?;
                }
                Ok(())
            }
            BatchInput::ProfileChanged { item, user } => {
                self.reschedule_dates(item, *user);
                for run in self.listening(*user, journey::ANY_CHANGE) {
                    self.advance_by_key(run, Input::ProfileChanged, item).await?;
                }
                Ok(())
            }
            BatchInput::Start { item, user } => self.start_by_item(item, *user).await,
        }
    }

    /// Advances a run. Does nothing if the run no longer exists.
    async fn advance_by_key(&mut self, key: RunKey, input: Input<'_>, item: &Item) -> Result<(), StoreError> {
        let Some(mut loaded) = self.loaded.remove(&key) else { return Ok(()) };
        self.advance(&mut loaded, input, item).await?;
        self.insert(key, loaded);
        Ok(())
    }

    async fn advance(&mut self, loaded: &mut LoadedRun, input: Input<'_>, item: &Item) -> Result<(), StoreError> {
        // Continues the item's trace, or else the one that started the run.
        let span = Span::child(item.trace.or(loaded.row.trace), "run", Kind::Internal);
        let (project, row) = (loaded.row.project, &loaded.row);
        let mut situation = Situation {
            now: item.received,
            active: self.ctx.index.is_active(project, row.automation),
            timezone: self.ctx.timezones.timezone(project),
            user: None,
        };
        let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
        let moved = match journey::step(&loaded.program, run, &row.state, input, &mut situation) {
            Ok(moved) => Some(moved),
            Err(UserRequired) => {
                let key = (project, row.user_id);
                situation.user = user::load(&self.ctx, key, &loaded.program, item.received).await?;
                journey::step(&loaded.program, run, &row.state, input, &mut situation).ok()
            }
        };
        // An erasure removes a user's runs. If one is left, it ends here.
        let moved = moved.unwrap_or_else(|| ended(&row.state, RunStatus::Failed, "user_not_found"));
        let user = (project, row.user_id);
        let written = self.written_properties(user, &moved);
        loaded.row.trace = span.context();
        self.apply_step(loaded, moved, item);
        self.effects.add_span(span, &loaded.row);
        if !written.is_empty() {
            self.schedule_dates(item, user, |key| written.iter().any(|properties| properties.contains_key(key)));
        }
        Ok(())
    }

    /// Applies the result of an input to the run, and collects its effects.
    fn apply_step(&mut self, loaded: &mut LoadedRun, moved: Transition, item: &Item) {
        let row = &mut loaded.row;
        let was_under_way = row.ended_at.is_none();
        loaded.is_changed |= moved.state != row.state || !moved.log.is_empty();
        self.effects.take(row, moved, item, self.ctx.users);
        if was_under_way
            && row.ended_at.is_some()
            && let Some(runs) = self.enrolled.get_mut(&(row.project, row.automation, row.user_id))
        {
            *runs -= 1;
        }
    }

    fn insert(&mut self, key: RunKey, loaded: LoadedRun) {
        let runs = self.by_user.entry((key.0, loaded.row.user_id)).or_default();
        runs.insert(key.1);
        self.loaded.insert(key, loaded);
    }

    fn finish(mut self) -> RunEffects {
        for (_, loaded) in self.loaded.drain() {
            self.effects.finish_run(loaded);
        }
        self.effects
    }
}

/// Returns the result that ends a run at its current step.
fn ended(state: &State, status: RunStatus, reason: &str) -> Transition {
    let state = State { status, due_at: None, reason: Some(reason.to_owned()), ..state.clone() };
    Transition { state, effects: Vec::new(), log: Vec::new() }
}
