//! Backlog gauges, computed from the database's rows.

use std::sync::Arc;

use domain::message::{Channel, Lane};
use jiff::Timestamp;
use kernel::metric_name::Metric;
use metrics::gauge;
use store_sending::send_chunks::ready;
use store_sending::{outbox, timers, webhook_calls};

use crate::App;
use crate::tick::TickError;

/// Measures how long the oldest row of each kind has been due, and the backlog of delivery by channel and lane.
pub async fn measure(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    let (now, set) =
        (app.now(), |what: &'static str, late: f64| gauge!(Metric::OldestDueSeconds, "what" => what).set(late));
    set("message", late(ready::oldest(&db).await?, now));
    set("timer", late(timers::due::oldest(&db).await?, now));
    set("webhook_call", late(webhook_calls::oldest(&db).await?, now));
    set("outbox", late(outbox::oldest(&db).await?, now));
    let backlog = ready::backlog(&db, now).await?;
    for channel in Channel::ALL {
        for lane in Lane::ALL {
            let due = backlog.get(&(channel, lane));
            let labels = [("channel", channel.slug()), ("lane", lane.as_str())];
            gauge!(Metric::MessagesDue, &labels).set(due.map_or(0.0, |due| due.messages as f64));
            gauge!(Metric::OldestMessageDueSeconds, &labels).set(late(due.map(|due| due.oldest), now));
        }
    }
    Ok(())
}

/// Returns the seconds since a due time; 0 if it is missing or in the future.
fn late(oldest: Option<Timestamp>, now: Timestamp) -> f64 {
    oldest.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;

    use super::*;

    #[test]
    fn a_time_in_the_future_is_not_late() {
        let now = from_ms(10_000);
        for (oldest, seconds) in [(None, 0.0), (Some(from_ms(12_000)), 0.0), (Some(from_ms(7_500)), 2.5)] {
            assert!((late(oldest, now) - seconds).abs() < f64::EPSILON);
        }
    }
}
