//! How late the system is, as the database sees it: for the metrics, and so for whoever is to be woken.

use std::sync::Arc;

use jiff::Timestamp;
use metrics::gauge;
use shared::metric_name::Metric;
use shared::store::{messages, outbox, timers, webhook_calls};

use crate::App;
use crate::tick::TickError;

/// Looks how long the oldest of each kind has been due. Each is one entry of an index.
pub async fn measure(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let (now, set) =
        (app.now(), |what: &'static str, late: f64| gauge!(Metric::OldestDueSeconds, "what" => what).set(late));
    set("message", late(messages::due::oldest(&db).await?, now));
    set("timer", late(timers::due::oldest(&db).await?, now));
    set("webhook_call", late(webhook_calls::oldest(&db).await?, now));
    set("outbox", late(outbox::oldest(&db).await?, now));
    Ok(())
}

/// In seconds; what falls due later is not late.
fn late(oldest: Option<Timestamp>, now: Timestamp) -> f64 {
    oldest.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use shared::clock::from_ms;

    use super::*;

    #[test]
    fn only_what_is_due_is_late() {
        let now = from_ms(10_000);
        for (oldest, seconds) in [(None, 0.0), (Some(from_ms(12_000)), 0.0), (Some(from_ms(7_500)), 2.5)] {
            assert!((late(oldest, now) - seconds).abs() < f64::EPSILON);
        }
    }
}
