//! Limits long-running work in one gateway and shares its slots between the owners of projects.
//!
//! An owner may take a slot while it holds fewer than are free, up to a limit. Each new owner thus leaves some for the next one,
//! and no owner fills the gateway, whatever the number of its projects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::ids::OwnerId;

#[derive(Default)]
struct Held {
    by_owner: HashMap<OwnerId, usize>,
    total: usize,
}

type Shared = Arc<Mutex<Held>>;

pub struct Slots {
    held: Shared,
    capacity: usize,
    per_owner: usize,
}

/// A slot, released when dropped.
pub struct Slot {
    owner: OwnerId,
    held: Shared,
}

/// The reason why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// All slots are taken.
    Gateway,
    /// The owner holds its share.
    Owner,
}

fn locked(held: &Shared) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    pub fn new(capacity: usize, per_owner: usize) -> Self {
        Self { held: Arc::default(), capacity, per_owner }
    }

    pub fn take(&self, owner: OwnerId) -> Result<Slot, NoSlot> {
        let mut held = locked(&self.held);
        let own = held.by_owner.get(&owner).copied().unwrap_or(0);
        let free = self.capacity.saturating_sub(held.total);
        if own >= self.per_owner {
            return Err(NoSlot::Owner);
        }
        if free == 0 {
            return Err(NoSlot::Gateway);
        }
        if own >= free {
            return Err(NoSlot::Owner);
        }
        *held.by_owner.entry(owner).or_default() += 1;
        held.total += 1;
        Ok(Slot { owner, held: self.held.clone() })
    }

    /// Returns the number of slots that are taken.
    pub fn taken(&self) -> usize {
        locked(&self.held).total
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = locked(&self.held);
        held.total -= 1;
        if let Some(own) = held.by_owner.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                held.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn owner(n: u128) -> OwnerId {
        OwnerId(Uuid::from_u128(n))
    }

    #[test]
    fn busy_owners_leave_slots_for_other_owners() {
        let slots = Slots::new(8, 2);
        let mut held = Vec::new();
        for n in 1..=3 {
            held.extend((0..2).map(|_| slots.take(owner(n)).ok().unwrap()));
            assert_eq!(slots.take(owner(n)).err(), Some(NoSlot::Owner));
        }
        held.push(slots.take(owner(4)).ok().unwrap());
        assert_eq!(slots.take(owner(4)).err(), Some(NoSlot::Owner));
        held.push(slots.take(owner(5)).ok().unwrap());
        assert_eq!(slots.take(owner(6)).err(), Some(NoSlot::Gateway));
        assert_eq!(slots.taken(), 8);
        held.clear();
        assert!(slots.taken() == 0 && locked(&slots.held).by_owner.is_empty());
    }

    #[test]
    fn one_owner_holds_at_most_half_of_the_slots() {
        let slots = Slots::new(9, 9);
        let held: Vec<Slot> = std::iter::from_fn(|| slots.take(owner(1)).ok()).collect();
        assert_eq!(held.len(), 5);
    }
}
