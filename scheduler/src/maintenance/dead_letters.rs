//! Moves dead letters from their stream into the database, where project members can see and replay them.
//!
//! The stream keeps no copy, because erasing a user's data would not reach it. Letters of unknown projects stay for
//! less than a day.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Message as Delivered;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::Stream;
use bus::{Names, dead_letter};
use bytes::Bytes;
use database::Connection;
use domain::message::Channel;
use futures_util::StreamExt;
use kernel::clock::from_ms;
use kernel::ids::{self, ProjectId};
use prost::Message as _;
use store_profiles::users::recipient;
use store_profiles::users::record::ProjectUserId;
use store_projects::project_removals;
use store_sending::dead_letters::{self, DeadItem};
use store_sending::erasures;
use uuid::Uuid;
use wire::event::{Body, EncodedBatch, IngestItem, uuid};
use wire::send::SendChunk;

use crate::App;
use crate::maintenance::erasures::UNSEARCHABLE_RETENTION;
use crate::tick::TickError;

/// Maximum number of messages in one fetch, and of old letters deleted in one run.
const MAX_FETCHED: usize = 200;
/// Time after which an unacknowledged message is redelivered.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Moves new dead letters into the database.
pub async fn collect(app: Arc<App>) -> Result<(), TickError> {
    let (names, jetstream) = (&app.bus.names, &app.bus.jetstream);
    let stream = jetstream.get_stream(names.dead_stream()).await.map_err(broker)?;
    let name = names.dead_consumer();
    let config = pull::Config {
        durable_name: Some(name.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        ..pull::Config::default()
    };
    let consumer: PullConsumer = stream.get_or_create_consumer(&name, config).await.map_err(broker)?;
    delete_old(&app, &stream, consumer.cached_info().ack_floor.stream_sequence).await?;
    loop {
        let mut messages = consumer.fetch().max_messages(MAX_FETCHED).messages().await.map_err(broker)?;
        let mut taken = 0;
        while let Some(message) = messages.next().await {
            let message = message.map_err(broker)?;
            if let Some(seq) = store_letter(&app, &message).await?
                && let Err(error) = stream.delete_message(seq).await
            {
                // Acknowledge it anyway: a redelivery could restore the letter after it was replayed.
                tracing::warn!(seq, %error, "dead letter cannot be deleted from its stream");
            }
            message.ack().await.map_err(broker)?;
            taken += 1;
        }
        if taken < MAX_FETCHED {
            return Ok(());
        }
    }
}

/// Deletes acknowledged letters that are nearly a day old: those of unknown projects, and those whose deletion failed
/// before.
///
/// Any of them may hold an erased user's data.
async fn delete_old(app: &App, stream: &Stream, acknowledged: u64) -> Result<(), TickError> {
    let before_ms = app.now_ms() - UNSEARCHABLE_RETENTION.as_millis() as i64;
    let mut state = stream.cached_info().state.clone();
    for _ in 0..MAX_FETCHED {
        let stored_ms = (state.first_timestamp.unix_timestamp_nanos() / 1_000_000) as i64;
        if state.messages == 0 || state.first_sequence > acknowledged || stored_ms >= before_ms {
            break;
        }
        stream.delete_message(state.first_sequence).await.map_err(broker)?;
        state = stream.get_info().await.map_err(broker)?.state;
    }
    Ok(())
}

/// Stores a letter in the database.
///
/// Returns its sequence number if the stream need not keep it, which is true of all letters except those of an unknown
/// project.
async fn store_letter(app: &App, message: &Delivered) -> Result<Option<u64>, TickError> {
    let info = message.info().map_err(broker)?;
    let dead = DeadLetter {
        seq: info.stream_sequence,
        at_ms: (info.published.unix_timestamp_nanos() / 1_000_000) as i64,
        reason: header(message.headers.as_ref(), dead_letter::REASON),
        payload: message.payload.clone(),
    };
    let (names, partitions) = (&app.bus.names, app.ingest_stream.partitions);
    let found = if message.subject.as_str() == names.dead("send") {
        dead.as_direct_message(names, partitions)
    } else {
        dead.as_ingest_item(names, partitions)
    };
    let Some((mut item, users)) = found else {
        // Omits the reason, which may contain a user's data.
        tracing::warn!(
            seq = dead.seq,
            "dead letter of an unknown project: it is deleted from its stream after 23 hours"
        );
        return Ok(None);
    };
    let done = Some(dead.seq);
    let db: Connection = app.store.connection().await?;
    if !project_removals::among(&db, &[item.project]).await?.is_empty() {
        return Ok(done);
    }
    let user_keys: Vec<ProjectUserId> = users.iter().map(|user| (item.project, *user)).collect();
    let erased = erasures::erased_at(&db, &user_keys).await?;
    // The user was erased after this was accepted: drop it.
    if user_keys.iter().any(|key| erased.get(key).is_some_and(|at| item.created_at <= *at)) {
        return Ok(done);
    }
    if users.len() > 1 {
        // An erasure finds the letter by the ID that leads to an existing user.
        let known = recipient::load(&db, item.project, &users).await?;
        item.user_id = users.iter().find_map(|user| known.get(user)).map(|user| user.id).or(item.user_id);
    }
    dead_letters::store(&db, &item).await?;
    Ok(done)
}

fn header(headers: Option<&HeaderMap>, name: &str) -> String {
    headers.and_then(|headers| headers.get(name)).map(|value| value.as_str().to_owned()).unwrap_or_default()
}

fn broker(error: impl std::fmt::Display) -> TickError {
    TickError::Broker(error.to_string())
}

/// A message of the dead-letter stream.
struct DeadLetter {
    seq: u64,
    at_ms: i64,
    reason: String,
    payload: Bytes,
}

impl DeadLetter {
    /// Returns the letter's ID, derived from its position in the stream.
    fn id(&self) -> Uuid {
        ids::timed_for(self.at_ms, &[b"dead", &self.seq.to_be_bytes()])
    }

    /// Returns an item that could not be recorded, and the users it names; `None` if its project is unknown.
    fn as_ingest_item(&self, names: &Names, partitions: u16) -> Option<(DeadItem, Vec<Uuid>)> {
        let batch = EncodedBatch::decode_checked(self.payload.clone()).ok()?;
        let [encoded] = &batch.items[..] else { return None };
        let item = IngestItem::decode(encoded.clone()).ok()?;
        let project = item.project().ok()?;
        let key = item.user_key().ok();
        let any = item.row_id().unwrap_or_default().as_u128() % u128::from(partitions.max(1));
        let partition = key.map_or(any as u16, |key| key.partition(project, partitions));
        let user = key.map(|key| key.internal_id(project));
        let item = DeadItem {
            project,
            id: self.id(),
            user_id: user,
            name: name_of(item.body.as_ref()),
            channel: None,
            message_id: None,
            reason: format!("not_recorded: {}", self.reason),
            partition: i16::try_from(partition).ok()?,
            subject: names.ingest(partition),
            payload: self.payload.to_vec(),
            created_at: from_ms(item.received_ms),
            died_at: from_ms(self.at_ms),
        };
        Some((item, user.into_iter().collect()))
    }

    /// Returns a message that delivery could not read or store, and the users it names; `None` if its project is
    /// unknown.
    fn as_direct_message(&self, names: &Names, partitions: u16) -> Option<(DeadItem, Vec<Uuid>)> {
        let chunk = SendChunk::decode_checked(self.payload.clone()).ok()?;
        let (project, message, channel, created_at) = match (&chunk.direct[..], &chunk.refs[..]) {
            ([direct], []) => {
                let channel = Channel::parse(&direct.channel)?;
                (&direct.project_id, &direct.message_id, channel, from_ms(direct.accepted_ms))
            }
            _ => return None,
        };
        let (project, message) = (uuid("project_id", project).ok()?, uuid("message_id", message).ok()?);
        let users = chunk.direct.iter().flat_map(|direct| &direct.user_ids);
        let users: Vec<Uuid> = users.filter_map(|id| uuid("user_ids", id).ok()).collect();
        let partition = (message.as_u128() % u128::from(partitions.max(1))) as u16;
        let item = DeadItem {
            project: ProjectId(project),
            id: self.id(),
            user_id: users.first().copied(),
            name: "message".to_owned(),
            channel: Some(channel),
            message_id: Some(message),
            reason: format!("not_accepted: {}", self.reason),
            partition: i16::try_from(partition).ok()?,
            subject: names.send(channel),
            payload: self.payload.to_vec(),
            created_at,
            died_at: from_ms(self.at_ms),
        };
        Some((item, users))
    }
}

/// Returns a human-readable name of an item.
fn name_of(body: Option<&Body>) -> String {
    match body {
        Some(Body::Track(track)) => format!("event {}", clean(&track.name)),
        Some(Body::Identify(_)) => "profile update".to_owned(),
        Some(Body::Alias(_)) => "alias".to_owned(),
        Some(Body::Timer(_)) => "timer".to_owned(),
        Some(Body::Answer(_)) => "webhook step response".to_owned(),
        Some(Body::Start(_)) => "automation start".to_owned(),
        Some(Body::Erase(_)) => "erasure".to_owned(),
        Some(Body::Subscribe(_)) => "subscription change".to_owned(),
        Some(Body::RegisterToken(_)) => "push token".to_owned(),
        Some(Body::RemoveToken(_)) => "push token removal".to_owned(),
        Some(Body::Webhook(webhook)) => format!("webhook {}", clean(&webhook.kind)),
        None => "unknown item".to_owned(),
    }
}

/// Replaces control characters and truncates: the name may be the text that the database rejected.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use wire::event::{self, Track, id_bytes};
    use wire::send::{self, DirectMessage};

    use super::*;

    const PROJECT: Uuid = Uuid::from_u128(1);

    fn dead(payload: Vec<u8>) -> DeadLetter {
        DeadLetter { seq: 7, at_ms: 5_000, reason: "why".to_owned(), payload: payload.into() }
    }

    fn track(name: &str) -> IngestItem {
        IngestItem {
            project_id: id_bytes(PROJECT),
            id: id_bytes(Uuid::from_u128(2)),
            user_id: Some("u".into()),
            received_ms: 4_000,
            body: Some(Body::Track(Track { name: name.into(), ..Track::default() })),
            ..IngestItem::default()
        }
    }

    fn batch(items: &[IngestItem]) -> Vec<u8> {
        let items = items.iter().map(|item| item.encode_to_vec().into()).collect();
        EncodedBatch { version: event::VERSION, items }.encode_to_vec()
    }

    #[test]
    fn dead_item_keeps_its_users_partition() {
        let names = Names::new("t_");
        let read = dead(batch(&[track("a\0b")]));
        let (item, users) = read.as_ingest_item(&names, 8).unwrap();
        let key = ids::UserKey::External("u");
        assert_eq!(
            (item.project.0, item.name.as_str(), item.reason.as_str()),
            (PROJECT, "event a b", "not_recorded: why")
        );
        assert_eq!((item.user_id, users), (Some(key.internal_id(item.project)), vec![key.internal_id(item.project)]));
        assert_eq!(item.subject, names.ingest(key.partition(item.project, 8)));
        assert_eq!((item.id, item.payload), (read.id(), read.payload.to_vec()));
        assert_eq!((item.created_at, item.died_at), (from_ms(4_000), from_ms(5_000)));
        assert_ne!(read.id(), DeadLetter { seq: 8, ..dead(Vec::new()) }.id());
    }

    #[test]
    fn letters_of_unknown_projects_stay_in_the_stream() {
        let without_project = IngestItem { project_id: Bytes::new(), ..track("a") };
        for payload in [b"\xff".to_vec(), batch(&[]), batch(&[track("a"), track("b")]), batch(&[without_project])] {
            assert_eq!(dead(payload).as_ingest_item(&Names::new(""), 8), None);
        }
    }

    #[test]
    fn dead_message_keeps_its_lane() {
        let direct = DirectMessage {
            project_id: id_bytes(PROJECT),
            message_id: id_bytes(Uuid::from_u128(9)),
            user_ids: vec![id_bytes(Uuid::from_u128(3))],
            channel: "SMS".into(),
            ..DirectMessage::default()
        };
        let chunk = SendChunk { version: send::VERSION, refs: Vec::new(), direct: vec![direct] };
        let (item, users) = dead(chunk.encode_to_vec()).as_direct_message(&Names::new(""), 8).unwrap();
        assert_eq!((item.message_id, item.user_id), (Some(Uuid::from_u128(9)), Some(Uuid::from_u128(3))));
        assert_eq!(users, [Uuid::from_u128(3)]);
        assert_eq!((item.channel, item.subject.as_str()), (Some(Channel::Sms), "send.sms.direct"));
    }
}
