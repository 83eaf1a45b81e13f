//! Collects the effects of a batch's runs: rows, messages, items for their users, and counts.

use std::collections::{BTreeMap, HashMap};

use automation::journey::{self, Effect, LogAction, LogEntry, Run, RunStatus, Transition};
use bus::Names;
use bus::group_commit::MESSAGE_BYTES;
use bytes::Bytes;
use database::{StoreError, Transaction};
use domain::message::{Channel, Lane, Queue};
use domain::webhook::{COMPLETED, CONVERTED, ENTERED, EXITED};
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use serde_json::{Map, Value, json};
use store_profiles::date_due::{self, DateState};
use store_sending::messages::insert::{self, NewMessage};
use store_sending::outbox::OutboxRow;
use store_sending::runs::counts::{self, CountKey};
use store_sending::runs::listeners::{self, Listener};
use store_sending::runs::record::{self as runs, RunRow};
use store_sending::timers::set::{self as timers, NewTimer};
use store_sending::webhook_calls::{self, NewCall};
use store_sending::webhook_deliveries::enqueue::RunEvent;
use trace::Span;
use uuid::Uuid;
use wire::event::{Body, EncodedItems, IngestItem, Start, Track, begin_message, id_bytes, trace_bytes};

use super::{LoadedRun, RunKey};
use crate::ingest::item::Item;
use crate::record::batch_users::BatchUsers;
use crate::record::profile;

/// Effects collected while runs are advanced, and written at the end.
#[derive(Default)]
pub struct RunEffects {
    rows: Vec<RunRow>,
    timers: HashMap<RunKey, NewTimer>,
    /// Runs whose timers must be cancelled.
    cancelled_timers: Vec<RunKey>,
    added_listeners: Vec<Listener>,
    removed_listeners: Vec<Listener>,
    messages: Vec<NewMessage>,
    /// Items for the users' own partitions, in order.
    items: BTreeMap<i16, Vec<IngestItem>>,
    calls: Vec<NewCall>,
    counts: BTreeMap<CountKey, i64>,
    /// Next dates, by project, automation and user.
    dates: BTreeMap<(ProjectId, Uuid, Uuid), DateState>,
    /// Notifications for webhook endpoints.
    notifications: Vec<RunEvent>,
    /// Ended trace spans.
    spans: Vec<Span>,
    pub started: u64,
}

/// What [`RunEffects::store`] has written.
#[derive(Default)]
pub struct StoredEffects {
    pub outbox: Vec<OutboxRow>,
    /// Delivery queues with new messages.
    pub queues: Vec<Queue>,
    pub calls: usize,
    /// Run notifications for webhook endpoints.
    pub notifications: Vec<RunEvent>,
    /// Ended trace spans, to be exported if the transaction commits.
    pub spans: Vec<Span>,
}

impl RunEffects {
    /// Counts and reports a new run.
    pub(super) fn entered(&mut self, row: &RunRow) {
        self.started += 1;
        self.count(row, "", "entered", "");
        self.notify(row, ENTERED, row.started_at);
    }

    /// Applies the result of an input to a run's row, and collects its effects.
    pub(super) fn take(&mut self, row: &mut RunRow, moved: Transition, item: &Item, users: &mut BatchUsers) {
        let Transition { state, effects, log: mut marks } = moved;
        let had_converted = row.state.converted_at.is_some();
        row.state = state;
        for effect in effects {
            self.effect(row, effect, &mut marks, item, users);
        }
        if row.state.status.has_ended() && row.ended_at.is_none() {
            row.ended_at = Some(item.received);
            self.count(row, "", row.state.status.as_str(), "");
            match row.state.status {
                RunStatus::Completed => self.notify(row, COMPLETED, item.received),
                RunStatus::Exited => self.notify(row, EXITED, item.received),
                RunStatus::Waiting | RunStatus::Frozen | RunStatus::Failed => {}
            }
        }
        if row.state.converted_at.is_some() && !had_converted {
            self.count(row, "", LogAction::Converted.as_str(), "");
            self.notify(row, CONVERTED, item.received);
        }
        for mark in marks.iter().filter(|mark| !mark.step.is_empty()) {
            self.count(row, &mark.step, mark.did.as_str(), mark.arm.as_deref().unwrap_or_default());
        }
        row.marks.extend(marks);
    }

    /// Collects the trace span of a run's step.
    pub(super) fn add_span(&mut self, mut span: Span, row: &RunRow) {
        if span.is_recording() {
            span.set("rekindle.project_id", row.project);
            span.set("rekindle.automation_id", row.automation);
            span.set("rekindle.run_id", row.id);
            span.set("rekindle.run_status", row.state.status.as_str());
            self.spans.push(span.ended());
        }
    }

    /// Schedules an automation's next date.
    ///
    /// The last call wins, unless its date is not later than one that was already due.
    pub(super) fn schedule_date(&mut self, note: DateState) {
        let before = self.dates.entry((note.project, note.automation, note.user_id)).or_insert(note);
        let came = note.handled_at.max(before.handled_at);
        let is_later = note.due_at.is_none() || note.due_at > came;
        *before = DateState { handled_at: came, ..if is_later { note } else { *before } };
    }

    /// Collects a failed run.
    pub(super) fn fail(&mut self, mut row: RunRow, at: Timestamp) {
        row.ended_at = Some(at);
        self.count(&row, "", row.state.status.as_str(), "");
        self.cancelled_timers.push((row.project, row.id));
        self.rows.push(row);
    }

    fn notify(&mut self, row: &RunRow, kind: &'static str, at: Timestamp) {
        self.notifications.push(RunEvent {
            project: row.project,
            kind,
            run: row.id,
            automation: row.automation,
            version: row.version,
            user_id: row.user_id,
            at,
            reason: row.state.reason.clone(),
        });
    }

    fn count(&mut self, row: &RunRow, step: &str, did: &'static str, arm: &str) {
        let counted = CountKey {
            project: row.project,
            automation: row.automation,
            version: row.version,
            step: step.to_owned(),
            did,
            arm: arm.to_owned(),
        };
        *self.counts.entry(counted).or_default() += 1;
    }

    fn effect(&mut self, row: &RunRow, effect: Effect, marks: &mut [LogEntry], item: &Item, users: &mut BatchUsers) {
        match effect {
            Effect::Send { channel, template_id, subscription_group_id, position } => {
                let message = message(row, channel, template_id, &position, item.received);
                let message = NewMessage { subscription_group_id, ..message };
                annotate(marks, &position, |mark| mark.message_id = Some(message.id));
                self.messages.push(message);
            }
            Effect::SetTimer { wait_seq, due_at } => {
                let timer = NewTimer { project: row.project, run: row.id, wait_seq, partition: row.partition, due_at };
                self.timers.insert((row.project, row.id), timer);
            }
            Effect::UpdateUser { position, properties } => {
                let refused = match users.patch((row.project, row.user_id), &properties) {
                    Some(Ok(())) => return,
                    Some(Err(_)) => "profile_too_large",
                    None => "user_not_found",
                };
                annotate(marks, &position, |mark| {
                    (mark.did, mark.why) = (LogAction::Skipped, Some(refused.to_owned()));
                });
            }
            Effect::TrackEvent { position, depth, name, properties } => {
                let Some(properties) = serialize_properties(&properties) else {
                    let why = Some("properties_too_large".to_owned());
                    return annotate(marks, &position, |mark| (mark.did, mark.why) = (LogAction::Skipped, why));
                };
                self.send_item(row, item, (&position, depth), Body::Track(Track { name, properties }));
            }
            Effect::StartAutomation { position, depth, automation_id } => {
                let trigger = row.context.to_string().into();
                let start = Start { automation_id: id_bytes(automation_id), date_ms: 0, trigger };
                self.send_item(row, item, (&position, depth), Body::Start(start));
            }
            Effect::Call { wait_seq, position, name: _, url, body } => self.calls.push(NewCall {
                project: row.project,
                id: effect_id(row, &position, item.received),
                run: row.id,
                wait_seq,
                user_id: row.user_id,
                partition: item.partition,
                url,
                body,
            }),
        }
    }

    /// Sends an item for the run's user, by their internal ID.
    fn send_item(&mut self, row: &RunRow, item: &Item, (position, depth): (&str, i16), body: Body) {
        let now_ms = item.received.as_millisecond();
        let id = id_bytes(effect_id(row, position, item.received));
        let is_event = matches!(body, Body::Track(_));
        let new = IngestItem {
            project_id: id_bytes(row.project.0),
            dedupe_id: if is_event { Bytes::new() } else { id.clone() },
            id,
            received_ms: now_ms,
            timestamp_ms: now_ms,
            user_id: Some(row.user_id.to_string()),
            depth: u32::from(depth.unsigned_abs()),
            trace: trace_bytes(row.trace),
            body: Some(body),
            ..IngestItem::default()
        };
        self.items.entry(item.partition).or_default().push(new);
    }

    /// Collects a run's final state after all inputs.
    pub(super) fn finish_run(&mut self, loaded: LoadedRun) {
        let LoadedRun { row, program, before, had_timer, is_changed } = loaded;
        let run = Run { id: row.id, started_at: row.started_at, depth: row.depth, trigger: &row.context };
        let after = journey::event_subscriptions(&program, run, &row.state);
        let person = (row.project, row.user_id);
        let listener = |(event, until): (&String, &Option<Timestamp>)| Listener {
            user: person,
            event: event.clone(),
            run: row.id,
            until: *until,
        };
        self.added_listeners
            .extend(after.iter().filter(|(event, until)| before.get(*event) != Some(until)).map(listener));
        self.removed_listeners.extend(before.iter().filter(|(event, _)| !after.contains_key(*event)).map(listener));
        if row.state.status.has_ended() {
            let key = (row.project, row.id);
            self.timers.remove(&key);
            self.cancelled_timers.extend(had_timer.then_some(key));
        }
        if is_changed {
            self.rows.push(row);
        }
    }

    /// Writes all effects.
    pub async fn store(
        mut self,
        tx: &Transaction<'_>,
        names: &Names,
        lane: i16,
        now: Timestamp,
    ) -> Result<StoredEffects, StoreError> {
        self.rows.sort_unstable_by_key(|r| (r.project, r.id));
        runs::put(tx, &self.rows.iter().collect::<Vec<_>>(), now).await?;
        let mut set: Vec<NewTimer> = self.timers.into_values().collect();
        set.sort_unstable_by_key(|t| (t.project, t.run));
        timers::set(tx, &set).await?;
        self.cancelled_timers.sort_unstable();
        timers::cancel(tx, &self.cancelled_timers).await?;
        self.removed_listeners.sort_unstable();
        listeners::remove(tx, &self.removed_listeners).await?;
        self.added_listeners.sort_unstable();
        listeners::add(tx, &self.added_listeners).await?;
        self.messages.iter_mut().for_each(|m| m.created_at = now);
        let queues = insert::insert_queued(tx, lane, &self.messages, now).await?;
        webhook_calls::insert(tx, &self.calls, now).await?;
        counts::add(tx, lane, &self.counts).await?;
        date_due::store(tx, &self.dates.into_values().collect::<Vec<_>>(), now).await?;
        let outbox = outbox_rows(names, lane, now.as_millisecond(), self.items);
        Ok(StoredEffects {
            outbox,
            queues,
            calls: self.calls.len(),
            notifications: self.notifications,
            spans: self.spans,
        })
    }
}

/// Updates the mark of a step's effect.
fn annotate(marks: &mut [LogEntry], position: &str, change: impl FnOnce(&mut LogEntry)) {
    if let Some(mark) = marks.iter_mut().find(|mark| mark.step == position) {
        change(mark);
    }
}

/// Serializes an event's properties. Returns `None` if they exceed the limits of any event.
fn serialize_properties(properties: &Map<String, Value>) -> Option<Bytes> {
    let text = serde_json::to_string(properties).ok()?;
    (text.len() <= profile::MAX_BYTES && properties.len() <= profile::MAX_KEYS).then(|| text.into())
}

/// Returns the ID of a step's effect.
///
/// Each step is taken once, and a repeat by the same item has the same ID.
fn effect_id(row: &RunRow, position: &str, at: Timestamp) -> Uuid {
    ids::timed_for(at.as_millisecond(), &[row.id.as_bytes(), position.as_bytes()])
}

fn message(row: &RunRow, channel: Channel, template_id: Uuid, position: &str, now: Timestamp) -> NewMessage {
    NewMessage {
        project: row.project,
        id: effect_id(row, position, now),
        user_id: row.user_id,
        channel,
        lane: Lane::Automation,
        template_id: Some(template_id),
        content: json!({}),
        data: json!({
            "event": row.context, "properties": row.context.get("properties"), "steps": row.state.memory.steps,
        }),
        automation_id: Some(row.automation),
        run_id: Some(row.id),
        subscription_group_id: None,
        trace: row.trace,
        created_at: now,
    }
}

/// Returns the outbox rows of users' items, batched by partition up to the maximum message size.
fn outbox_rows(names: &Names, lane: i16, now_ms: i64, items: BTreeMap<i16, Vec<IngestItem>>) -> Vec<OutboxRow> {
    let mut rows = Vec::new();
    for (partition, items) in items {
        let mut finish = |encoded: EncodedItems| {
            let mut payload = Vec::with_capacity(encoded.bytes.len() + 16);
            begin_message(&mut payload);
            payload.extend_from_slice(&encoded.bytes);
            let subject = names.ingest(partition.unsigned_abs());
            rows.push(OutboxRow { partition: lane, id: ids::fresh(now_ms), subject, payload });
        };
        let mut encoded = EncodedItems::default();
        for item in items {
            if encoded.count > 0 && encoded.bytes.len() + EncodedItems::cost(&item) + 16 > MESSAGE_BYTES {
                finish(std::mem::take(&mut encoded));
            }
            encoded.push(&item);
        }
        finish(encoded);
    }
    rows
}
