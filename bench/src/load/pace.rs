//! Request pacing.

use std::time::Duration;

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends as soon as its last request was answered.
    Full,
    /// Open loop: this many requests per second over all connections, regardless of response times.
    Offered(f64),
}

impl Pace {
    /// Returns when a connection's `nth` request is due, measured from the start, or `None` in a closed loop.
    pub fn due(self, connection: usize, connections: usize, nth: u64) -> Option<Duration> {
        match self {
            Self::Full => None,
            Self::Offered(rate) => {
                let turn = nth as f64 * connections as f64 + connection as f64;
                Some(Duration::from_secs_f64(turn / rate))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_requests_are_distributed_over_connections_and_time() {
        let pace = Pace::Offered(100.0);
        assert_eq!(pace.due(0, 10, 0), Some(Duration::ZERO));
        assert_eq!(pace.due(5, 10, 1), Some(Duration::from_millis(150)));
        assert_eq!(Pace::Full.due(5, 10, 1), None);
    }
}
