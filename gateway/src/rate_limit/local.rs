//! A limit kept by this process alone: its share of the project's quota.

use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::{Allowance, BURST};

type Governor<C> = RateLimiter<NotKeyed, InMemoryState, C, StateInformationMiddleware>;

pub struct Local<C: Clock = DefaultClock> {
    pub limit: u32,
    governor: Governor<C>,
    clock: C,
}

impl Local {
    /// The share of one of `replicas` gateways in `limit` requests a second.
    pub fn new(limit: u32, replicas: u32) -> Self {
        Self::by(DefaultClock::default(), limit, replicas)
    }
}

impl<C: Clock + Clone> Local<C> {
    /// The same by a clock of the caller's.
    pub fn by(clock: C, limit: u32, replicas: u32) -> Self {
        let share = NonZeroU32::new(limit / replicas.max(1)).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(share).allow_burst(share.saturating_mul(BURST));
        let governor =
            RateLimiter::direct_with_clock(quota, clock.clone()).with_middleware::<StateInformationMiddleware>();
        Self { limit, governor, clock }
    }

    pub fn take(&self) -> Allowance {
        match self.governor.check() {
            Ok(state) => Allowance::granted(self.limit, state.remaining_burst_capacity()),
            Err(denied) => {
                let wait = denied.wait_time_from(self.clock.now());
                Allowance::denied(self.limit, wait)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_twice_the_share() {
        let local = Local::new(10, 2);
        let granted = (0..20).filter(|_| local.take().granted.is_ok()).count();
        assert_eq!(granted, 10);
        let denied = local.take();
        assert_eq!((denied.granted, denied.limit, denied.remaining), (Err(1), 10, 0));
        assert!(Local::new(1, 5).take().granted.is_ok());
    }
}
