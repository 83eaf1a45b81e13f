//! What the scheduler does right after an outage of the database.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scheduler::tick::{Found, TickError, repeat};
use shared::shutdown::Shutdown;
use shared::store::StoreError;

use crate::place::Place;

const CALM: Duration = Duration::from_millis(600);

/// How long after a failed tick the next one came.
async fn next_after(place: &Place, error: fn() -> TickError) -> Duration {
    let (shutdown, times) = (Shutdown::new(), Arc::new(Mutex::new(Vec::new())));
    let tick = |_| {
        let mut times = times.lock().unwrap();
        times.push(Instant::now());
        if times.len() == 2 {
            shutdown.cancel();
        }
        std::future::ready(if times.len() == 1 { Err(error()) } else { Ok(Found::Nothing) })
    };
    repeat("test", place.app().await, shutdown.clone(), CALM, tick).await;
    let times = times.lock().unwrap();
    times[1] - times[0]
}

#[tokio::test]
async fn after_an_outage_of_the_database_others_may_write_first() {
    let place = Place::new().await;
    let away = || TickError::Store(StoreError::Unavailable("away on purpose".to_owned()));
    assert!(next_after(&place, away).await >= CALM);
    // Nobody has anything to write because of the broker.
    assert!(next_after(&place, || TickError::Broker("away on purpose".to_owned())).await < CALM);
}
