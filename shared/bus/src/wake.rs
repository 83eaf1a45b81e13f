//! Hints that queues have due messages, so that workers need not wait for their next poll. A hint may be lost.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use super::Bus;
use domain::message::{Channel, Lane, Queue};
use kernel::ids::ProjectId;

/// Bytes per queue in a hint: its lane and its project.
const ENTRY_BYTES: usize = 17;
/// Maximum number of queues in one hint.
const MAX_QUEUES_PER_HINT: usize = 1_000;

/// Notifies the workers of these queues' channels. Failure is harmless, because workers poll.
pub async fn wake(bus: &Bus, queues: &[Queue]) {
    if !bus.is_connected() {
        return;
    }
    let mut of_channel: BTreeMap<Channel, Vec<&Queue>> = BTreeMap::new();
    for queue in queues {
        of_channel.entry(queue.channel).or_default().push(queue);
    }
    for (channel, queues) in of_channel {
        for part in queues.chunks(MAX_QUEUES_PER_HINT) {
            if let Err(error) = bus.client.publish(bus.names.send_due(channel), encode(part)).await {
                tracing::debug!(%error, "cannot notify the workers of a channel");
            }
        }
    }
}

fn encode(queues: &[&Queue]) -> Bytes {
    let mut bytes = Vec::with_capacity(queues.len() * ENTRY_BYTES);
    for queue in queues {
        bytes.push(Lane::ALL.iter().position(|lane| *lane == queue.lane).map_or(0, |at| at as u8));
        bytes.extend_from_slice(queue.project.0.as_bytes());
    }
    bytes.into()
}

/// Returns the queues that a hint about a channel names. Ignores entries that cannot be decoded.
pub fn queues(channel: Channel, hint: &[u8]) -> Vec<Queue> {
    let (entries, _) = hint.as_chunks::<ENTRY_BYTES>();
    let queue = |entry: &[u8; ENTRY_BYTES]| {
        let lane = *Lane::ALL.get(usize::from(entry[0]))?;
        let project = ProjectId(Uuid::from_slice(&entry[1..]).ok()?);
        Some(Queue { project, channel, lane })
    };
    entries.iter().filter_map(queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_round_trip_and_invalid_hint_is_ignored() {
        let queue = |n, lane| Queue { project: ProjectId(Uuid::from_u128(n)), channel: Channel::Push, lane };
        let queues_in = [queue(1, Lane::Direct), queue(2, Lane::Campaign)];
        let hint = encode(&queues_in.iter().collect::<Vec<_>>());
        assert_eq!(queues(Channel::Push, &hint), queues_in);
        assert_eq!(queues(Channel::Push, &hint[..20]), queues_in[..1]);
        assert_eq!(queues(Channel::Push, &[9; 17]), []);
        assert_eq!(queues(Channel::Push, b"x"), []);
    }
}
