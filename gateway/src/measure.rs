//! Metrics of the request path.
//!
//! Looking up a metric by name and labels costs more than incrementing it, so each is looked up once and cached.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::StatusCode;
use kernel::metric_name::Metric;
use metrics::{Counter, Histogram, counter, histogram};

/// The metrics of the request path. Create them after the recorder is installed.
pub struct Meters {
    /// Items that the stream has acknowledged.
    pub accepted: Counter,
    routes: ArcSwap<Vec<Arc<RouteMetrics>>>,
}

struct RouteMetrics {
    pattern: &'static str,
    seconds: Histogram,
    /// By status class: 1xx to 5xx.
    requests: [OnceLock<Counter>; 5],
}

impl Default for Meters {
    fn default() -> Self {
        Self { accepted: counter!(Metric::EventsAccepted), routes: ArcSwap::default() }
    }
}

impl Meters {
    /// Counts a completed request under its route's pattern.
    pub fn request(&self, pattern: &'static str, status: StatusCode, took: Duration) {
        let known = self.routes.load();
        match known.iter().find(|r| r.pattern == pattern) {
            Some(route) => route.count(status, took),
            None => self.add(pattern).count(status, took),
        }
    }

    /// Adds a route. In a race a route may be added twice, with the same metrics.
    fn add(&self, pattern: &'static str) -> Arc<RouteMetrics> {
        let seconds = histogram!(Metric::HttpSeconds, "route" => pattern);
        let route = Arc::new(RouteMetrics { pattern, seconds, requests: Default::default() });
        self.routes.rcu(|known| [known.as_slice(), std::slice::from_ref(&route)].concat());
        route
    }
}

impl RouteMetrics {
    fn count(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let route = self.pattern;
        let name = ["1xx", "2xx", "3xx", "4xx", "5xx"][class];
        let counter = || counter!(Metric::HttpRequests, "route" => route, "status" => name);
        self.requests[class].get_or_init(counter).increment(1);
        self.seconds.record(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_metrics_are_created_once() {
        let meters = Meters::default();
        for status in [202, 503, 202] {
            meters.request("/events", StatusCode::from_u16(status).unwrap(), Duration::from_millis(1));
        }
        meters.request("none", StatusCode::NOT_FOUND, Duration::ZERO);
        let routes: Vec<_> = meters.routes.load().iter().map(|r| r.pattern).collect();
        assert_eq!(routes, ["/events", "none"]);
    }
}
