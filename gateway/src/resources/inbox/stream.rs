//! `GET /inbox/stream`: streams new messages as server-sent events.
//!
//! A stream polls the database on each change hint and at every heartbeat. The event ID of a message is its position
//! in the inbox, so a disconnected client can resume after the last message it received, at any gateway.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Subscriber;
use bus::Bus;
use database::filter::PageStart;
use database::{Store, StoreError};
use futures_util::StreamExt;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;
use serde_json::json;
use store_profiles::users::read as users;
use store_profiles::users::user_ref::UserRef;
use store_sending::inbox::{self, InboxFilter, InboxItem};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::streams::StreamSlot;
use super::{InboxUser, ItemView, ids_of, inbox_user};
use crate::auth::Authorization;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::http::stream::{BodyWriter, StreamedBody};
use crate::resources::paging::Cursor;

/// Shorter than the idle timeout of common proxies.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the stream checks that the client is still authorized and connected.
const AUTHORIZATION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum duration of a stream. The client then reconnects and is authorized again.
const MAX_DURATION: Duration = Duration::from_mins(10);
/// How long to wait for a subscription to the broker.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay after a hint, which coalesces bursts of hints into one poll.
const HINT_DELAY: Duration = Duration::from_millis(10);
/// Maximum number of messages per poll.
const POLL_LIMIT: i64 = 50;
/// Delay before clients reconnect, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// `GET /inbox/stream`
pub async fn stream(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let inbox_user = inbox_user(cx, &query).await?;
    // Cross-origin pages cannot send the header.
    let last = [("Last-Event-ID", cx.header("last-event-id")), ("cursor", query.get("cursor"))];
    let position = last.into_iter().find_map(|(name, text)| Some((name, text?))).map(|(name, text)| {
        Cursor::parse(text).ok_or_else(|| ApiError::invalid(name, "must be the ID of an event of this stream"))
    });
    let position = position.transpose()?;
    let db = cx.database().await?;
    let user_id = users::find_id(&db, cx.project, inbox_user.user()).await?;
    let user_id = user_id.or_else(|| inbox_user.user().candidates(cx.project).first().copied()).unwrap_or_default();
    let slot = cx.app.inbox_streams.claim((cx.project, user_id), cx.owner)?;
    drop(db);
    // Subscribe before the first poll, so that no change is missed in between.
    let hints = subscribe(&cx.app.bus, cx.project, user_id).await;
    let position = match position {
        Some(position) => position,
        None => newest_position(&cx.database().await?, cx.project, inbox_user.user()).await?,
    };
    let authorization = cx.authorization();
    let authorization = match inbox_user.proven {
        Some(proven) => authorization.map(|authorization| authorization.with_proof(proven.secret)),
        None => authorization,
    };
    let until = inbox_user.proven.and_then(|proven| proven.until);
    let proven_for = until.map(|until| until.duration_since(cx.app.clock.now()).unsigned_abs());
    let now = Instant::now();
    let mut inbox_stream = InboxStream {
        store: cx.app.store.clone(),
        authorization,
        shutdown: cx.app.inbox_streams.shutdown.clone(),
        project: cx.project,
        inbox_user,
        position,
        unread: None,
        hints,
        ready: VecDeque::from([first_event(position)]),
        poll_at: now,
        check_at: now + AUTHORIZATION_CHECK_INTERVAL,
        end_at: now + proven_for.map_or(MAX_DURATION, |proven| proven.min(MAX_DURATION)),
        _slot: slot,
    };
    let (writer, stream) = StreamedBody::new();
    tokio::spawn(async move {
        while let Some(piece) = inbox_stream.next(&writer).await {
            // A client that does not read must not delay the gateway's shutdown.
            let put = tokio::select! {
                put = writer.send(piece.into_bytes()) => put,
                () = inbox_stream.shutdown.cancelled() => break,
            };
            if put.is_err() {
                return;
            }
        }
        writer.finish().await;
    });
    let reply = Reply::streamed(stream, "text/event-stream; charset=utf-8");
    Ok(reply.with("cache-control", "no-store").with("x-accel-buffering", "no"))
}

/// Returns `None` if the broker is unavailable; the stream then polls at heartbeats only.
async fn subscribe(bus: &Bus, project: ProjectId, user_id: Uuid) -> Option<Subscriber> {
    if !bus.is_connected() {
        return None;
    }
    let subscribing = bus.client.subscribe(bus.names.inbox(project, user_id));
    tokio::time::timeout(SUBSCRIBE_TIMEOUT, subscribing).await.ok()?.ok()
}

/// Returns the position at which a new stream begins: the newest message.
async fn newest_position(
    db: &database::Connection,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<(Timestamp, Uuid), StoreError> {
    let filter = InboxFilter { user_ids: ids_of(db, project, user).await?, unread_only: false };
    let newest = inbox::list(db, project, &filter, &PageStart::Offset(0), 1).await?;
    Ok(newest.first().map_or((Timestamp::UNIX_EPOCH, Uuid::nil()), |item| (item.created_at, item.id)))
}

struct InboxStream {
    store: Store,
    authorization: Option<Authorization>,
    shutdown: Shutdown,
    project: ProjectId,
    inbox_user: InboxUser,
    /// Position of the last message sent.
    position: (Timestamp, Uuid),
    unread: Option<i64>,
    hints: Option<Subscriber>,
    ready: VecDeque<String>,
    poll_at: Instant,
    check_at: Instant,
    end_at: Instant,
    _slot: StreamSlot,
}

impl InboxStream {
    /// Returns the next chunk to send, or `None` at the end of the stream.
    async fn next(&mut self, writer: &BodyWriter) -> Option<String> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            let hinted = async {
                match &mut self.hints {
                    Some(hints) => hints.next().await.is_some(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                () = sleep_until(self.end_at) => return None,
                () = sleep_until(self.check_at) => {
                    if writer.is_disconnected() || !self.is_authorized().await {
                        return None;
                    }
                    self.check_at = Instant::now() + AUTHORIZATION_CHECK_INTERVAL;
                }
                () = sleep_until(self.poll_at) => {
                    self.poll_at = Instant::now() + HEARTBEAT;
                    if let Err(error) = self.poll().await {
                        tracing::debug!(%error, "inbox poll failed");
                    }
                    if self.ready.is_empty() {
                        self.ready.push_back(": heartbeat\n\n".to_owned());
                    }
                }
                alive = hinted => {
                    if !alive {
                        self.hints = None;
                    }
                    self.poll_at = self.poll_at.min(Instant::now() + HINT_DELAY);
                }
            }
        }
    }

    async fn is_authorized(&self) -> bool {
        match &self.authorization {
            Some(authorization) => authorization.is_valid().await,
            None => true,
        }
    }

    async fn poll(&mut self) -> Result<(), StoreError> {
        let db = self.store.connection().await?;
        // Resolve the IDs on each poll, since the user may have been merged.
        let user_ids = ids_of(&db, self.project, self.inbox_user.user()).await?;
        let arrived = inbox::after(&db, self.project, &user_ids, self.position, POLL_LIMIT).await?;
        if arrived.len() as i64 == POLL_LIMIT {
            self.poll_at = Instant::now();
        }
        for item in arrived {
            self.position = (item.created_at, item.id);
            self.ready.push_back(message(item));
        }
        let unread = inbox::total(&db, self.project, &InboxFilter { user_ids, unread_only: true }).await?.count;
        if self.unread.replace(unread) != Some(unread) {
            self.ready.push_back(event("unread", None, &json!({ "unread": unread })));
        }
        Ok(())
    }
}

/// Returns the stream's first event ID, so that a client disconnected before the first message can resume too.
fn first_event(position: (Timestamp, Uuid)) -> String {
    format!("id: {}\nretry: {RETRY_MS}\n\n", position.text())
}

fn message(item: InboxItem) -> String {
    let id = (item.created_at, item.id).text();
    event("message", Some(&id), &ItemView::from(item))
}

/// Formats an event. JSON contains no raw line breaks, so `data` is one line.
fn event(kind: &str, id: Option<&str>, data: &impl serde::Serialize) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_event_id_can_be_resumed_from() {
        let position = (Timestamp::UNIX_EPOCH, Uuid::nil());
        let text = first_event(position);
        let id = text.strip_prefix("id: ").and_then(|rest| rest.strip_suffix("\nretry: 2000\n\n"));
        assert_eq!(id.and_then(Cursor::parse), Some(position), "{text:?}");
    }

    #[test]
    fn event_is_one_block_for_any_content() {
        let item = InboxItem {
            id: Uuid::from_u128(7),
            title: "a\n\nb".to_owned(),
            body: "data: x\r\n\u{2028}".to_owned(),
            created_at: Timestamp::from_microsecond(1_700_000_000_000_001).unwrap(),
            read_at: None,
        };
        let text = message(item.clone());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text:?}");
        assert_eq!(lines[..2], ["id: 1700000000000001_00000000-0000-0000-0000-000000000007", "event: message"]);
        let data: serde_json::Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&data["title"], &data["readAt"]), (&json!("a\n\nb"), &json!(null)));
        assert_eq!(Cursor::parse(lines[0].strip_prefix("id: ").unwrap()), Some((item.created_at, item.id)));
    }
}
