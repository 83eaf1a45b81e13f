//! Runs within the recording transaction: which start, which move on, and what that writes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use shared::automation::{Definition, Reentry};
use shared::clock::rfc3339;
use shared::event::id_bytes;
use shared::ids::{self, ProjectId};
use shared::send::{Channel, Lane, MessageRef};
use shared::store::messages::insert::{self, NewMessage};
use shared::store::runs::record::{self as runs, Enrolment, RunRow, RunStatus};
use shared::store::timers::set::{self as timers, NewTimer};
use shared::store::users::record::PersonKey;
use shared::store::{StoreError, Transaction, automations};
use uuid::Uuid;

use crate::item::{Action, Item};
use crate::journey::{self, Effect, Input, State};
use crate::matching::{Index, Startable};

/// How long a message may wait to be taken before the scheduler hands it over again.
const HAND_OVER: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// In place of a person's id where a webhook named nobody.
pub const NOBODY: Uuid = Uuid::nil();

/// An event that was really new, and whose it is.
pub struct NewEvent<'a> {
    pub item: &'a Item,
    pub person: PersonKey,
    pub name: &'a str,
    pub properties: &'a str,
}

impl NewEvent<'_> {
    /// The automations that it starts; none where it is nobody's.
    fn starts<'i>(&self, index: &'i Index) -> impl Iterator<Item = &'i Startable> + use<'i> {
        let by = self.item.action.trigger().filter(|_| self.person.1 != NOBODY);
        index.started_by(self.person.0, by, self.name)
    }
}

/// What runs of a batch lead to.
#[derive(Default)]
pub struct Journeys {
    runs: HashMap<(ProjectId, Uuid), RunRow>,
    timers: Vec<NewTimer>,
    messages: Vec<NewMessage>,
    pub started: u64,
}

impl Journeys {
    /// Starts what new events start, in their order, as each automation's re-entry rule allows.
    pub async fn start(
        &mut self,
        tx: &Transaction<'_>,
        index: &Index,
        events: &[NewEvent<'_>],
    ) -> Result<(), StoreError> {
        let wanted: BTreeSet<Enrolment> =
            events.iter().flat_map(|e| e.starts(index).map(|a| (e.person.0, a.id, e.person.1))).collect();
        let wanted: Vec<Enrolment> = wanted.into_iter().collect();
        let mut enrolled: HashMap<Enrolment, bool> = runs::enrolled(tx, &wanted).await?.into_iter().collect();
        for event in events {
            for automation in event.starts(index) {
                let enrolment = (event.person.0, automation.id, event.person.1);
                let under_way = enrolled.get(&enrolment).copied();
                if !may_enter(automation.definition.reentry, under_way) {
                    continue;
                }
                let run = new_run(event, automation.id, automation.version);
                let run =
                    self.advance(&automation.definition, run, State::at_start(), Input::Start, event.item.received);
                enrolled.insert(enrolment, !run.status.has_ended() || under_way == Some(true));
                self.started += 1;
                self.runs.insert((run.project, run.id), run);
            }
        }
        Ok(())
    }

    /// Moves on the runs whose waits ended.
    pub async fn resume(
        &mut self,
        tx: &Transaction<'_>,
        index: &Index,
        definitions: &Definitions,
        items: &[&Item],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let timer = |item: &Item| match item.action {
            Action::Timer { run, wait_seq } => Some(((item.project, run), wait_seq)),
            _ => None,
        };
        let keys: BTreeSet<(ProjectId, Uuid)> = items.iter().filter_map(|i| timer(i)).map(|t| t.0).collect();
        for run in runs::lock(tx, &keys.into_iter().collect::<Vec<_>>()).await? {
            self.runs.insert((run.project, run.id), run);
        }
        for item in items {
            let Some((key, wait_seq)) = timer(item) else { continue };
            let Some(run) = self.runs.get(&key).cloned() else { continue };
            let state = State {
                status: run.status,
                position: run.position.clone(),
                wait_seq: run.wait_seq,
                due_at: run.due_at,
                reason: run.reason.clone(),
            };
            let Some(definition) = definitions.get(tx, run.project, run.automation, run.version).await? else {
                let failed = RunRow {
                    status: RunStatus::Failed,
                    reason: Some("version_unknown".into()),
                    ended_at: Some(item.received),
                    ..run
                };
                self.runs.insert(key, failed);
                continue;
            };
            let input = if index.is_active(run.project, run.automation) {
                Input::Timer { wait_seq }
            } else {
                Input::TimerWhileInactive { wait_seq }
            };
            let run = self.advance(&definition, run, state, input, item.received);
            self.runs.insert(key, run);
        }
        self.put_runs(tx, now).await
    }

    /// Writes runs, so that what starts next finds those that have just ended.
    async fn put_runs(&mut self, tx: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
        let runs = std::mem::take(&mut self.runs);
        let mut rows: Vec<&RunRow> = runs.values().collect();
        rows.sort_unstable_by_key(|r| (r.project, r.id));
        runs::put(tx, &rows, now).await
    }

    fn advance(&mut self, definition: &Definition, run: RunRow, state: State, input: Input, now: Timestamp) -> RunRow {
        let (next, effects) = journey::step(definition, &state, input, now);
        for effect in effects {
            match effect {
                Effect::SendEmail { template_id, position } => {
                    self.messages.push(message(&run, template_id, &position, now));
                }
                Effect::SetTimer { wait_seq, due_at } => {
                    self.timers.push(NewTimer {
                        project: run.project,
                        run: run.id,
                        wait_seq,
                        partition: run.partition,
                        due_at,
                    });
                }
            }
        }
        let ended_at = if next.status.has_ended() { run.ended_at.or(Some(now)) } else { None };
        RunRow {
            status: next.status,
            position: next.position,
            wait_seq: next.wait_seq,
            due_at: next.due_at,
            reason: next.reason,
            ended_at,
            ..run
        }
    }

    /// Writes runs, timers and messages; returns the messages to be handed to delivery.
    pub async fn store(
        mut self,
        tx: &Transaction<'_>,
        lane: i16,
        now: Timestamp,
    ) -> Result<Vec<MessageRef>, StoreError> {
        self.put_runs(tx, now).await?;
        // A run may have been set two timers in one batch: the later wait counts.
        let mut last: HashMap<(ProjectId, Uuid), NewTimer> = HashMap::new();
        self.timers.drain(..).for_each(|t| {
            last.insert((t.project, t.run), t);
        });
        let mut set: Vec<NewTimer> = last.into_values().collect();
        set.sort_unstable_by_key(|t| (t.project, t.run));
        timers::set(tx, &set).await?;
        self.messages.iter_mut().for_each(|m| (m.created_at, m.due_at) = (now, now + HAND_OVER));
        insert::queued(tx, lane, &self.messages).await?;
        let to_ref =
            |m: &NewMessage| MessageRef { project_id: id_bytes(m.project.0), message_id: id_bytes(m.id), attempt: 0 };
        Ok(self.messages.iter().map(to_ref).collect())
    }
}

fn may_enter(reentry: Reentry, under_way: Option<bool>) -> bool {
    match reentry {
        Reentry::Once => under_way.is_none(),
        Reentry::AfterExit => under_way != Some(true),
        Reentry::Always => true,
    }
}

fn new_run(event: &NewEvent<'_>, automation: Uuid, version: i32) -> RunRow {
    let item = event.item;
    let properties: Value = serde_json::from_str(event.properties).unwrap_or_default();
    let context = json!({
        "id": item.dedupe.unwrap_or(item.id), "name": event.name, "properties": properties, "timestamp": rfc3339(item.timestamp),
    });
    RunRow {
        project: event.person.0,
        id: ids::timed_for(item.received.as_millisecond(), &[automation.as_bytes(), item.id.as_bytes()]),
        automation,
        version,
        user_id: event.person.1,
        status: RunStatus::Waiting,
        position: "0".to_owned(),
        wait_seq: 0,
        partition: item.partition,
        context,
        reason: None,
        due_at: None,
        started_at: item.received,
        ended_at: None,
    }
}

fn message(run: &RunRow, template_id: Uuid, position: &str, now: Timestamp) -> NewMessage {
    NewMessage {
        project: run.project,
        id: ids::timed_for(now.as_millisecond(), &[run.id.as_bytes(), position.as_bytes()]),
        user_id: run.user_id,
        channel: Channel::Email,
        lane: Lane::Automation,
        template_id: Some(template_id),
        content: json!({}),
        data: json!({ "event": run.context, "properties": run.context.get("properties") }),
        automation_id: Some(run.automation),
        run_id: Some(run.id),
        created_at: now,
        due_at: now,
    }
}

/// The versions that runs keep, cached: a version never changes.
pub struct Definitions(quick_cache::sync::Cache<(ProjectId, Uuid, i32), Arc<Definition>>);

impl Default for Definitions {
    fn default() -> Self {
        Self(quick_cache::sync::Cache::new(1_000))
    }
}

impl Definitions {
    async fn get(
        &self,
        tx: &Transaction<'_>,
        project: ProjectId,
        automation: Uuid,
        version: i32,
    ) -> Result<Option<Arc<Definition>>, StoreError> {
        let key = (project, automation, version);
        if let Some(definition) = self.0.get(&key) {
            return Ok(Some(definition));
        }
        let found = match automations::version(tx, project, automation, version).await {
            Ok(found) => found.map(Arc::new),
            // A version that this program cannot read ends its run with a reason; the rest of the batch goes on.
            Err(StoreError::Corrupt(why)) => {
                tracing::error!(%project, %automation, version, why, "a version of an automation cannot be read");
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(definition) = &found {
            self.0.insert(key, definition.clone());
        }
        Ok(found)
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
            assert_eq!(may_enter(reentry, Some(true)), under_way);
            assert_eq!(may_enter(reentry, Some(false)), ended);
        }
    }
}
