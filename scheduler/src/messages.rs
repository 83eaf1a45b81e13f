//! Messages that somebody has to look at again, handed to delivery: retries, leases that ran out, and hand-overs that
//! never arrived.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::send::{Channel, Lane, MessageRef, SendChunk};
use shared::store::messages::due::{self, DueMessage};
use shared::store::months::Month;
use uuid::Uuid;

use crate::App;
use crate::tick::{self, Found, PROJECTS, TickError};

/// Messages of a project in one look.
const MESSAGES: usize = 2_000;
/// Rows in one message of the send stream.
const CHUNK: usize = 500;
/// When rows that could not be published are taken again.
const AGAIN: Duration = Duration::from_secs(5);

/// One look at what is due. Which of two hand-overs of a row is heeded is decided by the attempt that they name: the
/// first claim moves it on, and the second finds nothing. So a hand-over may be late, lost or repeated.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let due = due::projects(&tick::connection(&app).await?, app.now(), PROJECTS).await?;
    let projects = due.iter().map(|due| due.project).collect();
    let months: HashMap<ProjectId, Vec<Month>> = due.into_iter().map(|due| (due.project, due.months)).collect();
    let months_of = |project| months.get(&project).map_or(&[][..], Vec::as_slice);
    tick::each(&app.failing_messages, projects, |project| hand_over(&app, project, months_of(project))).await
}

async fn hand_over(app: &App, project: ProjectId, months: &[Month]) -> Result<Found, TickError> {
    let now = app.now();
    let due = due::take(&mut app.store.connection().await?, project, months, now, MESSAGES).await?;
    if !due.messages.is_empty() {
        failpoint::hit("scheduler.after_messages_taken");
    }
    let mut chunks = chunks(&due.messages).into_iter();
    while let Some(chunk) = chunks.next() {
        failpoint::hit("scheduler.before_messages_published");
        let payload = SendChunk::of(chunk.refs(project)).encode_to_vec().into();
        if let Err(error) = app.publisher.publish(app.bus.names.send(chunk.channel, chunk.lane), payload).await {
            let left = std::iter::once(chunk).chain(chunks).flat_map(|c| c.rows).collect();
            give_back(app, project, &left).await;
            return Err(error.into());
        }
        failpoint::hit("scheduler.after_messages_published");
    }
    let waiting: Vec<Uuid> = due.messages.iter().filter(|m| m.has_waited).map(|m| m.id).collect();
    if !waiting.is_empty() {
        due::handed_over(&app.store.connection().await?, project, &waiting, now).await?;
    }
    Ok(Found::of(due.count, MESSAGES))
}

/// Without this, what was not published would wait for a minute, like what was.
pub async fn give_back(app: &App, project: ProjectId, left: &BTreeSet<(Uuid, i32)>) {
    let soon = app.now();
    let soon = soon.checked_add(AGAIN).unwrap_or(soon);
    let given_back = async { due::give_back(&app.store.connection().await?, project, left, soon).await };
    if let Err(error) = given_back.await {
        tracing::warn!(%project, %error, "{} messages could not be handed over and come again later", left.len());
    }
}

/// Rows of one message of the send stream.
struct Chunk {
    channel: Channel,
    lane: Lane,
    rows: Vec<(Uuid, i32)>,
}

impl Chunk {
    fn refs(&self, project: ProjectId) -> Vec<MessageRef> {
        self.rows.iter().map(|(id, attempt)| MessageRef::at(project, *id, attempt.unsigned_abs())).collect()
    }
}

/// By channel and lane, direct messages first.
fn chunks(due: &[DueMessage]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for lane in Lane::ALL {
        for channel in Channel::ALL {
            let of_both = |m: &&DueMessage| m.lane == lane && m.channel == channel;
            let rows: Vec<(Uuid, i32)> = due.iter().filter(of_both).map(|m| (m.id, m.attempt)).collect();
            chunks.extend(rows.chunks(CHUNK).map(|rows| Chunk { channel, lane, rows: rows.to_vec() }));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_and_direct_messages_go_first() {
        let of = |n: u128, lane| DueMessage {
            id: Uuid::from_u128(n),
            channel: Channel::Email,
            lane,
            attempt: 2,
            has_waited: false,
        };
        let mut due: Vec<DueMessage> = (0..1_100).map(|n| of(n, Lane::Campaign)).collect();
        due.push(of(5_000, Lane::Direct));
        let chunks = chunks(&due);
        let shape: Vec<(Lane, usize)> = chunks.iter().map(|c| (c.lane, c.rows.len())).collect();
        assert_eq!(shape, [(Lane::Direct, 1), (Lane::Campaign, 500), (Lane::Campaign, 500), (Lane::Campaign, 100)]);
        let refs = chunks.iter().flat_map(|c| c.refs(ProjectId(Uuid::from_u128(1))));
        assert!(refs.into_iter().all(|r| r.attempt == 2));
    }
}
