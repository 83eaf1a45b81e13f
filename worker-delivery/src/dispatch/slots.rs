//! Counts provider calls. Pure.
//!
//! Slots for calls are shared between owners, see [`FairShare`]: free slots go to owners with few calls in progress, however
//! long the calls of another owner take.
//!
//! A slot is free again before the outcome of its call is written. The number of unwritten outcomes of a project is limited, so no
//! more calls are begun while outcomes cannot be written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use shared::fair_share::FairShare;
use shared::ids::{OwnerId, ProjectId};
use shared::send::{Channel, Lane};

/// Unwritten outcomes of a project at most: more than its calls in progress and the largest group of outcomes together.
const UNSETTLED: usize = 2_048;

/// Maximum number of a project's mails in progress: four for each SMTP session, so that batches are large and no mail waits long for
/// a session. A quarter is reserved for direct messages.
const MAILS: usize = 128;

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub owner: OwnerId,
    pub project: ProjectId,
    pub channel: Channel,
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
pub struct Slots {
    direct: FairShare,
    common: FairShare,
    /// Messages of each project that are begun and not settled.
    begun: HashMap<ProjectId, usize>,
    /// Mails of each project in progress.
    mails: HashMap<ProjectId, usize>,
}

fn pools(lane: Lane) -> &'static [Pool] {
    match lane {
        Lane::Direct => &[Pool::Direct, Pool::Common],
        Lane::Automation | Lane::Campaign => &[Pool::Common],
    }
}

impl Slots {
    /// For `total` calls of one owner at a time, at least 2, and an eighth more for the others. A quarter is kept for direct
    /// messages, so that they never wait behind the other lanes; they may use the rest too.
    pub fn new(total: usize) -> Self {
        let direct = (total / 4).max(1);
        let common = total.saturating_sub(direct).max(1);
        Self {
            direct: FairShare::new(direct),
            common: FairShare::new(common),
            begun: HashMap::new(),
            mails: HashMap::new(),
        }
    }

    /// How many slots [`Self::take`] would give.
    pub fn room(&self, lane: Lane, of: Tenant) -> usize {
        let unsettled = UNSETTLED.saturating_sub(self.begun.get(&of.project).copied().unwrap_or(0));
        let room = pools(lane).iter().map(|pool| match pool {
            Pool::Direct => self.direct.room(of.owner),
            Pool::Common => self.common.room(of.owner),
        });
        room.sum::<usize>().min(unsettled).min(self.mail_room(lane, of))
    }

    /// Takes a slot for a call, if the tenant's share has one.
    pub fn take(&mut self, lane: Lane, of: Tenant) -> Option<Pool> {
        if self.begun.get(&of.project).is_some_and(|begun| *begun >= UNSETTLED) || self.mail_room(lane, of) == 0 {
            return None;
        }
        let pool = pools(lane).iter().copied().find(|pool| self.share(*pool).take(of.owner))?;
        *self.begun.entry(of.project).or_default() += 1;
        if of.channel == Channel::Email {
            *self.mails.entry(of.project).or_default() += 1;
        }
        Some(pool)
    }

    /// A call has ended, and its slot is free.
    pub fn release(&mut self, pool: Pool, of: Tenant) {
        self.share(pool).release(of.owner);
        if of.channel == Channel::Email
            && let Entry::Occupied(mut mails) = self.mails.entry(of.project)
        {
            *mails.get_mut() -= 1;
            if *mails.get() == 0 {
                mails.remove();
            }
        }
    }

    /// Maximum number of a project's calls in progress on the tenant's channel.
    pub fn most(lane: Lane, of: Tenant) -> usize {
        match (of.channel, lane) {
            (Channel::Email, Lane::Direct) => MAILS,
            (Channel::Email, _) => MAILS - MAILS / 4,
            _ => usize::MAX,
        }
    }

    fn mail_room(&self, lane: Lane, of: Tenant) -> usize {
        Self::most(lane, of).saturating_sub(self.mails.get(&of.project).copied().unwrap_or(0))
    }

    /// The outcome of a message is written, or it was not begun after all. Returns whether that alone lets the project begin more.
    pub fn settled(&mut self, project: ProjectId) -> bool {
        let Some(begun) = self.begun.get_mut(&project) else { return false };
        let was_full = *begun >= UNSETTLED;
        *begun -= 1;
        if *begun == 0 {
            self.begun.remove(&project);
        }
        was_full
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
        Tenant { owner: project(n).into(), project: project(n), channel: Channel::Push }
    }

    /// How many slots a project gets.
    fn filled(slots: &mut Slots, lane: Lane, n: u128) -> usize {
        let room = slots.room(lane, tenant(n));
        let taken = std::iter::from_fn(|| slots.take(lane, tenant(n))).count();
        assert_eq!(room, taken);
        taken
    }

    #[test]
    fn a_project_alone_gets_all_slots() {
        for (total, common) in [(2, 1), (3, 2), (8, 6), (32, 24), (1_024, 768)] {
            assert_eq!(filled(&mut Slots::new(total), Lane::Campaign, 1), common);
            assert_eq!(filled(&mut Slots::new(total), Lane::Direct, 1), total);
        }
    }

    #[test]
    fn direct_messages_have_slots_of_their_own() {
        let mut slots = Slots::new(32);
        assert_eq!(filled(&mut slots, Lane::Campaign, 1), 24);
        assert!(filled(&mut slots, Lane::Direct, 1) >= 8);
    }

    #[test]
    fn some_slots_are_left_for_other_owners() {
        for total in [2, 32, 1_024] {
            let mut slots = Slots::new(total);
            filled(&mut slots, Lane::Campaign, 1);
            filled(&mut slots, Lane::Direct, 1);
            let second = filled(&mut slots, Lane::Direct, 2);
            assert!(second >= (total / 16).max(1), "{second} of {total}");
        }
        let mut slots = Slots::new(1_024);
        let shares: Vec<usize> = (1..=3).map(|n| filled(&mut slots, Lane::Direct, n)).collect();
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    }

    #[test]
    fn projects_of_one_owner_share_its_slots() {
        let mut slots = Slots::new(32);
        let of_one_owner = |n| Tenant { project: project(n), ..tenant(1) };
        let taken =
            (1..=20).flat_map(|n| [of_one_owner(n); 4]).filter(|of| slots.take(Lane::Direct, *of).is_some()).count();
        assert_eq!(taken, 32, "of 20 projects no more than of one");
        assert!(slots.take(Lane::Direct, tenant(99)).is_some());
        assert!(slots.take(Lane::Campaign, tenant(99)).is_some());
    }

    #[test]
    fn a_share_shrinks_while_others_need_slots() {
        let mut slots = Slots::new(32);
        filled(&mut slots, Lane::Campaign, 1);
        let second = filled(&mut slots, Lane::Campaign, 2);
        assert!((1..=3).contains(&second), "{second}");
        // Slots that the first releases go to the second until their shares are equal.
        for _ in 0..12 {
            slots.release(Pool::Common, tenant(1));
        }
        let more = filled(&mut slots, Lane::Campaign, 2);
        assert!(more >= 8, "{more}");
        for _ in 0..second + more {
            slots.release(Pool::Common, tenant(2));
        }
        assert_eq!(filled(&mut slots, Lane::Campaign, 1), 12);
    }

    #[test]
    fn a_project_has_few_mails_in_progress_and_some_of_them_are_direct() {
        let mut slots = Slots::new(1_024);
        let mails = |n| Tenant { channel: Channel::Email, ..tenant(n) };
        let fill = |slots: &mut Slots, lane, n| std::iter::from_fn(|| slots.take(lane, mails(n))).count();
        assert_eq!(slots.room(Lane::Campaign, mails(1)), 96);
        assert_eq!(fill(&mut slots, Lane::Campaign, 1), 96);
        assert_eq!((slots.room(Lane::Campaign, mails(1)), slots.room(Lane::Direct, mails(1))), (0, 32));
        assert_eq!(fill(&mut slots, Lane::Direct, 1), 32);
        assert_eq!(fill(&mut slots, Lane::Campaign, 2), 96, "of another project");
        assert!(slots.take(Lane::Campaign, tenant(1)).is_some(), "no mail");
        slots.release(Pool::Direct, mails(1));
        assert_eq!(fill(&mut slots, Lane::Direct, 1), 1);
    }

    #[test]
    fn nothing_is_begun_while_too_many_outcomes_are_unwritten() {
        let mut slots = Slots::new(8);
        let mut begun = 0;
        while let Some(pool) = slots.take(Lane::Direct, tenant(1)) {
            slots.release(pool, tenant(1));
            begun += 1;
        }
        assert_eq!(begun, UNSETTLED);
        assert!(slots.take(Lane::Direct, tenant(2)).is_some(), "others go on");
        assert!(slots.settled(project(1)));
        assert!(!slots.settled(project(1)), "there was room already");
        assert_eq!(filled(&mut slots, Lane::Campaign, 1), 2);
    }
}
