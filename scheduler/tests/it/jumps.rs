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

use crate::campaigns::{campaign, create_users, current_campaign, delivered_for, delivered_until, segment};
use crate::fixture::{Fixture, SOON};
use crate::retention::{DAY_MS, events, project, rows};

const TIMERS: &str = "SELECT count(*) FROM timer";
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HALF_AN_HOUR_MS: i64 = 1_800_000;

/// Returns a [`Fixture`] with a manual clock.
async fn manual_clock() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.clock = Clock::manual(from_ms(fixture.clock.now_ms()));
    fixture
}

async fn recorded_jump(fixture: &Fixture) -> Option<ClockJump> {
    clock_jumps::get(&fixture.store.connection().await.unwrap()).await.unwrap()
}

async fn eventually_recorded(fixture: &Fixture, is_recorded: bool) {
    eventually(SOON, async || {
        let jump = recorded_jump(fixture).await;
        if jump.is_some() == is_recorded { Ok(()) } else { Err(format!("{jump:?}")) }
    })
    .await;
}

/// Resumes a campaign that was paused before it began.
async fn resume(fixture: &Fixture, id: Uuid) {
    let (mut db, now) = (fixture.store.connection().await.unwrap(), fixture.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::begin(&tx, fixture.project, id, now, now).await.unwrap();
    tx.commit().await.unwrap();
}

/// Waits until the schedulers have polled timers: one that is due fires.
async fn await_poll(fixture: &Fixture, left: i64) {
    fixture.timers(fixture.project, [1], 0).await;
    eventually(SOON, async || match fixture.count(TIMERS).await {
        found if found == left => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
}

#[tokio::test]
async fn nothing_fires_early_and_work_resumes_when_the_clock_returns() {
    let mut fixture = manual_clock().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let in_half_an_hour = from_ms(fixture.clock.now_ms() + HALF_AN_HOUR_MS);
    let sale = campaign(&fixture, pro, in_half_an_hour, Settings::default()).await;
    let later = campaign(&fixture, pro, fixture.clock.now() + HOUR * 3, Settings::default()).await;
    fixture.timers(fixture.project, 10..30, HALF_AN_HOUR_MS).await;
    fixture.run().await;
    fixture.run().await;
    await_poll(&fixture, 20).await;

    fixture.clock.jump(HOUR);
    let paused = delivered_until(&fixture, sale.id, CampaignStatus::Paused).await;
    assert!(paused.status_reason.unwrap().contains("jumped ahead by 60 minutes"));
    eventually_recorded(&fixture, true).await;
    assert_eq!(recorded_jump(&fixture).await.unwrap().ahead_ms, 3_600_000);
    // Schedulers that start now do not fire the timers, and do not send a resumed campaign.
    fixture.stop().await;
    fixture.run().await;
    resume(&fixture, sale.id).await;
    delivered_until(&fixture, sale.id, CampaignStatus::Paused).await;
    fixture.clock.advance(Duration::from_mins(29));
    fixture.timers(fixture.project, [2], -3_600_001).await;
    eventually(SOON, async || match fixture.count(TIMERS).await {
        20 => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
    assert_eq!(current_campaign(&fixture, later.id).await.status, CampaignStatus::Scheduled);
    assert_eq!(fixture.count("SELECT count(*) FROM message").await, 0);

    // The timers' actual due time has come, although the clock is wrong.
    fixture.clock.advance(Duration::from_mins(1));
    fixture.eventually_none(TIMERS).await;
    fixture.clock.jump(-HOUR);
    eventually_recorded(&fixture, false).await;
    resume(&fixture, sale.id).await;
    delivered_for(&fixture, sale.id, CampaignStatus::Completed, Duration::from_millis(200)).await;
    fixture.stop().await;
}

#[tokio::test]
async fn held_timers_fire_when_the_jump_is_accepted() {
    let mut fixture = manual_clock().await;
    fixture.timers(fixture.project, 10..30, HALF_AN_HOUR_MS).await;
    fixture.run().await;
    fixture.run().await;
    await_poll(&fixture, 20).await;
    fixture.clock.jump(HOUR);
    eventually_recorded(&fixture, true).await;
    // Both schedulers must know of the jump before it is withdrawn.
    fixture.stop().await;
    fixture.run().await;
    fixture.timers(fixture.project, [2], -3_600_001).await;
    eventually(SOON, async || match fixture.count(TIMERS).await {
        20 => Ok(()),
        found => Err(format!("{found} timers")),
    })
    .await;
    assert!(clock_jumps::delete(&fixture.store.connection().await.unwrap()).await.unwrap());
    fixture.eventually_none(TIMERS).await;
    assert_eq!(recorded_jump(&fixture).await, None);
    fixture.stop().await;
}

#[tokio::test]
async fn clock_jump_alone_expires_no_events() {
    let fixture = manual_clock().await;
    let shop = project(&fixture, 10).await;
    events(&fixture, shop, fixture.clock.now_ms() - 2 * DAY_MS, 10).await;
    let app = fixture.app().await;
    jumps::tick(app.clone()).await.unwrap();
    fixture.clock.jump(SignedDuration::from_hours(24 * 9));
    clear(app.clone()).await.unwrap();
    assert_eq!(rows(&fixture, shop).await.0, 10);
    jumps::tick(app.clone()).await.unwrap();
    clock_jumps::delete(&fixture.store.connection().await.unwrap()).await.unwrap();
    jumps::tick(app.clone()).await.unwrap();
    clear(app).await.unwrap();
    assert_eq!(rows(&fixture, shop).await.0, 0);
}
