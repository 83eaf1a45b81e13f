//! Decides which provider calls may start. Pure.
//!
//! Slots for calls are shared between owners, see [`FairShare`]: whatever is free goes to an owner with few calls under way,
//! however long the calls of another take.
//!
//! The outcome of a call is still to be written when its slot is free again. A project may have only so many unwritten outcomes:
//! where they cannot be written, no more calls are begun.

use std::collections::HashMap;

use shared::fair_share::FairShare;
use shared::ids::{OwnerId, ProjectId};
use shared::send::Lane;

/// Messages of a project that may be begun and not written: more than are under way at a time and are written together.
const UNSETTLED: usize = 2_048;

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub owner: OwnerId,
    pub project: ProjectId,
}

/// The pool that a call's slot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Kept for direct messages.
    Direct,
    Common,
}

/// The slots of all calls.
#[derive(Debug)]
pub struct InHand {
    direct: FairShare,
    common: FairShare,
    /// How many are begun of each project that has any, and not settled.
    begun: HashMap<ProjectId, usize>,
}

impl InHand {
    /// For `total` calls of one owner at a time, at least 2, and an eighth more for the others. A quarter is kept for direct
    /// messages, so that they never wait behind the other lanes; they may use the rest too.
    pub fn new(total: usize) -> Self {
        let direct = (total / 4).max(1);
        let common = total.saturating_sub(direct).max(1);
        Self { direct: FairShare::new(direct), common: FairShare::new(common), begun: HashMap::new() }
    }

    /// Takes a slot for a call, if the tenant's share has one.
    pub fn take(&mut self, lane: Lane, of: Tenant) -> Option<Pool> {
        if self.begun.get(&of.project).is_some_and(|begun| *begun >= UNSETTLED) {
            return None;
        }
        let pools: &[Pool] = match lane {
            Lane::Direct => &[Pool::Direct, Pool::Common],
            Lane::Automation | Lane::Campaign => &[Pool::Common],
        };
        let pool = pools.iter().copied().find(|pool| self.share(*pool).take(of.owner))?;
        *self.begun.entry(of.project).or_default() += 1;
        Some(pool)
    }

    /// A call has ended, and its slot is free.
    pub fn release(&mut self, pool: Pool, owner: OwnerId) {
        self.share(pool).release(owner);
    }

    /// What came of a message is written, or nothing was begun after all. Returns whether more may be begun just for that.
    pub fn settled(&mut self, project: ProjectId) -> bool {
        let Some(begun) = self.begun.get_mut(&project) else { return false };
        let was_full = *begun >= UNSETTLED;
        *begun -= 1;
        if *begun == 0 {
            self.begun.remove(&project);
        }
        was_full
    }

    /// Whether a project has begun some that are not settled.
    pub fn has_begun(&self, project: ProjectId) -> bool {
        self.begun.contains_key(&project)
    }

    fn share(&mut self, pool: Pool) -> &mut FairShare {
        match pool {
            Pool::Direct => &mut self.direct,
            Pool::Common => &mut self.common,
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn project(n: u128) -> ProjectId {
        ProjectId(Uuid::from_u128(n))
    }

    /// An owner with one project.
    fn tenant(n: u128) -> Tenant {
        Tenant { owner: project(n).into(), project: project(n) }
    }

    /// How many a project gets until there is no room for it.
    fn filled(in_hand: &mut InHand, lane: Lane, n: u128) -> usize {
        std::iter::from_fn(|| in_hand.take(lane, tenant(n))).count()
    }

    #[test]
    fn a_project_alone_has_all() {
        for (total, common) in [(2, 1), (3, 2), (8, 6), (32, 24), (1_024, 768)] {
            assert_eq!(filled(&mut InHand::new(total), Lane::Campaign, 1), common);
            assert_eq!(filled(&mut InHand::new(total), Lane::Direct, 1), total);
        }
    }

    #[test]
    fn direct_messages_find_room_beside_the_other_lanes() {
        let mut in_hand = InHand::new(32);
        assert_eq!(filled(&mut in_hand, Lane::Campaign, 1), 24);
        assert!(filled(&mut in_hand, Lane::Direct, 1) >= 8);
    }

    #[test]
    fn some_room_is_left_for_the_others() {
        for total in [2, 32, 1_024] {
            let mut in_hand = InHand::new(total);
            filled(&mut in_hand, Lane::Campaign, 1);
            filled(&mut in_hand, Lane::Direct, 1);
            let second = filled(&mut in_hand, Lane::Direct, 2);
            assert!(second >= (total / 16).max(1), "{second} of {total}");
        }
        let mut in_hand = InHand::new(1_024);
        let shares: Vec<usize> = (1..=3).map(|n| filled(&mut in_hand, Lane::Direct, n)).collect();
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    }

    #[test]
    fn projects_of_one_owner_share_its_slots() {
        let mut in_hand = InHand::new(32);
        let of_one_owner = |n| Tenant { owner: project(1).into(), project: project(n) };
        let taken =
            (1..=20).flat_map(|n| [of_one_owner(n); 4]).filter(|of| in_hand.take(Lane::Direct, *of).is_some()).count();
        assert_eq!(taken, 32, "of 20 projects no more than of one");
        assert!(in_hand.take(Lane::Direct, tenant(99)).is_some());
        assert!(in_hand.take(Lane::Campaign, tenant(99)).is_some());
    }

    #[test]
    fn a_share_shrinks_when_others_ask_and_grows_again() {
        let mut in_hand = InHand::new(32);
        filled(&mut in_hand, Lane::Campaign, 1);
        let second = filled(&mut in_hand, Lane::Campaign, 2);
        assert!((1..=3).contains(&second), "{second}");
        // What the first gives back is the other's before it is the first's again.
        for _ in 0..12 {
            in_hand.release(Pool::Common, tenant(1).owner);
        }
        let more = filled(&mut in_hand, Lane::Campaign, 2);
        assert!(more >= 8, "{more}");
        for _ in 0..second + more {
            in_hand.release(Pool::Common, tenant(2).owner);
        }
        assert_eq!(filled(&mut in_hand, Lane::Campaign, 1), 12);
    }

    #[test]
    fn who_has_begun_something_has_until_it_is_settled() {
        let mut in_hand = InHand::new(8);
        let pool = in_hand.take(Lane::Direct, tenant(1)).unwrap();
        assert!(in_hand.has_begun(project(1)) && !in_hand.has_begun(project(2)));
        in_hand.release(pool, tenant(1).owner);
        assert!(in_hand.has_begun(project(1)), "what came of it is not written");
        in_hand.settled(project(1));
        assert!(!in_hand.has_begun(project(1)));
    }

    #[test]
    fn no_more_is_begun_while_too_much_is_not_written() {
        let mut in_hand = InHand::new(8);
        let mut begun = 0;
        while let Some(pool) = in_hand.take(Lane::Direct, tenant(1)) {
            in_hand.release(pool, tenant(1).owner);
            begun += 1;
        }
        assert_eq!(begun, UNSETTLED);
        assert!(in_hand.take(Lane::Direct, tenant(2)).is_some(), "others go on");
        assert!(in_hand.settled(project(1)));
        assert!(!in_hand.settled(project(1)), "there was room already");
        assert_eq!(filled(&mut in_hand, Lane::Campaign, 1), 2);
    }
}
