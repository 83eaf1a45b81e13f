//! Loads the runs that a batch's inputs may affect, with set-based queries.

use std::collections::{BTreeSet, HashMap, HashSet};

use automation::Reentry;
use automation::journey::{self, MOST_DEEP, Run, RunStatus};
use database::StoreError;
use jiff::Timestamp;
use store_profiles::users::record::PersonKey;
use store_sending::runs::listeners;
use store_sending::runs::record::{self as runs, Enrolment, RunRow};

use super::{Held, Outcome, RunKey, Runs, Stage, Turn};
use crate::automations::runs::start::SHORT;
use crate::ingest::item::Action;

impl<'a> Runs<'a> {
    pub(super) async fn load(stage: Stage<'a>, turns: &[Turn<'_>], now: Timestamp) -> Result<Self, StoreError> {
        let mut keys: BTreeSet<RunKey> = BTreeSet::new();
        let mut heard: HashSet<(PersonKey, &str)> = HashSet::new();
        let mut wanted: BTreeSet<Enrolment> = BTreeSet::new();
        let mut caused: BTreeSet<PersonKey> = BTreeSet::new();
        let mut since = None;
        for turn in turns {
            match turn {
                Turn::Timer { run, .. } | Turn::Answer { run, .. } => {
                    keys.insert(*run);
                }
                Turn::Event { event } => {
                    let listeners = stage.index.listeners(event.person.0, event.name);
                    heard.extend(listeners.by_name.then_some((event.person, event.name)));
                    heard.extend(listeners.of_anything.then_some((event.person, journey::ANYTHING)));
                    let mut starts = event.starts(stage.index).peekable();
                    if event.item.depth > 0 && starts.peek().is_some() {
                        caused.insert(event.person);
                        since = since.max(Some(event.item.received));
                    }
                    // With unlimited re-entry, earlier runs do not matter.
                    let asks = starts.filter(|automation| automation.program.reentry != Reentry::Always);
                    wanted.extend(asks.map(|automation| (event.person.0, automation.id, event.person.1)));
                }
                Turn::Changed { person, .. } => {
                    let listeners = stage.index.listeners(person.0, journey::ANYTHING);
                    heard.extend(listeners.of_anything.then_some((*person, journey::ANYTHING)));
                }
                Turn::Start { item, person } => {
                    if let Action::Start { automation, .. } = &item.action {
                        wanted.insert((person.0, *automation, person.1));
                    }
                    if item.depth > 0 {
                        caused.insert(*person);
                        since = since.max(Some(item.received));
                    }
                }
            }
        }
        let mut heard: Vec<(PersonKey, &str)> = heard.into_iter().collect();
        heard.sort_unstable();
        keys.extend(listeners::hearing(stage.tx, &heard).await?);
        let rows = runs::lock(stage.tx, &keys.into_iter().collect::<Vec<_>>()).await?;
        let wanted: Vec<Enrolment> = wanted.into_iter().collect();
        let enrolled = runs::enrolled(stage.tx, &wanted).await?.into_iter().collect();
        let since = since.unwrap_or_default();
        let since = since.checked_sub(SHORT).unwrap_or(since);
        let caused = runs::caused_since(stage.tx, &caused.into_iter().collect::<Vec<_>>(), since).await?;
        let mut loaded = Self {
            stage,
            held: HashMap::new(),
            by_person: HashMap::new(),
            enrolled,
            caused: caused.into_iter().collect(),
            outcome: Outcome::default(),
        };
        for row in rows {
            loaded.found(row, now).await?;
        }
        Ok(loaded)
    }

    async fn found(&mut self, mut row: RunRow, now: Timestamp) -> Result<(), StoreError> {
        let stage = &self.stage;
        let program = stage.programs.get(stage.tx, row.project, row.automation, row.version).await?;
        let Some(program) = program else {
            if !row.state.status.has_ended() {
                row.state.status = RunStatus::Failed;
                row.state.due_at = None;
                row.state.reason = Some("version_unknown".to_owned());
                self.outcome.fail(row, now);
            }
            return Ok(());
        };
        let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
        let before = journey::listens(&program, run, &row.state);
        let had_timer = row.state.status == RunStatus::Waiting;
        let key = (row.project, row.id);
        self.hold(key, Held { row, program, before, had_timer, is_changed: false });
        Ok(())
    }

    /// Returns the user's runs that listen for an event now, oldest first.
    pub(super) fn listening(&self, person: PersonKey, event: &str) -> Vec<RunKey> {
        let hears = |id: &&uuid::Uuid| {
            let held = self.held.get(&(person.0, **id));
            held.is_some_and(|held| {
                let row = &held.row;
                let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
                let listens = journey::listens(&held.program, run, &row.state);
                listens.contains_key(event) || listens.contains_key(journey::ANYTHING)
            })
        };
        let runs = self.by_person.get(&person);
        runs.into_iter().flatten().filter(hears).map(|id| (person.0, *id)).collect()
    }

    /// Counts and permits another run of a user that an automation starts at `depth`. Returns the reason if it is
    /// refused.
    pub(super) fn may_cause(&mut self, person: PersonKey, depth: i16) -> Result<(), &'static str> {
        if depth == 0 {
            return Ok(());
        }
        let caused = self.caused.entry(person).or_default();
        *caused += 1;
        if depth > MOST_DEEP || *caused > super::start::MOST_CAUSED { Err("loop") } else { Ok(()) }
    }
}
