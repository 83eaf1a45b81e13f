//! Counts messages in flight. Pure.
//!
//! Owners share the slots, see [`FairShare`]: free slots go to owners with few messages in flight, however long the calls of another
//! owner take.
//!
//! A slot is free again before the outcome of its call is written. The number of unwritten outcomes of a project is limited, so no
//! more messages are begun while outcomes cannot be written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use domain::message::{Channel, Lane};
use kernel::fair_share::FairShare;
use kernel::ids::{OwnerId, ProjectId};

/// Maximum unsettled messages of a project: more than its messages in flight and the largest group of outcomes together.
const MAX_UNSETTLED: usize = 2_048;

/// Maximum mails of a project in flight: four for each SMTP session, so that batches are large and no mail waits long for a session.
/// A quarter is reserved for direct messages, like the sessions. The limit applies to HTTP mail providers too.
const MAX_MAILS_PER_PROJECT: usize = 128;

/// Whose messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub owner: OwnerId,
    pub project: ProjectId,
    pub channel: Channel,
}

/// The pool that a slot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Reserved for direct messages.
    Direct,
    Common,
}

/// The slots of all owners.
#[derive(Debug)]
pub struct Slots {
    direct: FairShare,
    common: FairShare,
    /// Messages of each project that are begun and not settled.
    begun: HashMap<ProjectId, usize>,
    /// Mails of each project in flight.
    mails: HashMap<ProjectId, usize>,
}

fn pools(lane: Lane) -> &'static [Pool] {
    match lane {
        Lane::Direct => &[Pool::Direct, Pool::Common],
        Lane::Automation | Lane::Campaign => &[Pool::Common],
    }
}

impl Slots {
    /// Allows `total` messages in flight per owner, at least 2. All owners together get an eighth more. A quarter is reserved for
    /// direct messages, so that other lanes never delay them; they may use the rest too.
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

    /// Returns how many slots [`Self::take`] would grant.
    pub fn available(&self, lane: Lane, tenant: Tenant) -> usize {
        let unsettled = MAX_UNSETTLED.saturating_sub(self.begun.get(&tenant.project).copied().unwrap_or(0));
        let free = pools(lane).iter().map(|pool| match pool {
            Pool::Direct => self.direct.available(tenant.owner),
            Pool::Common => self.common.available(tenant.owner),
        });
        free.sum::<usize>().min(unsettled).min(self.available_mails(lane, tenant))
    }

    /// Takes a slot for a message, if the tenant's share has one.
    pub fn take(&mut self, lane: Lane, tenant: Tenant) -> Option<Pool> {
        let begun = self.begun.get(&tenant.project).copied().unwrap_or(0);
        if begun >= MAX_UNSETTLED || self.available_mails(lane, tenant) == 0 {
            return None;
        }
        let pool = pools(lane).iter().copied().find(|pool| self.share(*pool).take(tenant.owner))?;
        *self.begun.entry(tenant.project).or_default() += 1;
        if tenant.channel == Channel::Email {
            *self.mails.entry(tenant.project).or_default() += 1;
        }
        Some(pool)
    }

    /// Frees the slot of a call that has ended.
    pub fn release(&mut self, pool: Pool, tenant: Tenant) {
        self.share(pool).release(tenant.owner);
        if tenant.channel == Channel::Email
            && let Entry::Occupied(mut mails) = self.mails.entry(tenant.project)
        {
            *mails.get_mut() -= 1;
            if *mails.get() == 0 {
                mails.remove();
            }
        }
    }

    /// Returns how many messages of the tenant's project may be in flight on its channel.
    pub fn max_in_flight(lane: Lane, tenant: Tenant) -> usize {
        match (tenant.channel, lane) {
            (Channel::Email, Lane::Direct) => MAX_MAILS_PER_PROJECT,
            (Channel::Email, _) => MAX_MAILS_PER_PROJECT - MAX_MAILS_PER_PROJECT / 4,
            _ => usize::MAX,
        }
    }

    fn available_mails(&self, lane: Lane, tenant: Tenant) -> usize {
        Self::max_in_flight(lane, tenant).saturating_sub(self.mails.get(&tenant.project).copied().unwrap_or(0))
    }

    /// Records that a message is settled, or was not claimed. Returns whether that alone lets the project begin more.
    pub fn settled(&mut self, project: ProjectId) -> bool {
        let Some(begun) = self.begun.get_mut(&project) else { return false };
        let was_full = *begun >= MAX_UNSETTLED;
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

    /// Takes all slots that a project gets, and returns their number.
    fn fill(slots: &mut Slots, lane: Lane, n: u128) -> usize {
        let available = slots.available(lane, tenant(n));
        let taken = std::iter::from_fn(|| slots.take(lane, tenant(n))).count();
        assert_eq!(available, taken);
        taken
    }

    #[test]
    fn only_active_project_gets_all_slots() {
        for (total, common) in [(2, 1), (3, 2), (8, 6), (32, 24), (1_024, 768)] {
            assert_eq!(fill(&mut Slots::new(total), Lane::Campaign, 1), common);
            assert_eq!(fill(&mut Slots::new(total), Lane::Direct, 1), total);
        }
    }

    #[test]
    fn direct_messages_have_reserved_slots() {
        let mut slots = Slots::new(32);
        assert_eq!(fill(&mut slots, Lane::Campaign, 1), 24);
        assert!(fill(&mut slots, Lane::Direct, 1) >= 8);
    }

    #[test]
    fn other_owners_always_find_slots() {
        for total in [2, 32, 1_024] {
            let mut slots = Slots::new(total);
            fill(&mut slots, Lane::Campaign, 1);
            fill(&mut slots, Lane::Direct, 1);
            let second = fill(&mut slots, Lane::Direct, 2);
            assert!(second >= (total / 16).max(1), "{second} of {total}");
        }
        let mut slots = Slots::new(1_024);
        let shares: Vec<usize> = (1..=3).map(|n| fill(&mut slots, Lane::Direct, n)).collect();
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    }

    #[test]
    fn projects_of_one_owner_share_its_slots() {
        let mut slots = Slots::new(32);
        let of_one_owner = |n| Tenant { project: project(n), ..tenant(1) };
        let taken =
            (1..=20).flat_map(|n| [of_one_owner(n); 4]).filter(|of| slots.take(Lane::Direct, *of).is_some()).count();
        assert_eq!(taken, 32, "20 projects get no more than one");
        assert!(slots.take(Lane::Direct, tenant(99)).is_some());
        assert!(slots.take(Lane::Campaign, tenant(99)).is_some());
    }

    #[test]
    fn share_shrinks_while_others_need_slots() {
        let mut slots = Slots::new(32);
        fill(&mut slots, Lane::Campaign, 1);
        let second = fill(&mut slots, Lane::Campaign, 2);
        assert!((1..=3).contains(&second), "{second}");
        // Slots that the first releases go to the second until their shares are equal.
        for _ in 0..12 {
            slots.release(Pool::Common, tenant(1));
        }
        let more = fill(&mut slots, Lane::Campaign, 2);
        assert!(more >= 8, "{more}");
        for _ in 0..second + more {
            slots.release(Pool::Common, tenant(2));
        }
        assert_eq!(fill(&mut slots, Lane::Campaign, 1), 12);
    }

    #[test]
    fn mails_in_flight_are_limited_with_a_reserve_for_direct_ones() {
        let mut slots = Slots::new(1_024);
        let mails = |n| Tenant { channel: Channel::Email, ..tenant(n) };
        let fill_mails = |slots: &mut Slots, lane, n| std::iter::from_fn(|| slots.take(lane, mails(n))).count();
        assert_eq!(slots.available(Lane::Campaign, mails(1)), 96);
        assert_eq!(fill_mails(&mut slots, Lane::Campaign, 1), 96);
        assert_eq!((slots.available(Lane::Campaign, mails(1)), slots.available(Lane::Direct, mails(1))), (0, 32));
        assert_eq!(fill_mails(&mut slots, Lane::Direct, 1), 32);
        assert_eq!(fill_mails(&mut slots, Lane::Campaign, 2), 96, "another project");
        assert!(slots.take(Lane::Campaign, tenant(1)).is_some(), "a push");
        slots.release(Pool::Direct, mails(1));
        assert_eq!(fill_mails(&mut slots, Lane::Direct, 1), 1);
    }

    #[test]
    fn nothing_is_begun_at_the_limit_of_unsettled_messages() {
        let mut slots = Slots::new(8);
        let mut begun = 0;
        while let Some(pool) = slots.take(Lane::Direct, tenant(1)) {
            slots.release(pool, tenant(1));
            begun += 1;
        }
        assert_eq!(begun, MAX_UNSETTLED);
        assert!(slots.take(Lane::Direct, tenant(2)).is_some(), "other projects are not affected");
        assert!(slots.settled(project(1)));
        assert!(!slots.settled(project(1)), "below the limit already");
        assert_eq!(fill(&mut slots, Lane::Campaign, 1), 2);
    }
}
