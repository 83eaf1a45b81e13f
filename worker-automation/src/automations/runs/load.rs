//! Loads the runs that a batch's inputs may affect, with set-based queries.

use std::collections::{BTreeSet, HashMap, HashSet};

use automation::Reentry;
use automation::journey::{self, MAX_CHAIN_DEPTH, Run, RunStatus};
use database::StoreError;
use jiff::Timestamp;
use store_profiles::users::record::ProjectUserId;
use store_sending::runs::listeners;
use store_sending::runs::record::{self as runs, Enrolment, RunRow};

use super::{BatchInput, LoadedRun, RunContext, RunEffects, RunKey, Runs};
use crate::automations::runs::start::CHAIN_WINDOW;
use crate::ingest::item::Action;

impl<'a> Runs<'a> {
    pub(super) async fn load(
        ctx: RunContext<'a>,
        inputs: &[BatchInput<'_>],
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut keys: BTreeSet<RunKey> = BTreeSet::new();
        let mut listened: HashSet<(ProjectUserId, &str)> = HashSet::new();
        let mut wanted: BTreeSet<Enrolment> = BTreeSet::new();
        let mut chained: BTreeSet<ProjectUserId> = BTreeSet::new();
        let mut since = None;
        for input in inputs {
            match input {
                BatchInput::Timer { run, .. } | BatchInput::CallOutcome { run, .. } => {
                    keys.insert(*run);
                }
                BatchInput::Event { event } => {
                    let listeners = ctx.index.listeners(event.user.0, event.name);
                    listened.extend(listeners.by_name.then_some((event.user, event.name)));
                    listened.extend(listeners.any_event.then_some((event.user, journey::ANY_CHANGE)));
                    let mut starts = event.starts(ctx.index).peekable();
                    if event.item.depth > 0 && starts.peek().is_some() {
                        chained.insert(event.user);
                        since = since.max(Some(event.item.received));
                    }
                    // With unlimited re-entry, earlier runs do not matter.
                    let limited = starts.filter(|automation| automation.program.reentry != Reentry::Always);
                    wanted.extend(limited.map(|automation| (event.user.0, automation.id, event.user.1)));
                }
                BatchInput::ProfileChanged { user, .. } => {
                    let listeners = ctx.index.listeners(user.0, journey::ANY_CHANGE);
                    listened.extend(listeners.any_event.then_some((*user, journey::ANY_CHANGE)));
                }
                BatchInput::Start { item, user } => {
                    if let Action::Start { automation, .. } = &item.action {
                        wanted.insert((user.0, *automation, user.1));
                    }
                    if item.depth > 0 {
                        chained.insert(*user);
                        since = since.max(Some(item.received));
                    }
                }
            }
        }
        let mut listened: Vec<(ProjectUserId, &str)> = listened.into_iter().collect();
        listened.sort_unstable();
        keys.extend(listeners::listening(ctx.tx, &listened).await?);
        let rows = runs::lock(ctx.tx, &keys.into_iter().collect::<Vec<_>>()).await?;
        let wanted: Vec<Enrolment> = wanted.into_iter().collect();
        let enrolled = runs::enrolled(ctx.tx, &wanted).await?.into_iter().collect();
        let since = since.unwrap_or_default();
        let since = since.checked_sub(CHAIN_WINDOW).unwrap_or(since);
        let chained = runs::caused_since(ctx.tx, &chained.into_iter().collect::<Vec<_>>(), since).await?;
        let mut runs = Self {
            ctx,
            loaded: HashMap::new(),
            by_user: HashMap::new(),
            enrolled,
            chained: chained.into_iter().collect(),
            effects: RunEffects::default(),
        };
        for row in rows {
            runs.load_row(row, now).await?;
        }
        Ok(runs)
    }

    async fn load_row(&mut self, mut row: RunRow, now: Timestamp) -> Result<(), StoreError> {
        let ctx = &self.ctx;
        let program = ctx.programs.get(ctx.tx, row.project, row.automation, row.version).await?;
        let Some(program) = program else {
            if !row.state.status.has_ended() {
                row.state.status = RunStatus::Failed;
                row.state.due_at = None;
                row.state.reason = Some("version_unknown".to_owned());
                self.effects.fail(row, now);
            }
            return Ok(());
        };
        let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
        let before = journey::event_subscriptions(&program, run, &row.state);
        let had_timer = row.state.status == RunStatus::Waiting;
        let key = (row.project, row.id);
        self.insert(key, LoadedRun { row, program, before, had_timer, is_changed: false });
        Ok(())
    }

    /// Returns the user's runs that listen for an event now, oldest first.
    pub(super) fn listening(&self, user: ProjectUserId, event: &str) -> Vec<RunKey> {
        let is_listening = |id: &&uuid::Uuid| {
            let loaded = self.loaded.get(&(user.0, **id));
            loaded.is_some_and(|loaded| {
                let row = &loaded.row;
                let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
                let listens = journey::event_subscriptions(&loaded.program, run, &row.state);
                listens.contains_key(event) || listens.contains_key(journey::ANY_CHANGE)
            })
        };
        let runs = self.by_user.get(&user);
        runs.into_iter().flatten().filter(is_listening).map(|id| (user.0, *id)).collect()
    }

    /// Counts and permits another run of a user that an automation starts at `depth`. Returns the reason if it is
    /// refused.
    pub(super) fn permit_chained_run(&mut self, user: ProjectUserId, depth: i16) -> Result<(), &'static str> {
        if depth == 0 {
            return Ok(());
        }
        let chained = self.chained.entry(user).or_default();
        *chained += 1;
        if depth > MAX_CHAIN_DEPTH || *chained > super::start::MAX_CHAINED_RUNS { Err("loop") } else { Ok(()) }
    }
}
