//! Receives direct messages from the send stream.
//!
//! A group is recorded in one transaction, or message by message if the database refuses one: ledger rows, and per queue a begun chunk
//! for as many messages as there are free slots. The rest is queued as due. The stream's messages are acknowledged after the commit.

mod record;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{AckKind, Message};
use bus::{PublishError, dead_letter};
use bytes::Bytes;
use domain::message::{Channel, Lane};
use futures_util::{FutureExt, StreamExt};
use kernel::backoff::Backoff;
use kernel::clock::from_ms;
use kernel::failpoint;
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use kernel::trace_context::TraceContext;
use metrics::{Gauge, gauge};
use prost::Message as _;
use serde_json::{Value, json};
use store_sending::messages::insert::NewMessage;
use uuid::Uuid;
use wire::event::{WireError, uuid};
use wire::send::{DirectMessage, SendChunk};

use crate::App;

/// Maximum stream messages requested at once, and recorded together.
const MAX_GROUP: usize = 256;
/// A slower group no longer delays the next one.
const MAX_SERIAL_WAIT: Duration = Duration::from_millis(100);
/// How long a pull request stays with the broker. A shutdown waits for its end: messages sent to an abandoned request are redelivered
/// only after [`ACK_WAIT`].
const PULL_EXPIRES: Duration = Duration::from_millis(500);
/// If the broker is silent for this long, the connection was replaced: pull again.
const PULL_TIMEOUT: Duration = Duration::from_secs(2);
const ACK_WAIT: Duration = Duration::from_secs(30);
const MAX_ACK_PENDING: i64 = 16_384;
/// Delay before the broker redelivers a group that could not be recorded.
const REDELIVERY_DELAY: Backoff =
    Backoff { initial: Duration::from_millis(500), factor: 2, max: Duration::from_secs(5) };

/// Receives the direct messages of a channel until shutdown.
pub async fn run(app: Arc<App>, channel: Channel) {
    let lag = gauge!(Metric::SendLag, "channel" => channel.slug(), "lane" => Lane::Direct.as_str());
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        let Err(error) = read(&app, channel, &lag, &mut failures).await else { return };
        if failures % 10 == 0 {
            tracing::warn!(channel = channel.slug(), %error, "cannot read the send stream; retrying");
        }
        failures += 1;
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => {}
        }
    }
}

/// Pulls messages until shutdown or an error. `failures` is reset when messages arrive.
async fn read(app: &Arc<App>, channel: Channel, lag: &Gauge, failures: &mut u32) -> Result<(), async_nats::Error> {
    let names = &app.bus.names;
    let config = Config {
        durable_name: Some(names.send_consumer(channel)),
        filter_subject: names.send(channel),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        // Redeliver without limit: failures here are outages, not bad messages.
        max_deliver: -1,
        max_ack_pending: MAX_ACK_PENDING,
        ..Config::default()
    };
    let consumer: PullConsumer = app.bus.jetstream.create_consumer_on_stream(config, names.send_stream()).await?;
    while !app.shutdown.is_cancelled() {
        let mut messages = consumer.batch().max_messages(MAX_GROUP).expires(PULL_EXPIRES).messages().await?;
        while let Some(group) = next_group(&mut messages, lag).await? {
            *failures = 0;
            let mut task = app.tasks.spawn(process_group(app.clone(), group));
            // Messages that arrive meanwhile form the next group, so groups grow under load.
            let _ = tokio::time::timeout(MAX_SERIAL_WAIT, &mut task).await;
        }
    }
    Ok(())
}

/// Returns the next message and those already buffered; `None` at the end of the pull request.
async fn next_group(messages: &mut Batch, lag: &Gauge) -> Result<Option<Vec<Message>>, async_nats::Error> {
    let Ok(first) = tokio::time::timeout(PULL_TIMEOUT, messages.next()).await else { return Ok(None) };
    let Some(first) = first.transpose()? else {
        lag.set(0.0);
        return Ok(None);
    };
    let mut group = vec![first];
    // Unconstrained: a task that has used up its cooperative budget would see no buffered messages.
    while let Some(Some(Ok(message))) = tokio::task::unconstrained(messages.next()).now_or_never() {
        group.push(message);
    }
    if let Some(Ok(info)) = group.last().map(Message::info) {
        lag.set(info.pending as f64);
    }
    Ok(Some(group))
}

/// Records a group and acknowledges it. After an error the broker redelivers it; messages already recorded are skipped then.
async fn process_group(app: Arc<App>, messages: Vec<Message>) {
    failpoint::hit("delivery.after_receive");
    let mut group = Group::default();
    messages.iter().for_each(|message| group.read(message.payload.clone()));
    let (begun, outcome) = match record::record(&app, &mut group).await {
        Ok(begun) => (begun, dead_letter(&app, group.refused).await.map_err(|error| error.to_string())),
        Err(error) => (Vec::new(), Err(error.to_string())),
    };
    match outcome {
        Ok(()) => {
            failpoint::hit("delivery.after_record");
            acknowledge(&messages, |_| AckKind::Ack).await;
        }
        Err(error) => {
            tracing::warn!(error, "cannot record {} direct messages; they will be redelivered", messages.len());
            acknowledge(&messages, |delivered| AckKind::Nak(Some(REDELIVERY_DELAY.delay(delivered, rand::random()))))
                .await;
        }
    }
    begun.into_iter().for_each(|part| drop(app.tasks.clone().spawn(record::send(app.clone(), part))));
}

/// Acknowledges each message; `kind` gets its number of deliveries.
async fn acknowledge(messages: &[Message], kind: impl Fn(u32) -> AckKind) {
    for message in messages {
        let delivered = message.info().map_or(1, |info| u32::try_from(info.delivered).unwrap_or(1));
        if let Err(error) = message.ack_with(kind(delivered)).await {
            tracing::debug!(%error, "cannot acknowledge a message");
        }
    }
}

/// Stores invalid messages as dead letters before they are acknowledged.
async fn dead_letter(app: &App, refused: Vec<Refused>) -> Result<(), PublishError> {
    for Refused { payload, reason } in refused {
        tracing::warn!(reason, "rejecting an invalid direct message");
        dead_letter::publish(&app.bus, "send", "worker-delivery", &reason, payload).await?;
        metrics::counter!(Metric::DeadLetters, "from" => "send").increment(1);
    }
    Ok(())
}

/// An invalid payload, and why it is invalid.
struct Refused {
    payload: Bytes,
    reason: String,
}

/// Decoded messages of the stream.
#[derive(Default)]
struct Group {
    direct: Vec<(Candidate, DirectMessage)>,
    refused: Vec<Refused>,
}

/// A valid direct message. Not yet resolved to a user.
#[derive(Clone)]
struct Candidate {
    row: NewMessage,
    users: Vec<Uuid>,
}

impl Group {
    /// Reads one payload. An invalid entry does not affect the others. References from earlier versions are ignored: those messages
    /// are in the queue.
    fn read(&mut self, payload: Bytes) {
        let chunk = match SendChunk::decode_checked(payload.clone()) {
            Ok(chunk) => chunk,
            Err(error) => return self.refused.push(Refused { payload, reason: error.to_string() }),
        };
        for direct in chunk.direct {
            match read_direct(&direct) {
                Ok(candidate) => self.direct.push((candidate, direct)),
                Err(reason) => self.refuse(direct, reason),
            }
        }
    }

    fn refuse(&mut self, direct: DirectMessage, reason: String) {
        let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
        self.refused.push(Refused { payload: chunk.encode_to_vec().into(), reason });
    }
}

impl Candidate {
    /// Returns the row for the first ID that resolves to a user, else with all IDs.
    fn resolved(self, lookup: impl Fn(Uuid) -> Option<Uuid>) -> NewMessage {
        let mut row = self.row;
        match self.users.iter().find_map(|id| lookup(*id)) {
            Some(user) => row.user_id = user,
            None if self.users.len() > 1 => {
                if let Some(content) = row.content.as_object_mut() {
                    content.insert("userIds".to_owned(), json!(self.users));
                }
            }
            None => {}
        }
        row
    }
}

fn read_direct(direct: &DirectMessage) -> Result<Candidate, String> {
    let wire = |e: WireError| e.to_string();
    let users: Result<Vec<Uuid>, WireError> = direct.user_ids.iter().map(|id| uuid("user_ids", id)).collect();
    let users = users.map_err(wire)?;
    let template_id = match direct.template_id.as_ref() {
        [] => None,
        id => Some(uuid("template_id", id).map_err(wire)?),
    };
    let created_at = from_ms(direct.accepted_ms);
    Ok(Candidate {
        row: NewMessage {
            project: ProjectId(uuid("project_id", &direct.project_id).map_err(wire)?),
            id: uuid("message_id", &direct.message_id).map_err(wire)?,
            user_id: *users.first().ok_or("a direct message without a user")?,
            channel: Channel::parse(&direct.channel).ok_or_else(|| format!("channel {:?}", direct.channel))?,
            lane: Lane::Direct,
            template_id,
            content: object("content", &direct.content)?,
            data: object("data", &direct.data)?,
            automation_id: None,
            run_id: None,
            subscription_group_id: None,
            trace: TraceContext::from_bytes(&direct.trace),
            created_at,
        },
        users,
    })
}

fn object(field: &str, json: &[u8]) -> Result<Value, String> {
    if json.is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_slice(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(format!("{field} is not a JSON object")),
        Err(error) => Err(format!("{field}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use wire::event::id_bytes;
    use wire::send::MessageRef;

    use super::*;

    fn direct(content: &'static [u8]) -> DirectMessage {
        DirectMessage {
            project_id: id_bytes(Uuid::from_u128(1)),
            message_id: id_bytes(Uuid::from_u128(2)),
            user_ids: vec![id_bytes(Uuid::from_u128(3)), id_bytes(Uuid::from_u128(4))],
            channel: "email".to_owned(),
            content: Bytes::from_static(content),
            accepted_ms: 1_000,
            ..DirectMessage::default()
        }
    }

    #[test]
    fn invalid_message_does_not_affect_others_in_its_payload() {
        let reference = MessageRef::new(ProjectId(Uuid::from_u128(1)), Uuid::from_u128(9));
        let chunk = SendChunk {
            direct: vec![direct(b"{}"), direct(b"[]"), direct(b"{"), DirectMessage::default()],
            ..SendChunk::of(vec![reference])
        };
        let mut group = Group::default();
        group.read(chunk.encode_to_vec().into());
        group.read(Bytes::from_static(b"\xff\xff"));
        assert_eq!((group.direct.len(), group.refused.len()), (1, 4));
    }

    #[test]
    fn first_id_of_an_existing_user_is_used() {
        let candidate = read_direct(&direct(br#"{"subject":"s"}"#)).unwrap();
        let found = candidate.clone().resolved(|id| (id == Uuid::from_u128(4)).then_some(Uuid::from_u128(5)));
        assert_eq!((found.user_id, found.content), (Uuid::from_u128(5), json!({ "subject": "s" })));
        let unresolved = candidate.resolved(|_| None);
        assert_eq!(unresolved.user_id, Uuid::from_u128(3));
        assert_eq!(unresolved.content["userIds"], json!([Uuid::from_u128(3), Uuid::from_u128(4)]));
    }
}
