//! The clock jumps ahead, and returns or is declared correct. Everything that became due by the jump is held meanwhile.

use std::time::Duration;

use database::clock_jumps::{self, ClockJump};
use domain::campaign::{CampaignStatus, Settings};
use jiff::SignedDuration;
use kernel::clock::{Clock, from_ms};
use scheduler::due::jumps;
use scheduler::maintenance::retention::clear;
use store_sending::campaigns::sending;
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, delivered_for, delivered_until, now_stands, people, segment};
use crate::place::{Place, SOON};
use crate::retention::{DAY_MS, events, project, rows};

const TIMERS: &str = "SELECT count(*) FROM timer";
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HALF_AN_HOUR_MS: i64 = 1_800_000;

/// Returns a [`Place`] with a manual clock.
async fn place() -> Place {
    let mut place = Place::new().await;
    place.clock = Clock::manual(from_ms(place.clock.now_ms()));
    place
}

async fn noted(place: &Place) -> Option<ClockJump> {
    clock_jumps::get(&place.store.connection().await.unwrap()).await.unwrap()
}

async fn eventually_noted(place: &Place, is_noted: bool) {
    eventually(SOON, async || {
        let jump = noted(place).await;
        if jump.is_some() == is_noted { Ok(()) } else { Err(format!("{jump:?}")) }
    })
    .await;
}

/// Resumes a campaign that was paused before it began.
async fn resume(place: &Place, id: Uuid) {
    let (mut db, now) = (place.store.connection().await.unwrap(), place.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::begin(&tx, place.project, id, now, now).await.unwrap();
    tx.commit().await.unwrap();
}

/// Waits until the schedulers have polled timers: one that is due fires.
async fn a_look(place: &Place, left: i64) {
    place.timers(place.project, [1], 0).await;
    eventually(SOON, async || match place.count(TIMERS).await {
        found if found == left => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
}

#[tokio::test]
async fn nothing_fires_early_and_all_goes_on_when_the_clock_is_back() {
    let mut place = place().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let in_half_an_hour = from_ms(place.clock.now_ms() + HALF_AN_HOUR_MS);
    let sale = campaign(&place, pro, in_half_an_hour, Settings::default()).await;
    let later = campaign(&place, pro, place.clock.now() + HOUR * 3, Settings::default()).await;
    place.timers(place.project, 10..30, HALF_AN_HOUR_MS).await;
    place.run().await;
    place.run().await;
    a_look(&place, 20).await;

    place.clock.jump(HOUR);
    let paused = delivered_until(&place, sale.id, CampaignStatus::Paused).await;
    assert!(paused.status_reason.unwrap().contains("jumped ahead by 60 minutes"));
    eventually_noted(&place, true).await;
    assert_eq!(noted(&place).await.unwrap().ahead_ms, 3_600_000);
    // Schedulers that start now do not fire the timers, and do not send a resumed campaign.
    place.stop().await;
    place.run().await;
    resume(&place, sale.id).await;
    delivered_until(&place, sale.id, CampaignStatus::Paused).await;
    place.clock.advance(Duration::from_mins(29));
    place.timers(place.project, [2], -3_600_001).await;
    eventually(SOON, async || match place.count(TIMERS).await {
        20 => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
    assert_eq!(now_stands(&place, later.id).await.status, CampaignStatus::Scheduled);
    assert_eq!(place.count("SELECT count(*) FROM message").await, 0);

    // The timers' actual due time has come, although the clock is wrong.
    place.clock.advance(Duration::from_mins(1));
    place.eventually_none(TIMERS).await;
    place.clock.jump(-HOUR);
    eventually_noted(&place, false).await;
    resume(&place, sale.id).await;
    delivered_for(&place, sale.id, CampaignStatus::Completed, Duration::from_millis(200)).await;
    place.stop().await;
}

#[tokio::test]
async fn what_was_held_fires_when_somebody_says_that_the_clock_is_right() {
    let mut place = place().await;
    place.timers(place.project, 10..30, HALF_AN_HOUR_MS).await;
    place.run().await;
    place.run().await;
    a_look(&place, 20).await;
    place.clock.jump(HOUR);
    eventually_noted(&place, true).await;
    // Both schedulers must know of the jump before it is withdrawn.
    place.stop().await;
    place.run().await;
    place.timers(place.project, [2], -3_600_001).await;
    eventually(SOON, async || match place.count(TIMERS).await {
        20 => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
    assert!(clock_jumps::forget(&place.store.connection().await.unwrap()).await.unwrap());
    place.eventually_none(TIMERS).await;
    assert_eq!(noted(&place).await, None);
    place.stop().await;
}

#[tokio::test]
async fn nothing_is_removed_for_an_age_that_it_has_by_the_jump_alone() {
    let place = place().await;
    let shop = project(&place, 10).await;
    events(&place, shop, place.clock.now_ms() - 2 * DAY_MS, 10).await;
    let app = place.app().await;
    jumps::tick(app.clone()).await.unwrap();
    place.clock.jump(SignedDuration::from_hours(24 * 9));
    clear(app.clone()).await.unwrap();
    assert_eq!(rows(&place, shop).await.0, 10);
    jumps::tick(app.clone()).await.unwrap();
    clock_jumps::forget(&place.store.connection().await.unwrap()).await.unwrap();
    jumps::tick(app.clone()).await.unwrap();
    clear(app).await.unwrap();
    assert_eq!(rows(&place, shop).await.0, 0);
}
