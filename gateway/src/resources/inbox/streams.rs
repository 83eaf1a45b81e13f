//! Open inbox streams: limited per gateway, per owner and per inbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::Bus;
use bytes::Bytes;
use kernel::ids::{OwnerId, ProjectId};
use kernel::shutdown::Shutdown;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::limits::slots::{NoSlot, Slot, Slots};

/// Maximum number of streams per inbox: a user's tabs and devices.
const PER_INBOX: usize = 10;

type Inbox = (ProjectId, Uuid);
type Open = Arc<Mutex<HashMap<Inbox, usize>>>;

/// The open streams of this gateway.
pub struct InboxStreams {
    open: Open,
    slots: Slots,
    /// Ends all streams, so that clients reconnect to another gateway.
    pub shutdown: Shutdown,
}

/// A slot for one stream, released on drop.
pub struct StreamSlot {
    inbox: Inbox,
    open: Open,
    _slot: Slot,
}

fn locked(open: &Open) -> MutexGuard<'_, HashMap<Inbox, usize>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InboxStreams {
    pub fn new(capacity: usize, shutdown: Shutdown) -> Self {
        Self { open: Open::default(), slots: Slots::new(capacity, capacity), shutdown }
    }

    /// Claims a slot. Fails if the inbox, the owner or the gateway has reached its limit.
    pub fn claim(&self, inbox: Inbox, owner: OwnerId) -> Result<StreamSlot, ApiError> {
        let mut open = locked(&self.open);
        if open.get(&inbox).is_some_and(|own| *own >= PER_INBOX) {
            return Err(ApiError::TooMany("this inbox has reached its limit of 10 open streams; close one"));
        }
        let slot = self.slots.take(owner).map_err(|full| match full {
            NoSlot::Gateway => ApiError::Unavailable("this gateway has reached its limit of open inbox streams"),
            NoSlot::Owner => ApiError::TooMany(
                "this project and its creator's other projects have reached their limit of open inbox streams",
            ),
        })?;
        *open.entry(inbox).or_default() += 1;
        Ok(StreamSlot { inbox, open: self.open.clone(), _slot: slot })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = locked(&self.open);
        if let Some(own) = open.get_mut(&self.inbox) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.inbox);
            }
        }
    }
}

/// Notifies the streams of these inboxes, at every gateway, of a change. The hint may be lost.
pub async fn announce(bus: &Bus, project: ProjectId, users: &[Uuid]) {
    if !bus.is_connected() {
        return;
    }
    for user in users {
        let _ = bus.client.publish(bus.names.inbox(project, *user), Bytes::new()).await;
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_limited_per_inbox_and_owner() {
        let owner = |n| OwnerId(Uuid::from_u128(n));
        let inbox = |project, n| (ProjectId(Uuid::from_u128(project)), Uuid::from_u128(n));
        let inbox_streams = InboxStreams::new(24, Shutdown::new());
        let mut held: Vec<StreamSlot> =
            (0..PER_INBOX).map(|_| inbox_streams.claim(inbox(0, 1), owner(0)).ok().unwrap()).collect();
        assert_eq!(inbox_streams.claim(inbox(0, 1), owner(0)).err().unwrap().status().as_u16(), 429);
        // The projects of one owner share half of the slots.
        held.extend((0..2).map(|n| inbox_streams.claim(inbox(1, n), owner(0)).ok().unwrap()));
        assert_eq!(inbox_streams.claim(inbox(2, 1), owner(0)).err().unwrap().status().as_u16(), 429);
        held.extend((0..6).map(|n| inbox_streams.claim(inbox(3, n), owner(1)).ok().unwrap()));
        assert_eq!(inbox_streams.claim(inbox(3, 9), owner(1)).err().unwrap().status().as_u16(), 429);
        held.push(inbox_streams.claim(inbox(4, 1), owner(2)).ok().unwrap());
        held.clear();
        assert!(locked(&inbox_streams.open).is_empty() && inbox_streams.slots.taken() == 0);
    }
}
