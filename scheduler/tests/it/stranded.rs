//! Dead letters that are replayed before or while their campaign is paused, cancelled, made a draft or deleted.

use database::Transaction;
use domain::campaign::{CampaignStatus, Recurrence, Settings};
use domain::message::DeliveryState;
use jiff::{SignedDuration, Timestamp};
use store_sending::campaigns::{self, sending};
use store_sending::dead_letters::{self, DeadFilter};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, move_to, now_stands, people, segment};
use crate::place::{Place, SOON};
use crate::worker::{DUE, Outcome, PARKED, SENT, begin_exactly, deliver, deliver_due, reported, settle};

const GAVE_UP: Outcome = (DeliveryState::Failed, Some("gave_up: busy"), 1);
const RETRIED: Outcome = (DeliveryState::Queued, Some("retrying: 421 later"), 1);
const LEASE: SignedDuration = SignedDuration::from_mins(5);
const CHUNKS: &str = "SELECT count(*) FROM send_chunk";
const CHECKED: &str = "SELECT count(*) FROM campaign WHERE look_at IS NOT NULL";
const CANCELLED: &str = "SELECT count(*) FROM message WHERE status = 'cancelled'";

/// Returns a recurring campaign to ten users that waits for its next occurrence. `failed` messages of the last one are
/// dead letters.
async fn ended(place: &mut Place, failed: usize) -> Uuid {
    people(place, 30).await;
    let pro = segment(place, "pro").await;
    let recurrence = Recurrence { cron: "0 9 1 1 *".to_owned(), timezone: "Europe/Oslo".to_owned() };
    let settings = Settings { recurrence: Some(recurrence), ..Settings::default() };
    let id = campaign(place, pro, place.clock.now(), settings).await.id;
    place.run().await;
    deliver(place, 10, |n| if n < failed { GAVE_UP } else { SENT }).await;
    eventually(SOON, async || match now_stands(place, id).await {
        campaign if campaign.status == CampaignStatus::Scheduled && !campaign.under_way => Ok(()),
        campaign => Err(format!("{campaign:?}")),
    })
    .await;
    place.stop().await;
    id
}

async fn replay(place: &Place, count: u64) {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    replay_in(place, &tx, count).await;
    tx.commit().await.unwrap();
}

async fn replay_in(place: &Place, tx: &Transaction<'_>, count: u64) {
    let now = place.clock.now();
    let replayed = dead_letters::replay(tx, place.project, &DeadFilter::default(), 10, now).await.unwrap();
    assert_eq!(replayed.messages, count);
}

/// Like the API: the scheduler checks a scheduled campaign at its time, and never checks a draft.
async fn edit_to(place: &Place, id: Uuid, status: CampaignStatus, next_check_at: Option<Timestamp>) {
    let (mut db, now) = (place.store.connection().await.unwrap(), place.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::to_state(&tx, place.project, id, (status, None), next_check_at, now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_replay_parked_by_a_pause_is_released_when_the_campaign_is_scheduled_again() {
    let mut place = Place::new().await;
    let id = ended(&mut place, 2).await;
    replay(&place, 2).await;
    move_to(&place, id, CampaignStatus::Paused).await;
    place.run().await;
    place.eventually_none(CHECKED).await;
    place.stop().await;
    assert_eq!(place.count(PARKED).await, 2);
    scheduler::campaigns::stranded::clear(place.app().await).await.unwrap();
    assert_eq!(place.count(PARKED).await, 2, "the campaign is paused");

    let next = now_stands(&place, id).await.scheduled_at;
    edit_to(&place, id, CampaignStatus::Scheduled, next).await;
    place.run().await;
    eventually(SOON, async || match place.count(DUE).await {
        2 => Ok(()),
        due => Err(due),
    })
    .await;
    place.stop().await;
    deliver_due(&place).await;
    assert_eq!((reported(&place, id, "sent").await, place.count(CHUNKS).await), (10, 0));
    assert_eq!(now_stands(&place, id).await.status, CampaignStatus::Scheduled);
}

#[tokio::test]
async fn replays_of_a_campaign_that_is_made_a_draft_are_cancelled_unless_they_are_being_sent() {
    let mut place = Place::new().await;
    let id = ended(&mut place, 3).await;
    replay(&place, 3).await;
    let retried = begin_exactly(&place, 1, LEASE).await;
    assert!(settle(&place, &retried, |_| RETRIED).await);
    let sending = begin_exactly(&place, 1, LEASE).await;
    edit_to(&place, id, CampaignStatus::Draft, None).await;
    place.run().await;
    place.eventually_none("SELECT count(*) FROM send_chunk WHERE NOT is_begun").await;
    assert!(settle(&place, &sending, |_| SENT).await);
    place.stop().await;
    // The API deletes a campaign without chunks.
    assert_eq!((place.count(CHUNKS).await, place.count(CANCELLED).await), (0, 2));
    assert_eq!((reported(&place, id, "sent").await, reported(&place, id, "cancelled").await), (8, 2));
}

#[tokio::test]
async fn a_replay_that_is_committed_after_a_cancellation_is_cancelled() {
    let mut place = Place::new().await;
    let id = ended(&mut place, 2).await;
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    replay_in(&place, &tx, 2).await;
    move_to(&place, id, CampaignStatus::Cancelled).await;
    place.run().await;
    place.eventually_none(CHECKED).await;
    place.stop().await;
    tx.commit().await.unwrap();
    assert_eq!(place.count(DUE).await, 2);
    place.run().await;
    place.eventually_none(CHUNKS).await;
    place.stop().await;
    assert_eq!((place.count(CANCELLED).await, reported(&place, id, "cancelled").await), (2, 2));
}

#[tokio::test]
async fn a_replay_of_a_deleted_campaign_is_cancelled_and_leaves_no_counts() {
    let mut place = Place::new().await;
    let id = ended(&mut place, 2).await;
    // The replay may not see the deletion, nor the deletion the replay, if neither is committed yet.
    replay(&place, 2).await;
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    campaigns::delete(&tx, place.project, id).await.unwrap();
    tx.commit().await.unwrap();
    place.run().await;
    place.eventually_none(CHUNKS).await;
    place.stop().await;
    assert_eq!((place.count(CANCELLED).await, place.count("SELECT count(*) FROM campaign_count").await), (2, 0));
}
