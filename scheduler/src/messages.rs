//! Messages that somebody has to look at again, handed to delivery: retries, leases that ran out, and hand-overs that
//! never arrived.

use std::sync::Arc;

use prost::Message as _;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::send::{Channel, Lane, MessageRef, SendChunk};
use shared::store::messages::due::{self, DueMessage};

use crate::App;
use crate::tick::{Found, TickError};

/// Projects in one look, and messages of each.
const PROJECTS: i64 = 100;
const MESSAGES: usize = 2_000;
/// Rows in one message of the send stream.
const CHUNK: usize = 500;

/// One look at what is due. Which of two hand-overs of a row is heeded is decided by the attempt that they name: the
/// first claim moves it on, and the second finds nothing. So a hand-over may be late, lost or repeated.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    let projects = due::projects(&app.store.connection().await?, app.clock.now(), PROJECTS).await?;
    let mut found = Found::of(projects.len(), PROJECTS as usize);
    for project in projects {
        found = found.and(hand_over(&app, project).await?);
    }
    Ok(found)
}

async fn hand_over(app: &App, project: ProjectId) -> Result<Found, TickError> {
    let now = app.clock.now();
    let due = due::take(&app.store.connection().await?, project, now, MESSAGES as i64).await?;
    if due.is_empty() {
        return Ok(Found::Nothing);
    }
    failpoint::hit("scheduler.after_claim");
    for (channel, lane, refs) in chunks(project, &due) {
        failpoint::hit("scheduler.before_publish");
        let payload = SendChunk::of(refs).encode_to_vec().into();
        app.publisher.publish(app.bus.names.send(channel, lane), payload).await?;
        failpoint::hit("scheduler.after_publish");
    }
    Ok(Found::of(due.len(), MESSAGES))
}

/// By channel and lane, direct messages first.
fn chunks(project: ProjectId, due: &[DueMessage]) -> Vec<(Channel, Lane, Vec<MessageRef>)> {
    let mut chunks = Vec::new();
    for lane in Lane::ALL {
        for channel in Channel::ALL {
            let refs: Vec<MessageRef> = due
                .iter()
                .filter(|m| m.lane == lane && m.channel == channel)
                .map(|m| MessageRef::at(project, m.id, m.attempt.unsigned_abs()))
                .collect();
            chunks.extend(refs.chunks(CHUNK).map(|refs| (channel, lane, refs.to_vec())));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn chunks_are_bounded_and_direct_messages_go_first() {
        let of = |n: u128, lane| DueMessage { id: Uuid::from_u128(n), channel: Channel::Email, lane, attempt: 2 };
        let mut due: Vec<DueMessage> = (0..1_100).map(|n| of(n, Lane::Campaign)).collect();
        due.push(of(5_000, Lane::Direct));
        let chunks = chunks(ProjectId(Uuid::from_u128(1)), &due);
        let shape: Vec<(Lane, usize)> = chunks.iter().map(|(_, lane, refs)| (*lane, refs.len())).collect();
        assert_eq!(shape, [(Lane::Direct, 1), (Lane::Campaign, 500), (Lane::Campaign, 500), (Lane::Campaign, 100)]);
        assert!(chunks.iter().flat_map(|c| &c.2).all(|r| r.attempt == 2));
    }
}
