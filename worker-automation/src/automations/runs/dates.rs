//! Dates in user properties that start automations: scheduled when a profile changes, and checked when they are due.

use automation::DateTrigger;
use automation::journey::{self, DateOccurrence, Effect, MAX_SEND_LATENESS, Transition};
use database::StoreError;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::rfc3339;
use serde_json::{Map, Value, json};
use store_profiles::date_due::DateState;
use store_profiles::users::record::ProjectUserId;
use store_sending::runs::record as runs;

use super::Runs;
use crate::automations::matching::Startable;
use crate::ingest::item::{Action, Item};

/// Maximum duration of a calendar day, from its start in the first timezone to its end in the last.
///
/// Within it, a date does not start another run for a user who has changed timezones.
const SAME_DAY: SignedDuration = SignedDuration::from_hours(50);

impl Runs<'_> {
    /// Reschedules the dates that a profile change may affect.
    pub(super) fn reschedule_dates(&mut self, item: &Item, user: ProjectUserId) {
        let Action::Identify { patch } = &item.action else { return };
        let is_merge = item.user.known.is_some() && item.user.anonymous.is_some();
        self.schedule_dates(item, user, |key| is_merge || patch.contains_key(key));
    }

    /// Returns the properties that steps write into the profile, if the project has automations that dates start.
    pub(super) fn written_properties(&self, user: ProjectUserId, moved: &Transition) -> Vec<Map<String, Value>> {
        if self.ctx.index.dated(user.0).next().is_none() {
            return Vec::new();
        }
        let written = |effect: &Effect| match effect {
            Effect::UpdateUser { properties, .. } => Some(properties.clone()),
            _ => None,
        };
        moved.effects.iter().filter_map(written).collect()
    }

    pub(super) fn schedule_dates(&mut self, item: &Item, user: ProjectUserId, is_changed: impl Fn(&str) -> bool) {
        let index = self.ctx.index;
        for automation in index.dated(user.0) {
            let key = automation.program.trigger_date.as_ref().map(DateTrigger::key);
            if is_changed("timezone") || key.is_some_and(&is_changed) {
                self.schedule_next_date(item, user, automation, (item.received, None));
            }
        }
    }

    /// Schedules an automation's next date after `after`. `came` is the date that was due, if any.
    fn schedule_next_date(
        &mut self,
        item: &Item,
        user: ProjectUserId,
        automation: &Startable,
        (after, came): (Timestamp, Option<Timestamp>),
    ) {
        let due_at = self.next_date(user, automation, after).map(|coming| coming.at);
        let (project, user_id) = user;
        let note = DateState {
            project,
            automation: automation.id,
            user_id,
            partition: item.partition,
            due_at,
            handled_at: came,
        };
        self.effects.schedule_date(note);
    }

    fn next_date(&self, user: ProjectUserId, automation: &Startable, after: Timestamp) -> Option<DateOccurrence<'_>> {
        let profile = self.ctx.users.profile(user).filter(|profile| profile.merged_into.is_none())?;
        let zone = journey::timezone_of(&profile.properties);
        let zone = zone.unwrap_or_else(|| self.ctx.timezones.timezone(user.0));
        journey::next_occurrence(automation.program.trigger_date.as_ref()?, &profile.properties, &zone, after)
    }

    /// Returns the trigger of the run to start for a date that is due, and schedules the next date.
    ///
    /// `None` if the profile no longer has the date, if it is more than [`MAX_SEND_LATENESS`] past, or if it already started a run.
    pub(super) async fn date_trigger(
        &mut self,
        item: &Item,
        user: ProjectUserId,
        automation: &Startable,
        date: Timestamp,
    ) -> Result<Option<Value>, StoreError> {
        let before = date.checked_sub(SignedDuration::from_millis(1)).unwrap_or(date);
        let coming = self.next_date(user, automation, before).filter(|coming| coming.at == date);
        let name = automation.program.trigger_date.as_ref().map(|date| date.property.as_str());
        let trigger = coming.map(|coming| {
            json!({
                "id": item.id, "name": name, "timestamp": rfc3339(date),
                "properties": { "date": coming.date, "on": coming.on.to_string() },
            })
        });
        self.schedule_next_date(item, user, automation, (date, Some(date)));
        let Some(trigger) = trigger.filter(|_| item.received.duration_since(date) <= MAX_SEND_LATENESS) else {
            return Ok(None);
        };
        let is_repeat = self.has_started_run(item, user, automation, &trigger).await?;
        Ok(Some(trigger).filter(|_| !is_repeat))
    }

    /// Returns whether the same date already started a run, in another timezone.
    async fn has_started_run(
        &self,
        item: &Item,
        user: ProjectUserId,
        automation: &Startable,
        trigger: &Value,
    ) -> Result<bool, StoreError> {
        let enrolment = (user.0, automation.id, user.1);
        if !self.enrolled.contains_key(&enrolment) {
            return Ok(false);
        }
        let by = trigger.get("properties").cloned().unwrap_or_default();
        let here = self.by_user.get(&user).into_iter().flatten();
        let mut here = here.filter_map(|run| self.loaded.get(&(user.0, *run)));
        if here
            .any(|loaded| loaded.row.automation == automation.id && loaded.row.context.get("properties") == Some(&by))
        {
            return Ok(true);
        }
        let since = item.received.checked_sub(SAME_DAY).unwrap_or(item.received);
        runs::started_by(self.ctx.tx, enrolment, &by, since).await
    }
}
