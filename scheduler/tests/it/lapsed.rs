//! Campaigns that end or pause while a delivery that held some of their messages is gone.

use jiff::SignedDuration;
use shared::campaign::{CampaignStatus, Settings};
use shared::send::DeliveryState;
use shared::store::campaigns::open;
use shared::store::dead_letters::{self, DeadFilter};
use shared::store::messages::claim::claim;
use shared::store::messages::due;
use shared::store::messages::settle::{Settled, settle};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, move_to, people, segment};
use crate::place::{Place, SOON};

/// Claims two released rows and is never heard of again.
async fn held(place: &Place, id: Uuid, lease: SignedDuration) -> Vec<(Uuid, i32)> {
    let db = place.store.connection().await.unwrap();
    let sql = "SELECT id, attempt FROM message WHERE campaign_id = $1 AND due_at IS NOT NULL ORDER BY id LIMIT 2";
    let rows = eventually(SOON, async || {
        let rows = db.query(sql, &[&id]).await.unwrap();
        if rows.len() == 2 { Ok(rows) } else { Err(format!("{} released", rows.len())) }
    })
    .await;
    let wanted: Vec<(Uuid, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let now = place.clock.now();
    let claimed = claim(&db, place.project, &wanted, now + lease, now).await.unwrap();
    claimed.iter().map(|message| (message.id, message.attempt)).collect()
}

#[tokio::test]
async fn a_cancel_ends_also_what_a_dead_delivery_held() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    let held = held(&place, id, SignedDuration::from_mins(5)).await;
    assert_eq!(held.len(), 2);
    move_to(&place, id, CampaignStatus::Cancelled).await;
    let open = format!("SELECT count(*) FROM message WHERE campaign_id = '{id}' AND status = 'queued' AND NOT claimed");
    place.eventually_none(&open).await;
    // Whoever holds some may still be at it.
    assert_eq!(place.count("SELECT count(*) FROM message WHERE status = 'queued'").await, 2);
    // The lease is over, and the look for messages has handed one of them over again.
    let mut db = place.store.connection().await.unwrap();
    let lapsed = "UPDATE message SET updated_at = now() - interval '11 minutes', \
                  due_at = now() + CASE WHEN id = $1 THEN interval '1 minute' ELSE interval '-1 second' END WHERE claimed";
    assert_eq!(db.execute(lapsed, &[&held[0].0]).await.unwrap(), 2);
    place.eventually_none("SELECT count(*) FROM message WHERE status = 'queued'").await;
    place.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    let tx = db.transaction().await.unwrap();
    assert!(!open::has_open(&tx, place.project, (id, place.clock.now())).await.unwrap());
    tx.rollback().await.unwrap();
    assert_eq!(place.count("SELECT sum(ambiguous)::bigint FROM message").await, 2);
    place.stop().await;

    // It was only slow, and writes down what it knows.
    let settled = Settled::new(place.project, held[0].0, held[0].1, DeliveryState::Sent);
    assert_eq!(settle(&db, place.project, &[&settled], place.clock.now()).await.unwrap(), [held[0].0]);
    let known = "SELECT count(*) FROM message WHERE status = 'cancelled' AND sent_at IS NOT NULL";
    assert_eq!(place.count(known).await, 1);
}

#[tokio::test]
async fn a_pause_takes_back_what_a_dead_delivery_held() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    assert_eq!(held(&place, id, SignedDuration::from_mins(5)).await.len(), 2);
    let lapsed = "UPDATE message SET updated_at = now() - interval '11 minutes' WHERE claimed";
    assert_eq!(place.store.connection().await.unwrap().execute(lapsed, &[]).await.unwrap(), 2);
    move_to(&place, id, CampaignStatus::Paused).await;
    place.eventually_none("SELECT count(*) FROM message WHERE due_at IS NOT NULL").await;
    place.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    assert_eq!(place.count("SELECT count(*) FROM message WHERE status = 'queued' AND claimed").await, 2);
    place.stop().await;
}

#[tokio::test]
async fn what_a_pause_is_to_take_back_is_not_handed_over_meanwhile() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    assert_eq!(held(&place, id, SignedDuration::from_mins(5)).await.len(), 2);
    place.stop().await;
    let mut db = place.store.connection().await.unwrap();
    let lapsed = "UPDATE message SET due_at = now() - interval '1 second' WHERE claimed";
    assert_eq!(db.execute(lapsed, &[]).await.unwrap(), 2);
    let handed_over = async |db: &mut deadpool_postgres::Object| {
        let months = due::months(&*db).await.unwrap();
        due::take(db, place.project, &months, place.clock.now(), 100).await.unwrap().count
    };
    for status in [CampaignStatus::Paused, CampaignStatus::Cancelled] {
        move_to(&place, id, status).await;
        assert_eq!(handed_over(&mut db).await, 0, "{status:?}");
    }
    move_to(&place, id, CampaignStatus::Sending).await;
    assert_eq!(handed_over(&mut db).await, 2);
}

#[tokio::test]
async fn what_is_sent_again_of_a_paused_campaign_is_not_read_at_every_look() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    assert_eq!(held(&place, id, SignedDuration::from_mins(5)).await.len(), 2);
    let mut db = place.store.connection().await.unwrap();
    let failed = "UPDATE message SET status = 'failed', dead = true, claimed = false, due_at = NULL, failed_at = now(), \
                  status_reason = 'gave_up: busy' WHERE claimed";
    assert_eq!(db.execute(failed, &[]).await.unwrap(), 2);
    move_to(&place, id, CampaignStatus::Paused).await;
    place.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    place.stop().await;
    let tx = db.transaction().await.unwrap();
    let now = place.clock.now();
    let replayed = dead_letters::replay(&tx, place.project, &DeadFilter::default(), 10, now).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(replayed.messages, 2);
    let at = async |db: &mut deadpool_postgres::Object, seconds| {
        let now = now + SignedDuration::from_secs(seconds);
        let months = due::months(&*db).await.unwrap();
        let taken = due::take(db, place.project, &months, now, 100).await.unwrap();
        (taken.messages.len(), taken.count)
    };
    assert_eq!(at(&mut db, 1).await, (0, 2));
    assert_eq!(at(&mut db, 1).await, (0, 0), "not until a minute has passed");
    assert_eq!(place.count("SELECT count(*) FROM message WHERE status = 'queued' AND due_at IS NOT NULL").await, 2);
    move_to(&place, id, CampaignStatus::Sending).await;
    assert_eq!(at(&mut db, 62).await, (2, 2));
}

#[tokio::test]
async fn a_cancel_ends_what_is_left_of_earlier_sendings() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now() + SignedDuration::from_hours(1), Settings::default()).await.id;
    // A dead letter of an earlier time, sent again by hand.
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, occurrence, send_at, due_at, created_at, updated_at) \
               VALUES ($1, $2, $2, 'EMAIL', 'campaign', 'queued', $3, 1, now(), now() + interval '1 minute', now(), now())";
    let earlier = shared::ids::fresh(place.clock.now_ms() - 3_600_000);
    place.store.connection().await.unwrap().execute(sql, &[&place.project, &earlier, &id]).await.unwrap();
    place.run().await;
    move_to(&place, id, CampaignStatus::Cancelled).await;
    place.eventually_none("SELECT count(*) FROM message WHERE status = 'queued'").await;
    place.stop().await;
}
