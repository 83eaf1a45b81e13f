//! Which queue is served next: weighted fair queueing by virtual time. Pure.
//!
//! Lanes share by weight, the owners within a lane equally, and the queues of an owner equally. The virtual time of each advances by
//! the messages it is charged for, divided by its weight. The smallest virtual time is served next. A key that becomes ready again
//! keeps its time, or takes the current one if later, so idle keys gain no credit.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use domain::message::{Lane, Queue};
use kernel::ids::OwnerId;

/// Virtual time of one message at weight 1.
const COST: i64 = 8;
/// Prune `times` from this size.
const PRUNE_FROM: usize = 1_024;

fn weight(lane: Lane) -> u64 {
    match lane {
        Lane::Direct => 8,
        Lane::Automation => 2,
        Lane::Campaign => 1,
    }
}

/// Ready keys in the order of their virtual times.
#[derive(Debug)]
struct Order<K> {
    ready: BTreeSet<(u64, K)>,
    times: HashMap<K, u64>,
    /// Largest virtual time served so far.
    now: u64,
    /// Size of `times` after it was last pruned.
    pruned: usize,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self { ready: BTreeSet::new(), times: HashMap::new(), now: 0, pruned: 0 }
    }
}

impl<K: Copy + Eq + Hash + Ord> Order<K> {
    fn add(&mut self, key: K) {
        let time = self.times.get(&key).copied().unwrap_or(0);
        if self.ready.contains(&(time, key)) {
            return;
        }
        let time = time.max(self.now);
        self.times.insert(key, time);
        self.ready.insert((time, key));
    }

    fn remove(&mut self, key: K) {
        if let Some(time) = self.times.get(&key) {
            self.ready.remove(&(*time, key));
        }
        if self.ready.is_empty() {
            // With nothing ready, past service no longer matters.
            return *self = Self::default();
        }
        if self.times.len() >= PRUNE_FROM.max(2 * self.pruned) {
            let (now, ready) = (self.now, &self.ready);
            self.times.retain(|key, time| *time > now || ready.contains(&(*time, *key)));
            self.pruned = self.times.len();
        }
    }

    /// Charges a key, or refunds it if `cost` is negative.
    fn charge(&mut self, key: K, cost: i64) {
        let Some(time) = self.times.get_mut(&key) else { return };
        if cost > 0 {
            self.now = self.now.max(*time);
        }
        let was_ready = self.ready.remove(&(*time, key));
        *time = time.saturating_add_signed(cost);
        if was_ready {
            self.ready.insert((*time, key));
        }
    }

    fn keys(&self) -> impl Iterator<Item = K> + '_ {
        self.ready.iter().map(|(_, key)| *key)
    }
}

/// The ready queues in fair order.
#[derive(Debug, Default)]
pub struct FairQueue {
    lanes: Order<Lane>,
    owners: HashMap<Lane, Order<OwnerId>>,
    queues: HashMap<(Lane, OwnerId), Order<Queue>>,
}

impl FairQueue {
    pub fn add(&mut self, queue: Queue, owner: OwnerId) {
        self.queues.entry((queue.lane, owner)).or_default().add(queue);
        self.owners.entry(queue.lane).or_default().add(owner);
        self.lanes.add(queue.lane);
    }

    pub fn remove(&mut self, queue: Queue, owner: OwnerId) {
        let Some(queues) = self.queues.get_mut(&(queue.lane, owner)) else { return };
        queues.remove(queue);
        if !queues.ready.is_empty() {
            return;
        }
        self.queues.remove(&(queue.lane, owner));
        let Some(owners) = self.owners.get_mut(&queue.lane) else { return };
        owners.remove(owner);
        if owners.ready.is_empty() {
            self.lanes.remove(queue.lane);
        }
    }

    /// Returns the first queue in fair order that is `eligible`.
    pub fn next(&self, mut eligible: impl FnMut(Queue, OwnerId) -> bool) -> Option<(Queue, OwnerId)> {
        for lane in self.lanes.keys() {
            for owner in self.owners.get(&lane).into_iter().flat_map(Order::keys) {
                let mut queues = self.queues.get(&(lane, owner)).into_iter().flat_map(Order::keys);
                if let Some(queue) = queues.find(|queue| eligible(*queue, owner)) {
                    return Some((queue, owner));
                }
            }
        }
        None
    }

    /// Returns a queue's share of `slots`: by the weight of its lane, then equally between owners, then between an owner's queues.
    pub fn share(&self, queue: Queue, owner: OwnerId, slots: usize) -> usize {
        let lanes: u64 = self.lanes.keys().map(weight).sum();
        let owners = self.owners.get(&queue.lane).map_or(1, |owners| owners.ready.len());
        let queues = self.queues.get(&(queue.lane, owner)).map_or(1, |queues| queues.ready.len());
        let of_lane = slots as u64 * weight(queue.lane) / lanes.max(1);
        of_lane as usize / owners.max(1) / queues.max(1)
    }

    /// Charges a queue, its owner and its lane for messages about to be begun.
    pub fn charge(&mut self, queue: Queue, owner: OwnerId, messages: usize) {
        self.charge_all(queue, owner, COST * messages as i64);
    }

    /// Reverses the charge for messages that were not begun.
    pub fn refund(&mut self, queue: Queue, owner: OwnerId, messages: usize) {
        self.charge_all(queue, owner, -COST * messages as i64);
    }

    fn charge_all(&mut self, queue: Queue, owner: OwnerId, cost: i64) {
        self.lanes.charge(queue.lane, cost / weight(queue.lane) as i64);
        if let Some(owners) = self.owners.get_mut(&queue.lane) {
            owners.charge(owner, cost);
        }
        if let Some(queues) = self.queues.get_mut(&(queue.lane, owner)) {
            queues.charge(queue, cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::message::Channel;
    use kernel::ids::ProjectId;
    use uuid::Uuid;

    use super::*;

    fn queue(n: u128, lane: Lane) -> Queue {
        Queue { project: ProjectId(Uuid::from_u128(n)), channel: Channel::Email, lane }
    }

    fn owner(n: u128) -> OwnerId {
        OwnerId(Uuid::from_u128(n))
    }

    /// Serves `rounds` batches and counts those of each key.
    fn serve<K: Eq + Hash>(queues: &mut FairQueue, rounds: usize, key: impl Fn(Queue) -> K) -> HashMap<K, usize> {
        let mut got = HashMap::new();
        for _ in 0..rounds {
            let (queue, owner) = queues.next(|_, _| true).unwrap();
            queues.charge(queue, owner, 10);
            *got.entry(key(queue)).or_default() += 1;
        }
        got
    }

    #[test]
    fn lanes_share_by_weight() {
        let mut queues = FairQueue::default();
        for (n, lane) in Lane::ALL.into_iter().enumerate() {
            queues.add(queue(n as u128, lane), owner(n as u128));
        }
        let got = serve(&mut queues, 1_100, |queue| queue.lane);
        assert_eq!((got[&Lane::Direct], got[&Lane::Automation], got[&Lane::Campaign]), (800, 200, 100));
    }

    #[test]
    fn owners_share_equally_regardless_of_their_number_of_projects() {
        let mut queues = FairQueue::default();
        for n in 0..20 {
            queues.add(queue(n, Lane::Campaign), owner(0));
        }
        queues.add(queue(99, Lane::Campaign), owner(1));
        let got = serve(&mut queues, 400, |queue| queue.project.0.as_u128());
        assert_eq!(got[&99], 200);
        assert!((0..20).all(|n| got[&n] == 10), "{got:?}");
    }

    #[test]
    fn idle_queue_gains_no_credit_and_keeps_its_debt() {
        let mut queues = FairQueue::default();
        let [busy, idle] = [1, 2].map(|n| queue(n, Lane::Direct));
        queues.add(busy, owner(1));
        serve(&mut queues, 100, |queue| queue);
        queues.add(idle, owner(2));
        let got = serve(&mut queues, 10, |queue| queue);
        assert!(got[&busy] >= 4 && got[&idle] >= 4, "{got:?}");
        // Leaving and coming back does not clear a queue's debt.
        queues.charge(busy, owner(1), 1_000);
        queues.remove(busy, owner(1));
        queues.add(busy, owner(1));
        assert_eq!(queues.next(|_, _| true), Some((idle, owner(2))));
    }

    #[test]
    fn slots_are_divided_by_lane_owner_and_queue() {
        let mut queues = FairQueue::default();
        let one = queue(1, Lane::Automation);
        queues.add(one, owner(1));
        assert_eq!(queues.share(one, owner(1), 240), 240);
        queues.add(queue(2, Lane::Campaign), owner(1));
        assert_eq!(queues.share(one, owner(1), 240), 160);
        queues.add(queue(3, Lane::Automation), owner(1));
        assert_eq!(queues.share(one, owner(1), 240), 80);
        queues.add(queue(4, Lane::Automation), owner(2));
        assert_eq!(queues.share(one, owner(1), 240), 40);
        assert_eq!(queues.share(queue(4, Lane::Automation), owner(2), 240), 80);
    }

    #[test]
    fn ineligible_queue_does_not_block_others() {
        let mut queues = FairQueue::default();
        let [first, second] = [1, 2].map(|n| queue(n, Lane::Direct));
        queues.add(first, owner(1));
        queues.add(second, owner(2));
        assert_eq!(queues.next(|_, of| of == owner(2)), Some((second, owner(2))));
        queues.remove(second, owner(2));
        assert_eq!(queues.next(|_, of| of == owner(2)), None);
        queues.remove(first, owner(1));
        assert_eq!(queues.next(|_, _| true), None);
    }

    #[test]
    fn idle_keys_are_pruned() {
        let mut queues = FairQueue::default();
        for n in 0..100_000 {
            let queue = queue(n, Lane::Direct);
            queues.add(queue, owner(n));
            queues.charge(queue, owner(n), 1);
            queues.remove(queue, owner(n));
        }
        assert!(queues.queues.len() < 3, "{}", queues.queues.len());
        assert!(queues.owners[&Lane::Direct].times.len() <= 2 * PRUNE_FROM);
    }
}
