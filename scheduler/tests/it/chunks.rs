//! Chunks of campaigns: released, parked and cancelled.

use std::time::Duration;

use domain::campaign::{CampaignStatus, Settings};
use domain::message::DeliveryState;
use jiff::SignedDuration;
use kernel::clock::{Clock, from_ms};
use store_sending::campaigns::sending;
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use testkit::{PrivateNats, eventually};
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, current_campaign, delivered_until, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{DUE, PARKED, SENT, begin, begin_exactly, deliver_due, reported, settle};

const RETRIED: (DeliveryState, Option<&str>, i32) = (DeliveryState::Queued, Some("retrying: 421 later"), 1);
const LEASE: SignedDuration = SignedDuration::from_mins(1);

/// A campaign to `recipients` users whose chunks are all due.
async fn released(fixture: &mut Fixture, recipients: i64) -> Uuid {
    create_users(fixture, 3 * recipients).await;
    let pro = segment(fixture, "pro").await;
    let id = campaign(fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    fixture.run().await;
    eventually_count(fixture, DUE, recipients).await;
    id
}

async fn eventually_count(fixture: &Fixture, sql: &str, expected: i64) {
    eventually(SOON, async || match fixture.count(sql).await {
        count if count == expected => Ok(()),
        count => Err(format!("{count}, not {expected}")),
    })
    .await;
}

/// Waits until the scheduler has nothing more to do for the campaign.
async fn is_settled(fixture: &Fixture) {
    fixture.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
}

#[tokio::test]
async fn a_throttle_splits_chunks_and_releases_exactly_what_it_allows() {
    let mut fixture = Fixture::new().await;
    fixture.clock = Clock::manual(from_ms(fixture.clock.now_ms()));
    create_users(&fixture, 3_000).await;
    let pro = segment(&fixture, "pro").await;
    let settings = Settings { throttle_per_minute: Some(6_000), ..Settings::default() };
    let id = campaign(&fixture, pro, fixture.clock.now(), settings).await.id;
    let app = fixture.app().await;
    let tick = async || {
        scheduler::campaigns::tick(app.clone()).await.unwrap();
    };
    let due = "SELECT coalesce(sum(size), 0)::bigint FROM send_chunk WHERE due_at IS NOT NULL";
    let counts = async || (fixture.count(due).await, fixture.count(PARKED).await);
    for _ in 0..3 {
        tick().await;
    }
    assert_eq!(counts().await, (0, 1_000), "no time has passed since it began");
    // The pace is 100 a second, and at most one second's worth accumulates.
    for (pause_ms, expected) in [(250, 25), (500, 75), (250, 100), (60_000, 200), (1_000, 300)] {
        fixture.clock.advance(Duration::from_millis(pause_ms));
        tick().await;
        assert_eq!(counts().await, (expected, 1_000 - expected), "after {pause_ms} ms more");
    }
    let sizes = "SELECT count(*) FROM send_chunk WHERE due_at IS NULL AND size IN (200, 500)";
    assert_eq!(fixture.count(sizes).await, 2, "one of two chunks of 500 has lost 300 members");
    let times = "SELECT count(DISTINCT created_at) FROM send_chunk";
    assert_eq!(fixture.count(times).await, 1, "erasures are compared with the time at which the audience was found");
    // Each user is in one chunk only, and gets one message.
    deliver_due(&fixture).await;
    for _ in 0..12 {
        fixture.clock.advance(Duration::from_secs(1));
        tick().await;
        deliver_due(&fixture).await;
    }
    assert_eq!(current_campaign(&fixture, id).await.status, CampaignStatus::Completed);
    assert_eq!(fixture.count("SELECT count(DISTINCT user_id) FROM message WHERE status = 'sent'").await, 1_000);
    assert_eq!(fixture.count("SELECT count(*) FROM send_chunk").await, 0);
}

#[tokio::test]
async fn a_pause_parks_all_chunks_that_no_worker_is_sending_and_a_resumption_releases_them() {
    let mut fixture = Fixture::new().await;
    let id = released(&mut fixture, 1_300).await;
    let sending = begin_exactly(&fixture, 100, LEASE).await;
    move_to(&fixture, id, CampaignStatus::Paused).await;
    eventually_count(&fixture, PARKED, 1_200).await;
    assert_eq!(begin(&fixture, 10, LEASE).await.messages.len(), 0);
    // The calls in flight finish; retries wait until the campaign is resumed.
    assert!(settle(&fixture, &sending, |n| if n < 40 { SENT } else { RETRIED }).await);
    is_settled(&fixture).await;
    assert_eq!(fixture.count(PARKED).await, 1_260);
    assert_eq!((reported(&fixture, id, "sent").await, reported(&fixture, id, "queued").await), (40, 1_260));

    move_to(&fixture, id, CampaignStatus::Sending).await;
    eventually_count(&fixture, DUE, 1_260).await;
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    assert_eq!(reported(&fixture, id, "sent").await, 1_300);
    fixture.stop().await;
}

#[tokio::test]
async fn a_cancellation_counts_the_audience_and_updates_recorded_messages() {
    let mut fixture = Fixture::new().await;
    let id = released(&mut fixture, 700).await;
    let sending = begin_exactly(&fixture, 50, LEASE).await;
    assert!(settle(&fixture, &sending, |n| if n < 20 { SENT } else { RETRIED }).await);
    move_to(&fixture, id, CampaignStatus::Cancelled).await;
    is_settled(&fixture).await;
    fixture.stop().await;
    assert_eq!(fixture.count("SELECT count(*) FROM send_chunk").await, 0);
    // Recipients without a row are only counted.
    let cancelled = "SELECT count(*) FROM message WHERE status = 'cancelled' AND status_reason = 'campaign_cancelled'";
    assert_eq!((fixture.count(cancelled).await, fixture.count("SELECT count(*) FROM message").await), (30, 50));
    assert_eq!(fixture.count("SELECT coalesce(sum(ambiguous), 0)::bigint FROM message").await, 0);
    let states = ["sent", "cancelled", "queued"];
    let mut counts = Vec::new();
    for state in states {
        counts.push(reported(&fixture, id, state).await);
    }
    assert_eq!(counts, [20, 680, 0]);
}

#[tokio::test]
async fn pending_retries_do_not_delay_the_audience_and_are_checked_rarely() {
    let mut fixture = Fixture::new().await;
    let id = released(&mut fixture, 1_000).await;
    let sending = begin_exactly(&fixture, 600, LEASE).await;
    assert!(settle(&fixture, &sending, |_| (DeliveryState::Queued, Some("quiet_hours"), 0)).await);
    assert_eq!(fixture.count(DUE).await, 400);
    deliver_due(&fixture).await;
    let waits = "SELECT 1 - count(*) FROM campaign WHERE look_at > now() + interval '1 second'";
    fixture.eventually_none(waits).await;
    assert_eq!(current_campaign(&fixture, id).await.status, CampaignStatus::Sending);
    let ended = "UPDATE send_chunk SET due_at = now() WHERE campaign_id = $1";
    fixture.store.connection().await.unwrap().execute(ended, &[&id]).await.unwrap();
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    fixture.stop().await;
}

#[tokio::test]
async fn begun_messages_count_as_in_delivery_for_any_lease() {
    let mut fixture = Fixture::new().await;
    let id = released(&mut fixture, 60).await;
    fixture.stop().await;
    begin_exactly(&fixture, 50, SignedDuration::from_mins(10)).await;
    let (of, now) = (CampaignRef { project: fixture.project, campaign: id }, fixture.clock.now());
    let mut db = fixture.store.connection().await.unwrap();
    assert_eq!(chunks::in_delivery(&db, of, now).await.unwrap(), 60);
    // A begun chunk that a pause has parked waits for its release.
    let tx = db.transaction().await.unwrap();
    let lease_ended = now + SignedDuration::from_mins(11);
    assert_eq!(chunks::park(&tx, of, lease_ended).await.unwrap(), 2);
    assert_eq!(chunks::in_delivery(&tx, of, lease_ended).await.unwrap(), 0);
}

#[tokio::test]
async fn a_throttle_also_splits_a_begun_chunk_and_keeps_its_calls_in_doubt() {
    let mut fixture = Fixture::new().await;
    let id = released(&mut fixture, 60).await;
    fixture.stop().await;
    // A worker settles 20 of 50 messages and dies.
    let mut sending = begin_exactly(&fixture, 50, SignedDuration::from_secs(-1)).await;
    let left = sending.messages.split_off(20);
    assert!(settle(&fixture, &sending, |_| SENT).await);
    let (of, now) = (CampaignRef { project: fixture.project, campaign: id }, fixture.clock.now());
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    assert_eq!(chunks::park(&tx, of, now).await.unwrap(), 2);
    tx.execute("UPDATE send_chunk SET send_at = '2000-01-01' WHERE is_begun", &[]).await.unwrap();
    tx.execute("UPDATE send_chunk SET send_at = '2000-01-02' WHERE NOT is_begun", &[]).await.unwrap();
    // First 10 of the remaining 30, then the other 20 with 5 recipients.
    assert_eq!(chunks::release(&tx, of, 10, now).await.unwrap(), 10);
    assert_eq!(chunks::release(&tx, of, 25, now).await.unwrap(), 25);
    assert_eq!(chunks::release(&tx, of, 99, now).await.unwrap(), 5);
    assert!(!sending_is_parked(&tx, id).await);
    tx.commit().await.unwrap();
    sending::schedule_check(&db, fixture.project, id, Some(now), now).await.unwrap();
    deliver_due(&fixture).await;
    let doubtful = "SELECT count(*) FROM message WHERE ambiguous = 1 AND status = 'sent'";
    assert_eq!((fixture.count(doubtful).await, left.len()), (30, 30));
    assert_eq!(reported(&fixture, id, "sent").await, 60);
}

async fn sending_is_parked(tx: &database::Transaction<'_>, id: Uuid) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM send_chunk WHERE campaign_id = $1 AND due_at IS NULL)";
    tx.query_one(sql, &[&id]).await.unwrap().get(0)
}

#[tokio::test]
async fn campaigns_are_sent_while_the_broker_is_unavailable() {
    let nats = PrivateNats::start().await;
    let fixture = Fixture::at(&nats.url(), "", None, &[]).await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    let app = fixture.app().await;
    nats.kill().await;
    testkit::eventually_true("the broker is unavailable", SOON, async || !fixture.bus.is_connected()).await;
    eventually(SOON, async || {
        scheduler::campaigns::tick(app.clone()).await.unwrap();
        deliver_due(&fixture).await;
        match current_campaign(&fixture, id).await.status {
            CampaignStatus::Completed => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(reported(&fixture, id, "sent").await, 10);
}
