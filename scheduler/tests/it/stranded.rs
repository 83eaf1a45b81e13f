//! Dead letters that are replayed before or while their campaign is paused, cancelled, made a draft or deleted.

use database::Transaction;
use domain::campaign::{CampaignStatus, Recurrence, Settings};
use domain::message::DeliveryState;
use jiff::{SignedDuration, Timestamp};
use store_sending::campaigns::{self, sending};
use store_sending::dead_letters::{self, DeadFilter};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, current_campaign, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{DUE, Outcome, PARKED, SENT, begin_exactly, deliver, deliver_due, reported, settle};

const GAVE_UP: Outcome = (DeliveryState::Failed, Some("gave_up: busy"), 1);
const RETRIED: Outcome = (DeliveryState::Queued, Some("retrying: 421 later"), 1);
const LEASE: SignedDuration = SignedDuration::from_mins(5);
const CHUNKS: &str = "SELECT count(*) FROM send_chunk";
const CHECKED: &str = "SELECT count(*) FROM campaign WHERE look_at IS NOT NULL";
const CANCELLED: &str = "SELECT count(*) FROM message WHERE status = 'cancelled'";

/// Returns a recurring campaign to ten users that waits for its next occurrence. `failed` messages of the last one are
/// dead letters.
async fn ended(fixture: &mut Fixture, failed: usize) -> Uuid {
    create_users(fixture, 30).await;
    let pro = segment(fixture, "pro").await;
    let recurrence = Recurrence { cron: "0 9 1 1 *".to_owned(), timezone: "Europe/Oslo".to_owned() };
    let settings = Settings { recurrence: Some(recurrence), ..Settings::default() };
    let id = campaign(fixture, pro, fixture.clock.now(), settings).await.id;
    fixture.run().await;
    deliver(fixture, 10, |n| if n < failed { GAVE_UP } else { SENT }).await;
    eventually(SOON, async || match current_campaign(fixture, id).await {
        campaign if campaign.status == CampaignStatus::Scheduled && !campaign.under_way => Ok(()),
        campaign => Err(format!("{campaign:?}")),
    })
    .await;
    fixture.stop().await;
    id
}

async fn replay(fixture: &Fixture, count: u64) {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    replay_in(fixture, &tx, count).await;
    tx.commit().await.unwrap();
}

async fn replay_in(fixture: &Fixture, tx: &Transaction<'_>, count: u64) {
    let now = fixture.clock.now();
    let replayed = dead_letters::replay(tx, fixture.project, &DeadFilter::default(), 10, now).await.unwrap();
    assert_eq!(replayed.messages, count);
}

/// Like the API: the scheduler checks a scheduled campaign at its time, and never checks a draft.
async fn edit_to(fixture: &Fixture, id: Uuid, status: CampaignStatus, next_check_at: Option<Timestamp>) {
    let (mut db, now) = (fixture.store.connection().await.unwrap(), fixture.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::set_status(&tx, fixture.project, id, (status, None), next_check_at, now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_replay_parked_by_a_pause_is_released_when_the_campaign_is_scheduled_again() {
    let mut fixture = Fixture::new().await;
    let id = ended(&mut fixture, 2).await;
    replay(&fixture, 2).await;
    move_to(&fixture, id, CampaignStatus::Paused).await;
    fixture.run().await;
    fixture.eventually_none(CHECKED).await;
    fixture.stop().await;
    assert_eq!(fixture.count(PARKED).await, 2);
    scheduler::campaigns::stranded::clear(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count(PARKED).await, 2, "the campaign is paused");

    let next = current_campaign(&fixture, id).await.scheduled_at;
    edit_to(&fixture, id, CampaignStatus::Scheduled, next).await;
    fixture.run().await;
    eventually(SOON, async || match fixture.count(DUE).await {
        2 => Ok(()),
        due => Err(due),
    })
    .await;
    fixture.stop().await;
    deliver_due(&fixture).await;
    assert_eq!((reported(&fixture, id, "sent").await, fixture.count(CHUNKS).await), (10, 0));
    assert_eq!(current_campaign(&fixture, id).await.status, CampaignStatus::Scheduled);
}

#[tokio::test]
async fn replays_of_a_campaign_that_is_made_a_draft_are_cancelled_unless_they_are_being_sent() {
    let mut fixture = Fixture::new().await;
    let id = ended(&mut fixture, 3).await;
    replay(&fixture, 3).await;
    let retried = begin_exactly(&fixture, 1, LEASE).await;
    assert!(settle(&fixture, &retried, |_| RETRIED).await);
    let sending = begin_exactly(&fixture, 1, LEASE).await;
    edit_to(&fixture, id, CampaignStatus::Draft, None).await;
    fixture.run().await;
    fixture.eventually_none("SELECT count(*) FROM send_chunk WHERE NOT is_begun").await;
    assert!(settle(&fixture, &sending, |_| SENT).await);
    fixture.stop().await;
    // The API deletes a campaign without chunks.
    assert_eq!((fixture.count(CHUNKS).await, fixture.count(CANCELLED).await), (0, 2));
    assert_eq!((reported(&fixture, id, "sent").await, reported(&fixture, id, "cancelled").await), (8, 2));
}

#[tokio::test]
async fn a_replay_that_is_committed_after_a_cancellation_is_cancelled() {
    let mut fixture = Fixture::new().await;
    let id = ended(&mut fixture, 2).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    replay_in(&fixture, &tx, 2).await;
    move_to(&fixture, id, CampaignStatus::Cancelled).await;
    fixture.run().await;
    fixture.eventually_none(CHECKED).await;
    fixture.stop().await;
    tx.commit().await.unwrap();
    assert_eq!(fixture.count(DUE).await, 2);
    fixture.run().await;
    fixture.eventually_none(CHUNKS).await;
    fixture.stop().await;
    assert_eq!((fixture.count(CANCELLED).await, reported(&fixture, id, "cancelled").await), (2, 2));
}

#[tokio::test]
async fn a_replay_of_a_deleted_campaign_is_cancelled_and_leaves_no_counts() {
    let mut fixture = Fixture::new().await;
    let id = ended(&mut fixture, 2).await;
    // The replay may not see the deletion, nor the deletion the replay, if neither is committed yet.
    replay(&fixture, 2).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    campaigns::delete(&tx, fixture.project, id).await.unwrap();
    tx.commit().await.unwrap();
    fixture.run().await;
    fixture.eventually_none(CHUNKS).await;
    fixture.stop().await;
    assert_eq!((fixture.count(CANCELLED).await, fixture.count("SELECT count(*) FROM campaign_count").await), (2, 0));
}
