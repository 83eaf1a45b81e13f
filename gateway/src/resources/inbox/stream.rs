//! `GET /inbox/stream`: streams new messages as server-sent events.
//!
//! A stream polls the database on each change hint and at every heartbeat. The event ID of a message is its position
//! in the inbox, so a disconnected client can resume after the last message it received, at any gateway.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Subscriber;
use bus::Bus;
use database::filter::Start;
use database::{Store, StoreError};
use futures_util::StreamExt;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;
use serde_json::json;
use store_profiles::users::read as people;
use store_profiles::users::user_ref::UserRef;
use store_sending::inbox::{self, InboxFilter, InboxItem};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::streams::StreamSlot;
use super::{ItemView, Owner, ids_of, owner};
use crate::auth::Standing;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::http::stream::{Maker, Pieces};
use crate::resources::paging::Cursor;

/// Shorter than the idle timeout of common proxies.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the stream checks that the client is still authorized and connected.
const STANDING_CHECK: Duration = Duration::from_millis(500);
/// Maximum duration of a stream. The client then reconnects and is authorized again.
const LONGEST: Duration = Duration::from_mins(10);
/// How long to wait for a subscription to the broker.
const SUBSCRIBED: Duration = Duration::from_secs(1);
/// Delay after a hint, which coalesces bursts of hints into one poll.
const AFTER_HINT: Duration = Duration::from_millis(10);
/// Maximum number of messages per poll.
const PORTION: i64 = 50;
/// Delay before clients reconnect, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// `GET /inbox/stream`
pub async fn stream(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let owner = owner(cx, &query).await?;
    // Cross-origin pages cannot send the header.
    let last = [("Last-Event-ID", cx.header("last-event-id")), ("cursor", query.get("cursor"))];
    let behind = last.into_iter().find_map(|(name, text)| Some((name, text?))).map(|(name, text)| {
        Cursor::parse(text).ok_or_else(|| ApiError::invalid(name, "must be the ID of an event of this stream"))
    });
    let behind = behind.transpose()?;
    let db = cx.database().await?;
    let person = people::find_id(&db, cx.project, owner.user()).await?;
    let person = person.or_else(|| owner.user().candidates(cx.project).first().copied()).unwrap_or_default();
    let slot = cx.app.inboxes.enter((cx.project, person), cx.owner)?;
    drop(db);
    // Subscribe before the first poll, so that no change is missed in between.
    let hints = subscribed(&cx.app.bus, cx.project, person).await;
    let behind = match behind {
        Some(behind) => behind,
        None => newest(&cx.database().await?, cx.project, owner.user()).await?,
    };
    let standing = cx.standing();
    let standing = match owner.proven {
        Some(proven) => standing.map(|standing| standing.with_proof(proven.secret)),
        None => standing,
    };
    let until = owner.proven.and_then(|proven| proven.until);
    let proven_for = until.map(|until| until.duration_since(cx.app.clock.now()).unsigned_abs());
    let now = Instant::now();
    let mut following = Following {
        store: cx.app.store.clone(),
        standing,
        shutdown: cx.app.inboxes.shutdown.clone(),
        project: cx.project,
        owner,
        behind,
        unread: None,
        hints,
        ready: VecDeque::from([beginning(behind)]),
        look_at: now,
        check_at: now + STANDING_CHECK,
        end_at: now + proven_for.map_or(LONGEST, |proven| proven.min(LONGEST)),
        _slot: slot,
    };
    let (maker, pieces) = Pieces::new();
    tokio::spawn(async move {
        while let Some(piece) = following.next(&maker).await {
            // A client that does not read must not delay the gateway's shutdown.
            let put = tokio::select! {
                put = maker.put(piece.into_bytes()) => put,
                () = following.shutdown.cancelled() => break,
            };
            if put.is_err() {
                return;
            }
        }
        maker.end().await;
    });
    let reply = Reply::in_pieces(pieces, "text/event-stream; charset=utf-8");
    Ok(reply.with("cache-control", "no-store").with("x-accel-buffering", "no"))
}

/// Returns `None` if the broker is unavailable; the stream then polls at heartbeats only.
async fn subscribed(bus: &Bus, project: ProjectId, person: Uuid) -> Option<Subscriber> {
    if !bus.is_connected() {
        return None;
    }
    let subscribing = bus.client.subscribe(bus.names.inbox(project, person));
    tokio::time::timeout(SUBSCRIBED, subscribing).await.ok()?.ok()
}

/// Returns the position at which a new stream begins: the newest message.
async fn newest(
    db: &database::Connection,
    project: ProjectId,
    user: UserRef<'_>,
) -> Result<(Timestamp, Uuid), StoreError> {
    let filter = InboxFilter { user_ids: ids_of(db, project, user).await?, unread_only: false };
    let newest = inbox::list(db, project, &filter, &Start::Offset(0), 1).await?;
    Ok(newest.first().map_or((Timestamp::UNIX_EPOCH, Uuid::nil()), |item| (item.created_at, item.id)))
}

struct Following {
    store: Store,
    standing: Option<Standing>,
    shutdown: Shutdown,
    project: ProjectId,
    owner: Owner,
    /// Position of the last message sent.
    behind: (Timestamp, Uuid),
    unread: Option<i64>,
    hints: Option<Subscriber>,
    ready: VecDeque<String>,
    look_at: Instant,
    check_at: Instant,
    end_at: Instant,
    _slot: StreamSlot,
}

impl Following {
    /// Returns the next chunk to send, or `None` at the end of the stream.
    async fn next(&mut self, maker: &Maker) -> Option<String> {
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
                    if maker.is_unwanted() || !self.is_let_in().await {
                        return None;
                    }
                    self.check_at = Instant::now() + STANDING_CHECK;
                }
                () = sleep_until(self.look_at) => {
                    self.look_at = Instant::now() + HEARTBEAT;
                    if let Err(error) = self.look().await {
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
                    self.look_at = self.look_at.min(Instant::now() + AFTER_HINT);
                }
            }
        }
    }

    async fn is_let_in(&self) -> bool {
        match &self.standing {
            Some(standing) => standing.holds().await,
            None => true,
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let db = self.store.connection().await?;
        // Resolve the IDs on each poll, since the user may have been merged.
        let user_ids = ids_of(&db, self.project, self.owner.user()).await?;
        let arrived = inbox::after(&db, self.project, &user_ids, self.behind, PORTION).await?;
        if arrived.len() as i64 == PORTION {
            self.look_at = Instant::now();
        }
        for item in arrived {
            self.behind = (item.created_at, item.id);
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
fn beginning(place: (Timestamp, Uuid)) -> String {
    format!("id: {}\nretry: {RETRY_MS}\n\n", place.text())
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
    fn the_beginning_is_a_place_to_go_on_from() {
        let place = (Timestamp::UNIX_EPOCH, Uuid::nil());
        let text = beginning(place);
        let id = text.strip_prefix("id: ").and_then(|rest| rest.strip_suffix("\nretry: 2000\n\n"));
        assert_eq!(id.and_then(Cursor::parse), Some(place), "{text:?}");
    }

    #[test]
    fn an_event_is_one_block_whatever_it_says() {
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
