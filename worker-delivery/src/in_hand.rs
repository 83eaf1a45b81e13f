//! What of each project is in hand at its providers, and how much more may be. Pure.
//!
//! A project may have so much in hand as stands in proportion to what is still free: alone all that is meant to be in hand at a
//! time, among others less. So some room is left for whoever has little in hand, however long the calls of one other take.
//!
//! What came of a call is still to be written when its place is free again. Of that, too, a project may have only so much: where
//! it cannot be written, no more is begun.

use std::collections::HashMap;

use shared::ids::ProjectId;
use shared::send::Lane;

/// For each place that is free a project may hold so many.
const TO_ONE_FREE: usize = 8;
/// So many messages of a project may be begun and not written down: more than are in hand at a time and are written together.
const UNSETTLED: usize = 2_048;

/// Where a call has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Kept for direct messages.
    Direct,
    Common,
}

/// The places of all calls.
#[derive(Debug)]
pub struct InHand {
    direct: Places,
    common: Places,
    /// How many are begun of each project that has any, and not settled.
    begun: HashMap<ProjectId, usize>,
}

#[derive(Debug)]
struct Places {
    /// As many as one project may hold.
    alone: usize,
    free: usize,
    held: HashMap<ProjectId, usize>,
}

impl Places {
    fn new(alone: usize) -> Self {
        Self { alone, free: alone + alone.div_ceil(TO_ONE_FREE), held: HashMap::new() }
    }

    fn has_room_for(&self, project: ProjectId) -> bool {
        let held = self.held.get(&project).copied().unwrap_or(0);
        held < self.alone.min(TO_ONE_FREE * self.free)
    }

    fn take(&mut self, project: ProjectId) {
        self.free -= 1;
        *self.held.entry(project).or_default() += 1;
    }

    fn give_back(&mut self, project: ProjectId) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(&project) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&project);
            }
        }
    }
}

impl InHand {
    /// For `total` calls of one project at a time, at least 2, and an eighth more for the others. A quarter is kept for direct
    /// messages, so that they never wait behind the other lanes; they may use the rest too.
    pub fn new(total: usize) -> Self {
        let direct = (total / 4).max(1);
        let common = total.saturating_sub(direct).max(1);
        Self { direct: Places::new(direct), common: Places::new(common), begun: HashMap::new() }
    }

    /// Takes a place for a call, if there is one for that project.
    pub fn take(&mut self, lane: Lane, project: ProjectId) -> Option<Pool> {
        if self.begun.get(&project).is_some_and(|begun| *begun >= UNSETTLED) {
            return None;
        }
        let pools: &[Pool] = match lane {
            Lane::Direct => &[Pool::Direct, Pool::Common],
            Lane::Automation | Lane::Campaign => &[Pool::Common],
        };
        let pool = pools.iter().copied().find(|pool| self.places(*pool).has_room_for(project))?;
        self.places(pool).take(project);
        *self.begun.entry(project).or_default() += 1;
        Some(pool)
    }

    /// A call has ended, and its place is free.
    pub fn give_back(&mut self, pool: Pool, project: ProjectId) {
        self.places(pool).give_back(project);
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

    fn places(&mut self, pool: Pool) -> &mut Places {
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

    /// How many a project gets until there is no room for it.
    fn filled(in_hand: &mut InHand, lane: Lane, n: u128) -> usize {
        std::iter::from_fn(|| in_hand.take(lane, project(n))).count()
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
    fn a_share_shrinks_when_others_ask_and_grows_again() {
        let mut in_hand = InHand::new(32);
        filled(&mut in_hand, Lane::Campaign, 1);
        let second = filled(&mut in_hand, Lane::Campaign, 2);
        assert!((1..=3).contains(&second), "{second}");
        // What the first gives back is the other's before it is the first's again.
        for _ in 0..12 {
            in_hand.give_back(Pool::Common, project(1));
        }
        let more = filled(&mut in_hand, Lane::Campaign, 2);
        assert!(more >= 8, "{more}");
        for _ in 0..second + more {
            in_hand.give_back(Pool::Common, project(2));
        }
        assert_eq!(filled(&mut in_hand, Lane::Campaign, 1), 12);
    }

    #[test]
    fn who_has_begun_something_has_until_it_is_settled() {
        let mut in_hand = InHand::new(8);
        let pool = in_hand.take(Lane::Direct, project(1)).unwrap();
        assert!(in_hand.has_begun(project(1)) && !in_hand.has_begun(project(2)));
        in_hand.give_back(pool, project(1));
        assert!(in_hand.has_begun(project(1)), "what came of it is not written");
        in_hand.settled(project(1));
        assert!(!in_hand.has_begun(project(1)));
    }

    #[test]
    fn no_more_is_begun_while_too_much_is_not_written() {
        let mut in_hand = InHand::new(8);
        let mut begun = 0;
        while let Some(pool) = in_hand.take(Lane::Direct, project(1)) {
            in_hand.give_back(pool, project(1));
            begun += 1;
        }
        assert_eq!(begun, UNSETTLED);
        assert!(in_hand.take(Lane::Direct, project(2)).is_some(), "others go on");
        assert!(in_hand.settled(project(1)));
        assert!(!in_hand.settled(project(1)), "there was room already");
        assert_eq!(filled(&mut in_hand, Lane::Campaign, 1), 2);
    }
}
