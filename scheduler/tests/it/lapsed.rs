//! Campaigns that are paused or cancelled after a worker that began some of their messages died.

use domain::campaign::{CampaignStatus, Settings};
use jiff::SignedDuration;
use store_sending::dead_letters::{self, DeadFilter};
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use testkit::eventually_true;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{PARKED, SENT, Sending, begin, begin_exactly, reported, settle};

const LEASE: SignedDuration = SignedDuration::from_mins(5);
const NOT_BEGUN: &str = "SELECT count(*) FROM send_chunk WHERE NOT is_begun";
const CHECKED: &str = "SELECT count(*) FROM campaign WHERE look_at IS NOT NULL";

/// A campaign to ten users, two of whose messages a worker has begun.
async fn begun(fixture: &mut Fixture) -> (Uuid, Sending) {
    create_users(fixture, 30).await;
    let pro = segment(fixture, "pro").await;
    let id = campaign(fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    fixture.run().await;
    let sending = begin_exactly(fixture, 2, LEASE).await;
    (id, sending)
}

async fn lease_ends(fixture: &Fixture) {
    let sql = "UPDATE send_chunk SET due_at = now() - interval '1 second' WHERE is_begun";
    assert_eq!(fixture.store.connection().await.unwrap().execute(sql, &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_lapsed_begun_chunk_of_a_cancelled_campaign_counts_as_ambiguous() {
    let mut fixture = Fixture::new().await;
    let (id, sending) = begun(&mut fixture).await;
    move_to(&fixture, id, CampaignStatus::Cancelled).await;
    fixture.eventually_none(NOT_BEGUN).await;
    // The worker may still be sending them.
    assert_eq!((reported(&fixture, id, "queued").await, reported(&fixture, id, "cancelled").await), (2, 8));
    lease_ends(&fixture).await;
    fixture.eventually_none(CHECKED).await;
    fixture.stop().await;
    let of = CampaignRef { project: fixture.project, campaign: id };
    assert!(!chunks::is_open(&fixture.store.connection().await.unwrap(), of).await.unwrap());
    assert_eq!(reported(&fixture, id, "cancelled").await, 10);
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM message WHERE status = 'cancelled' AND ambiguous = 1 AND attempt = 1")
            .await,
        2
    );
    // The worker was only slow, but its outcome arrives too late.
    assert!(!settle(&fixture, &sending, |_| SENT).await);
    assert_eq!(fixture.count("SELECT count(*) FROM message WHERE sent_at IS NOT NULL").await, 0);
}

/// Settling, receipts and erasures lock a message and then counters.
#[tokio::test]
async fn a_cancellation_takes_locks_in_an_order_that_allows_no_deadlock() {
    let mut fixture = Fixture::new().await;
    let (id, sending) = begun(&mut fixture).await;
    fixture.stop().await;
    lease_ends(&fixture).await;
    let (of, now) = (CampaignRef { project: fixture.project, campaign: id }, fixture.clock.now());
    let (mut one, mut other) = (fixture.store.connection().await.unwrap(), fixture.store.connection().await.unwrap());
    let lanes = "INSERT INTO campaign_count (project_id, campaign_id, occurrence, variant, status, lane, count) \
                 SELECT $1, $2, 1, '', s, n, 0 FROM generate_series(0, 7) n, unnest(ARRAY['queued', 'cancelled']) s ON CONFLICT DO NOTHING";
    one.execute(lanes, &[&fixture.project, &id]).await.unwrap();
    let tx = one.transaction().await.unwrap();
    // The wait of this transaction is checked first, so a deadlock fails it.
    tx.batch_execute("SET LOCAL deadlock_timeout = '10ms'").await.unwrap();
    tx.query("SELECT FROM message WHERE id = $1 FOR UPDATE", &[&sending.messages[0].id]).await.unwrap();
    let cancelling = async {
        let tx = other.transaction().await.unwrap();
        assert_eq!(chunks::cancel(&tx, of, 50, now).await.unwrap().count, 10);
        tx.commit().await.unwrap();
    };
    let counting = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
        eventually_true("the cancellation waits for the message", SOON, async || {
            tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        tx.execute("UPDATE campaign_count SET count = count WHERE campaign_id = $1", &[&id]).await.unwrap();
        tx.commit().await.unwrap();
    };
    tokio::join!(cancelling, counting);
    assert_eq!(reported(&fixture, id, "cancelled").await, 10);
}

#[tokio::test]
async fn a_pause_parks_a_lapsed_chunk_and_its_messages_stay_in_doubt() {
    let mut fixture = Fixture::new().await;
    let (id, _) = begun(&mut fixture).await;
    move_to(&fixture, id, CampaignStatus::Paused).await;
    fixture.eventually_none("SELECT 8 - coalesce(sum(size), 0)::bigint FROM send_chunk WHERE due_at IS NULL").await;
    lease_ends(&fixture).await;
    fixture.eventually_none(CHECKED).await;
    assert_eq!(fixture.count(PARKED).await, 10);
    assert!(begin(&fixture, 10, LEASE).await.messages.is_empty());
    assert_eq!(fixture.count("SELECT sum(ambiguous)::bigint FROM message").await, 0);

    move_to(&fixture, id, CampaignStatus::Sending).await;
    fixture.eventually_none(PARKED).await;
    let sending = begin_lapsed(&fixture, 10).await;
    let lapsed = sending.messages.iter().filter(|message| message.lapsed && message.ambiguous == 1);
    assert_eq!(lapsed.count(), 2);
    fixture.stop().await;
}

/// Like `begin_exactly`, for messages of which some are lapsed and not counted as due.
async fn begin_lapsed(fixture: &Fixture, count: usize) -> Sending {
    let sending = begin(fixture, count, LEASE).await;
    assert_eq!(sending.messages.len(), count);
    sending
}

#[tokio::test]
async fn slow_worker_settles_a_parked_chunk() {
    let mut fixture = Fixture::new().await;
    let (id, sending) = begun(&mut fixture).await;
    lease_ends(&fixture).await;
    move_to(&fixture, id, CampaignStatus::Paused).await;
    fixture.eventually_none(CHECKED).await;
    assert!(settle(&fixture, &sending, |_| SENT).await);
    assert_eq!((reported(&fixture, id, "sent").await, fixture.count(PARKED).await), (2, 8));
    fixture.stop().await;
}

#[tokio::test]
async fn workers_park_replays_of_a_paused_campaign() {
    let mut fixture = Fixture::new().await;
    let (id, sending) = begun(&mut fixture).await;
    let failed = (domain::message::DeliveryState::Failed, Some("gave_up: busy"), 1);
    assert!(settle(&fixture, &sending, |_| failed).await);
    move_to(&fixture, id, CampaignStatus::Paused).await;
    fixture.eventually_none(CHECKED).await;
    fixture.stop().await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = fixture.clock.now();
    let replayed = dead_letters::replay(&tx, fixture.project, &DeadFilter::default(), 10, now).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(replayed.messages, 2);
    assert!(begin(&fixture, 10, LEASE).await.messages.is_empty());
    assert_eq!(fixture.count(PARKED).await, 10);
    fixture.run().await;
    move_to(&fixture, id, CampaignStatus::Sending).await;
    let sending = begin_exactly(&fixture, 10, LEASE).await;
    assert_eq!(sending.messages.iter().filter(|message| message.attempt > 1).count(), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn cancellation_also_cancels_earlier_occurrences() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let in_an_hour = fixture.clock.now() + SignedDuration::from_hours(1);
    let id = campaign(&fixture, pro, in_an_hour, Settings::default()).await.id;
    // A dead letter of an earlier occurrence that was replayed.
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, occurrence, created_at, updated_at) \
               VALUES ($1, $2, $2, 'EMAIL', 'campaign', 'queued', $3, 1, now(), now())";
    let earlier = kernel::ids::fresh(fixture.clock.now_ms() - 3_600_000);
    db.execute(sql, &[&fixture.project, &earlier, &id]).await.unwrap();
    let sql = "INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, due_at, campaign_id, occurrence, send_at, created_at) \
               VALUES ($1, $2, 'EMAIL', 'campaign', ARRAY[$2::uuid], '0', 1, now(), $3, 1, '-infinity', now())";
    db.execute(sql, &[&fixture.project, &earlier, &id]).await.unwrap();
    fixture.run().await;
    move_to(&fixture, id, CampaignStatus::Cancelled).await;
    fixture.eventually_none("SELECT count(*) FROM message WHERE status = 'queued'").await;
    fixture.eventually_none("SELECT count(*) FROM send_chunk").await;
    fixture.stop().await;
}
