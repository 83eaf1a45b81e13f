//! The bucket that replaces Redis, and the gateways that lease from it.

use super::*;

/// Units per token. At N tokens per second, N units are added each microsecond.
pub(super) const MICRO: u64 = 1_000_000;
/// One part in this many of the refill goes to the priority tokens first.
pub(super) const PARTS: u64 = 5;

/// Counts in millionths of a token and in microseconds, so that nothing is rounded.
pub(super) struct Bucket {
    pub(super) micros: u64,
    pub(super) priority: u64,
    at_us: u64,
}

impl Bucket {
    pub(super) fn full(leased: &LeasedTokens) -> Self {
        let (most, capacity) = (leased.terms().capacity as u64, leased.priority().capacity as u64);
        Self { micros: most * MICRO, priority: capacity * MICRO, at_us: 0 }
    }

    pub(super) fn lease(&mut self, leased: &LeasedTokens, wanted: u32, now_us: u64) -> Lease {
        self.fill(leased, now_us);
        let is_granted = leased.priority().is_granted;
        let own = (self.micros / MICRO).min(wanted.into());
        self.micros -= own * MICRO;
        let extra = if is_granted { (self.priority / MICRO).min(u64::from(wanted) - own) } else { 0 };
        self.priority -= extra * MICRO;
        let wait = if own + extra == 0 { self.wait(leased) } else { Duration::ZERO };
        let left = self.micros / MICRO + if is_granted { self.priority / MICRO } else { 0 };
        Lease { taken: (own + extra) as u32, left: left as u32, wait }
    }

    pub(super) fn fill(&mut self, leased: &LeasedTokens, now_us: u64) {
        let (terms, capacity) = (leased.terms(), leased.priority().capacity as u64 * MICRO);
        let added = (now_us - self.at_us) * terms.rate as u64;
        let to_priority = (capacity - self.priority).min(added / PARTS);
        self.priority += to_priority;
        self.micros = (self.micros + added - to_priority).min(terms.capacity as u64 * MICRO);
        self.at_us = now_us;
    }

    /// Returns the wait in whole milliseconds, rounded up.
    pub(super) fn wait(&self, leased: &LeasedTokens) -> Duration {
        let missing = leased.priority().capacity as u64 * MICRO - self.priority;
        let short = MICRO - self.micros;
        let mut needed = (short * PARTS).div_ceil(PARTS - 1).min(short + missing);
        if leased.priority().is_granted {
            needed = needed.min(MICRO.saturating_sub(self.priority) * PARTS);
        }
        Duration::from_millis(needed.div_ceil(leased.terms().rate as u64).div_ceil(1_000))
    }
}

/// A response from Redis; `None` if it was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedisResponse(Option<Lease>);

pub(super) struct Gateway {
    pub(super) lanes: [LeasedTokens; 2],
    local: LocalBucket,
    /// Responses to background refills that have not arrived yet.
    in_flight: [Option<RedisResponse>; 2],
    /// Set when Redis had too few tokens for a request that found none.
    no_lease_until_us: [u64; 2],
    /// Number of requests admitted with tokens from Redis.
    pub(super) spent: u64,
}

pub(super) const LANES: [Lane; 2] = [Lane::Public, Lane::Priority];

pub(super) struct World {
    start: Instant,
    pub(super) now_us: u64,
    limit: u32,
    pub(super) is_up: bool,
    pub(super) bucket: Bucket,
    pub(super) leased: u64,
    /// Tokens leased by a response that was lost.
    pub(super) lost: u64,
    pub(super) gateways: Vec<Gateway>,
}

/// The counter that admitted or denied a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    Redis,
    Own,
}

impl World {
    pub(super) fn new(limit: u32, gateways: u32) -> Self {
        let gateway = |_| Gateway {
            lanes: LANES.map(|lane| LeasedTokens::new(Scope::Project, limit, lane)),
            local: LocalBucket::share(limit, gateways, true),
            in_flight: [None, None],
            no_lease_until_us: [0, 0],
            spent: 0,
        };
        let gateways: Vec<_> = (0..gateways).map(gateway).collect();
        let bucket = Bucket::full(&gateways[0].lanes[0]);
        Self { start: Instant::now(), now_us: 0, limit, is_up: true, bucket, leased: 0, lost: 0, gateways }
    }

    pub(super) fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.now_us)
    }

    pub(super) fn take_own_share(limit: u32, local: &LocalBucket, lane: usize, now: Instant) -> (Allowance, DecidedBy) {
        let allowance = match local.take(LANES[lane], now) {
            Ok(left) => Allowance::granted(Scope::Project, limit, left),
            Err(wait) => Allowance::denied(Scope::Project, limit, wait),
        };
        (allowance, DecidedBy::Own)
    }

    /// Like `Quota::take`, but the response from Redis arrives at once or, if `is_lost`, never.
    pub(super) fn take(&mut self, which: usize, lane: usize, is_lost: bool) -> (Allowance, DecidedBy) {
        let now = self.now();
        let gateway = &mut self.gateways[which];
        if !self.is_up {
            return Self::take_own_share(self.limit, &gateway.local, lane, now);
        }
        let leased = &gateway.lanes[lane];
        let mut lease = || {
            let lease = self.bucket.lease(leased, leased.size(), self.now_us);
            self.leased += u64::from(lease.taken);
            if is_lost {
                self.lost += u64::from(lease.taken);
            }
            Some(lease).filter(|_| !is_lost)
        };
        let mut in_flight = None;
        let spent = leased.spend(|| now, || in_flight = Some(RedisResponse(lease())));
        let is_too_soon = self.now_us < gateway.no_lease_until_us[lane];
        if in_flight.is_some() {
            assert!(gateway.in_flight[lane].is_none(), "two refills are in flight");
            assert!(!is_too_soon, "a refill is requested too soon");
            gateway.in_flight[lane] = in_flight;
        }
        let allowance = match spent {
            Some(allowance) => allowance,
            None => {
                assert!(!is_too_soon, "a lease is requested too soon");
                let Some(lease) = lease() else {
                    return Self::take_own_share(self.limit, &gateway.local, lane, now);
                };
                if lease.taken < leased.size() {
                    gateway.no_lease_until_us[lane] = self.now_us + 10_000;
                }
                leased.decide(lease, || now)
            }
        };
        gateway.spent += u64::from(allowance.granted.is_ok());
        (allowance, DecidedBy::Redis)
    }

    pub(super) fn receive_refill(&mut self, which: usize, lane: usize) {
        let gateway = &mut self.gateways[which];
        if let Some(RedisResponse(lease)) = gateway.in_flight[lane].take() {
            gateway.lanes[lane].refilled(lease);
        }
    }

    /// Returns the leased tokens that are not spent, including those in responses that have not arrived.
    pub(super) fn held(&self) -> u64 {
        let held = |gateway: &Gateway| {
            let in_flight = gateway.in_flight.iter().flatten().filter_map(|answer| answer.0);
            let tokens = gateway.lanes.iter().map(|leased| leased.tokens.load(Ordering::Relaxed) as u64);
            tokens.sum::<u64>() + in_flight.map(|lease| u64::from(lease.taken)).sum::<u64>()
        };
        self.gateways.iter().map(held).sum()
    }
}
