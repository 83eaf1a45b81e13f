//! Shares slots for calls to other systems fairly between the owners of projects. Pure.
//!
//! An owner may hold at most eight times as many slots as are free, and at most its own limit. The total number of
//! slots exceeds that limit by an eighth. So a single owner gets its full limit, and an owner without slots always
//! finds one, however long the calls of others take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::OwnerId;

/// Slots that an owner may hold for each free one.
const PER_FREE: usize = 8;

#[derive(Debug)]
pub struct FairShare {
    per_owner: usize,
    free: usize,
    held: HashMap<OwnerId, usize>,
}

impl FairShare {
    /// Creates `per_owner` slots for one owner, and an eighth more for the others.
    pub fn new(per_owner: usize) -> Self {
        Self { per_owner, free: per_owner + per_owner.div_ceil(PER_FREE), held: HashMap::new() }
    }

    /// Returns the number of slots that an owner holds.
    pub fn held(&self, owner: OwnerId) -> usize {
        self.held.get(&owner).copied().unwrap_or(0)
    }

    /// Returns how many slots an owner can take now.
    pub fn available(&self, owner: OwnerId) -> usize {
        let held = self.held(owner);
        // Each slot taken leaves one fewer free: held + n < PER_FREE * (free - n).
        let share = (PER_FREE * self.free).saturating_sub(held).div_ceil(PER_FREE + 1);
        share.min(self.per_owner.saturating_sub(held))
    }

    /// Takes a slot for an owner; returns false if its share is used up.
    pub fn take(&mut self, owner: OwnerId) -> bool {
        if self.held(owner) >= self.per_owner.min(PER_FREE * self.free) {
            return false;
        }
        self.free -= 1;
        *self.held.entry(owner).or_default() += 1;
        true
    }

    pub fn release(&mut self, owner: OwnerId) {
        let Some(held) = self.held.get_mut(&owner) else { return };
        self.free += 1;
        *held -= 1;
        if *held == 0 {
            self.held.remove(&owner);
        }
    }
}

/// The slots of one process, shared by [`FairShare`].
#[derive(Clone, Debug)]
pub struct FairSlots(Arc<Mutex<FairShare>>);

/// A slot. Dropping it releases it.
#[derive(Debug)]
pub struct FairSlot {
    owner: OwnerId,
    slots: FairSlots,
}

impl FairSlots {
    /// See [`FairShare::new`].
    pub fn new(per_owner: usize) -> Self {
        Self(Arc::new(Mutex::new(FairShare::new(per_owner))))
    }

    /// Takes a slot if the owner's share allows one now.
    pub fn take(&self, owner: OwnerId) -> Option<FairSlot> {
        self.share().take(owner).then(|| FairSlot { owner, slots: self.clone() })
    }

    /// Returns the number of slots that an owner holds.
    pub fn held(&self, owner: OwnerId) -> usize {
        self.share().held(owner)
    }

    fn share(&self) -> MutexGuard<'_, FairShare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        self.slots.share().release(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn owner(n: u128) -> OwnerId {
        OwnerId(Uuid::from_u128(n))
    }

    /// Takes slots for an owner until it gets no more; returns how many.
    fn filled(share: &mut FairShare, n: u128) -> usize {
        let available = share.available(owner(n));
        let taken = (0..10_000).take_while(|_| share.take(owner(n))).count();
        assert_eq!(available, taken);
        taken
    }

    #[test]
    fn single_owner_gets_its_limit_and_leaves_slots() {
        for per_owner in [1, 2, 8, 64, 512] {
            let mut share = FairShare::new(per_owner);
            assert_eq!(filled(&mut share, 1), per_owner);
            assert!(filled(&mut share, 2) >= (per_owner / 16).max(1), "{per_owner}");
        }
    }

    #[test]
    fn released_slots_go_to_owner_with_fewer() {
        let mut share = FairShare::new(64);
        let (first, second) = (filled(&mut share, 1), filled(&mut share, 2));
        for _ in 0..16 {
            share.release(owner(1));
            filled(&mut share, 2);
            assert_eq!(filled(&mut share, 1), 0, "the first owner has more than its share");
        }
        assert!(share.held(owner(2)) > second);
        for _ in 16..first {
            share.release(owner(1));
        }
        filled(&mut share, 2);
        assert_eq!(share.held(owner(2)), 64);
        for _ in 0..64 {
            share.release(owner(2));
        }
        assert_eq!(share.free, 72, "the total number of slots is unchanged");
        share.release(owner(2));
        assert_eq!((share.free, share.held.len()), (72, 0), "an owner without slots releases none");
    }
}
