//! Starts runs: for events, for other automations, and for dates.

use std::collections::BTreeMap;

use automation::Reentry;
use automation::journey::{Input, Occurrence, RunFacts, RunStatus, State};
use database::StoreError;
use jiff::SignedDuration;
use kernel::ids;
use rules::{Rule, eval};
use serde_json::{Map, Value};
use store_profiles::users::record::ProjectUserId;
use store_sending::runs::record::RunRow;

use super::{LoadedRun, Runs, user};
use crate::automations::matching::Startable;
use crate::ingest::item::{Action, Item};
use crate::record::new_event::NewEvent;

/// Maximum number of runs that automations may start for one user within [`CHAIN_WINDOW`].
pub(super) const MAX_CHAINED_RUNS: i64 = 100;
pub(super) const CHAIN_WINDOW: SignedDuration = SignedDuration::from_hours(1);

fn may_enter(reentry: Reentry, under_way: Option<i64>) -> bool {
    match reentry {
        Reentry::Once => under_way.is_none(),
        Reentry::AfterExit => under_way.is_none_or(|runs| runs == 0),
        Reentry::Always => true,
    }
}

impl Runs<'_> {
    pub(super) async fn start_by_event(
        &mut self,
        event: &NewEvent<'_>,
        occurrence: Occurrence<'_>,
        automation: &Startable,
    ) -> Result<(), StoreError> {
        let filter = &automation.program.trigger_filter;
        if !eval::holds_for_event(filter, occurrence.properties, event.item.received) {
            return Ok(());
        }
        self.start(event.item, event.user, automation, occurrence.shown()).await
    }

    /// Starts a run for another automation or a date. Does nothing if the automation is no longer active.
    pub(super) async fn start_by_item(&mut self, item: &Item, user: ProjectUserId) -> Result<(), StoreError> {
        let Action::Start { automation, trigger, date } = &item.action else { return Ok(()) };
        let Some(automation) = self.ctx.index.get(user.0, *automation) else { return Ok(()) };
        let trigger = match date {
            None => Some(Value::Object(trigger.clone())),
            Some(date) => self.date_trigger(item, user, automation, *date).await?,
        };
        match trigger {
            Some(trigger) => self.start(item, user, automation, trigger).await,
            None => Ok(()),
        }
    }

    async fn start(
        &mut self,
        item: &Item,
        user: ProjectUserId,
        automation: &Startable,
        trigger: Value,
    ) -> Result<(), StoreError> {
        let enrolment = (user.0, automation.id, user.1);
        if !may_enter(automation.program.reentry, self.enrolled.get(&enrolment).copied())
            || !self.admits(user, automation, &trigger, item).await?
        {
            return Ok(());
        }
        let row = RunRow {
            project: user.0,
            id: ids::timed_for(item.received.as_millisecond(), &[automation.id.as_bytes(), item.id.as_bytes()]),
            automation: automation.id,
            version: automation.version,
            user_id: user.1,
            partition: item.partition,
            depth: item.depth,
            context: trigger,
            state: State::at_start(),
            started_at: item.received,
            ended_at: None,
            marks: Vec::new(),
            trace: item.trace,
            is_new: true,
        };
        self.effects.entered(&row);
        let (key, program) = ((row.project, row.id), automation.program.clone());
        let mut loaded = LoadedRun { row, program, before: BTreeMap::new(), had_timer: false, is_changed: true };
        *self.enrolled.entry(enrolment).or_default() += 1;
        match self.permit_chained_run(user, item.depth) {
            Ok(()) => self.advance(&mut loaded, Input::Start, item).await?,
            Err(reason) => {
                let moved = super::ended(&loaded.row.state, RunStatus::Exited, reason);
                self.apply_step(&mut loaded, moved, item);
            }
        }
        self.insert(key, loaded);
        Ok(())
    }

    /// Returns whether the entry rules hold.
    async fn admits(
        &self,
        key: ProjectUserId,
        automation: &Startable,
        trigger: &Value,
        item: &Item,
    ) -> Result<bool, StoreError> {
        let rules: &[Rule] = &automation.program.entry_rules;
        if rules.is_empty() {
            return Ok(true);
        }
        let person = user::load(&self.ctx, key, &automation.program, item.received).await?;
        let none = Map::new();
        let holds = |person| eval::holds(rules, &RunFacts { user: person, trigger, steps: &none }, item.received);
        Ok(person.as_ref().is_some_and(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reentry_follows_its_rule() {
        for (reentry, never, under_way, ended) in [
            (Reentry::Once, true, false, false),
            (Reentry::AfterExit, true, false, true),
            (Reentry::Always, true, true, true),
        ] {
            assert_eq!(may_enter(reentry, None), never);
            assert_eq!(may_enter(reentry, Some(1)), under_way);
            assert_eq!(may_enter(reentry, Some(0)), ended);
        }
    }
}
