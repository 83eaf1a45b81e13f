//! Campaigns from start to end, with the test as the delivery worker.

use std::time::Duration;

use domain::campaign::{CampaignStatus, Recurrence, Settings, Variant};
use domain::message::Channel;
use jiff::{SignedDuration, Timestamp};
use kernel::ids;
use serde_json::json;
use store_profiles::segments::{self, Segment, SegmentType};
use store_sending::campaigns::{self, Campaign, sending};
use testkit::eventually;
use uuid::Uuid;

use crate::place::{Place, SOON};
use crate::worker::{DUE, deliver_due, report, reported};

/// Creates users; every third has the plan `pro`.
pub async fn people(place: &Place, count: i64) {
    let sql = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
               SELECT $1, md5(i::text)::uuid, 'u' || i, jsonb_build_object('plan', CASE i % 3 WHEN 0 THEN 'pro' ELSE 'free' END), \
               now(), now(), now() FROM generate_series(1, $2::bigint) AS i";
    place.store.connection().await.unwrap().execute(sql, &[&place.project, &count]).await.unwrap();
}

pub async fn segment(place: &Place, plan: &str) -> Uuid {
    let (id, now) = (ids::fresh(place.clock.now_ms()), place.clock.now());
    let rules = json!([{"field": "plan", "operator": "eq", "value": plan}]);
    let (name, description, segment_type) = (plan.to_owned(), String::new(), SegmentType::Rules);
    let segment = Segment { id, name, description, segment_type, rules, created_at: now, updated_at: now };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    segments::insert(&tx, place.project, &segment).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// A campaign to a segment, due at a time.
pub async fn campaign(place: &Place, segment_id: Uuid, at: Timestamp, settings: Settings) -> Campaign {
    let now = place.clock.now();
    let campaign = Campaign {
        id: ids::fresh(now.as_millisecond()),
        name: "Sale".to_owned(),
        channel: Channel::Email,
        segment_id,
        exclude_segment_ids: Vec::new(),
        template_id: Some(Uuid::from_u128(7)),
        settings,
        subscription_group_id: None,
        scheduled_at: Some(at),
        status: CampaignStatus::Scheduled,
        status_reason: None,
        started_at: None,
        recipients: 0,
        under_way: false,
        created_at: now,
        updated_at: now,
    };
    save(place, &campaign).await;
    campaign
}

async fn save(place: &Place, campaign: &Campaign) {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    campaigns::insert(&tx, place.project, campaign).await.unwrap();
    tx.commit().await.unwrap();
}

pub async fn now_stands(place: &Place, id: Uuid) -> Campaign {
    campaigns::get(&place.store.connection().await.unwrap(), place.project, id).await.unwrap().unwrap()
}

/// Delivers due messages until the campaign has the status. Returns the campaign.
pub async fn delivered_until(place: &Place, id: Uuid, status: CampaignStatus) -> Campaign {
    delivered_for(place, id, status, Duration::ZERO).await
}

/// Like [`delivered_until`], but advances a manual clock by `step` each time.
pub async fn delivered_for(place: &Place, id: Uuid, status: CampaignStatus, step: Duration) -> Campaign {
    eventually(SOON, async || {
        place.clock.advance(step);
        deliver_due(place).await;
        let campaign = now_stands(place, id).await;
        if campaign.status == status { Ok(campaign) } else { Err(format!("{campaign:?}")) }
    })
    .await
}

pub async fn move_to(place: &Place, id: Uuid, status: CampaignStatus) {
    let (mut db, now) = (place.store.connection().await.unwrap(), place.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::to_state(&tx, place.project, id, (status, None), Some(now), now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn each_user_of_the_audience_gets_one_message_with_two_schedulers() {
    let mut place = Place::new().await;
    people(&place, 9_000).await;
    let (pro, free) = (segment(&place, "pro").await, segment(&place, "free").await);
    let sale = campaign(&place, free, place.clock.now(), Settings::default()).await;
    let none = Campaign { id: Uuid::from_u128(3), exclude_segment_ids: vec![pro, free], ..sale.clone() };
    save(&place, &none).await;
    let some = Campaign { id: Uuid::from_u128(4), segment_id: free, exclude_segment_ids: vec![pro], ..sale.clone() };
    save(&place, &some).await;
    place.run().await;
    place.run().await;
    let done = delivered_until(&place, sale.id, CampaignStatus::Completed).await;
    assert_eq!(done.recipients, 6_000);
    assert_eq!(delivered_until(&place, none.id, CampaignStatus::Completed).await.recipients, 0);
    assert_eq!(delivered_until(&place, some.id, CampaignStatus::Completed).await.recipients, 6_000);
    place.stop().await;
    let id = sale.id;
    let count = format!(
        "SELECT count(*) FROM message WHERE campaign_id = '{id}' AND status = 'sent' AND template_id IS NOT NULL"
    );
    assert_eq!(place.count(&count).await, 6_000);
    let different = format!("SELECT count(DISTINCT user_id) FROM message WHERE campaign_id = '{id}'");
    assert_eq!(place.count(&different).await, 6_000);
    assert_eq!(report(&place, id).await, [(None, "sent".to_owned(), 6_000)]);
    assert_eq!(
        place.count("SELECT sum(count)::bigint FROM message_count").await,
        place.count("SELECT count(*) FROM message").await
    );
    assert_eq!(place.count("SELECT count(*) FROM send_chunk").await, 0);
    let names = &place.bus.names;
    assert!(place.payloads(&names.send_stream(), &names.send_all()).await.is_empty(), "nothing is published");
}

#[tokio::test]
async fn a_campaign_found_hours_late_is_paused_and_sends_nothing() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let late = place.clock.now() - SignedDuration::from_mins(6 * 60 + 1);
    let late = campaign(&place, pro, late, Settings::default()).await;
    let almost = place.clock.now() - SignedDuration::from_mins(5 * 60 + 55);
    let almost = campaign(&place, pro, almost, Settings::default()).await;
    place.run().await;
    delivered_until(&place, almost.id, CampaignStatus::Completed).await;
    let paused = delivered_until(&place, late.id, CampaignStatus::Paused).await;
    assert!(paused.status_reason.unwrap().contains("due more than 6 hours ago"));
    place.stop().await;
    assert_eq!(place.count("SELECT count(DISTINCT campaign_id) FROM message").await, 1);
}

#[tokio::test]
async fn campaigns_under_way_in_a_restored_backup_are_paused_when_hours_late() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let old = campaign(&place, pro, place.clock.now(), Settings::default()).await;
    let young = campaign(&place, pro, place.clock.now(), Settings::default()).await;
    place.run().await;
    eventually(SOON, async || match place.count(DUE).await {
        20 => Ok(()),
        due => Err(due),
    })
    .await;
    place.stop().await;
    // The state in the backup: both released hours ago.
    let db = place.store.connection().await.unwrap();
    let ago = "UPDATE campaign SET look_at = now() - make_interval(mins => $2) WHERE id = $1";
    for (id, minutes) in [(old.id, 361), (young.id, 355)] {
        db.execute(ago, &[&id, &minutes]).await.unwrap();
    }
    db.execute("UPDATE send_chunk SET due_at = now() - interval '5 hours'", &[]).await.unwrap();
    place.run().await;
    place.run().await;
    let due_of_old = format!("SELECT count(*) FROM send_chunk WHERE due_at IS NOT NULL AND campaign_id = '{}'", old.id);
    place.eventually_none(&due_of_old).await;
    let paused = now_stands(&place, old.id).await;
    assert_eq!(paused.status, CampaignStatus::Paused);
    assert!(paused.status_reason.unwrap().contains("interrupted for more than 6 hours"));
    delivered_until(&place, young.id, CampaignStatus::Completed).await;
    assert_eq!((reported(&place, old.id, "queued").await, reported(&place, young.id, "sent").await), (10, 10));
    move_to(&place, old.id, CampaignStatus::Sending).await;
    delivered_until(&place, old.id, CampaignStatus::Completed).await;
    place.stop().await;
}

#[tokio::test]
async fn variants_share_the_audience_and_a_recurring_campaign_waits_for_its_next_time() {
    let mut place = Place::new().await;
    people(&place, 3_000).await;
    let pro = segment(&place, "pro").await;
    let variant = |name: &str, n, weight| Variant { name: name.to_owned(), template_id: Uuid::from_u128(n), weight };
    let recurrence = Recurrence { cron: "0 9 * * *".to_owned(), timezone: "Europe/Oslo".to_owned() };
    let settings = Settings {
        variants: vec![variant("A", 1, 70.0), variant("B", 2, 30.0)],
        recurrence: Some(recurrence.clone()),
        ..Settings::default()
    };
    let sale = campaign(&place, pro, place.clock.now(), settings).await;
    place.run().await;
    let again = eventually(SOON, async || {
        deliver_due(&place).await;
        let campaign = now_stands(&place, sale.id).await;
        let ended = campaign.status == CampaignStatus::Scheduled && campaign.started_at.is_some();
        if ended { Ok(campaign) } else { Err(format!("{campaign:?}")) }
    })
    .await;
    assert!(again.scheduled_at.unwrap() > place.clock.now());
    assert_eq!(again.scheduled_at, recurrence.next_after(place.clock.now()));
    let of = |name: &str, template: u128| {
        let template = Uuid::from_u128(template);
        format!("SELECT count(*) FROM message WHERE variant = '{name}' AND template_id = '{template}'")
    };
    let (a, b) = (place.count(&of("A", 1)).await, place.count(&of("B", 2)).await);
    assert_eq!(a + b, 1_000);
    assert!((600..800).contains(&a), "{a} of 1000 got a variant of 70 %");
    assert_eq!(
        report(&place, sale.id).await,
        [(Some("A".to_owned()), "sent".to_owned(), a), (Some("B".to_owned()), "sent".to_owned(), b)]
    );
    // At the next occurrence each user gets one more, and the report starts over.
    let due = "UPDATE campaign SET look_at = now(), scheduled_at = now()";
    place.store.connection().await.unwrap().execute(due, &[]).await.unwrap();
    eventually(SOON, async || {
        deliver_due(&place).await;
        match place.count("SELECT count(*) FROM message WHERE status = 'sent'").await {
            2_000 => Ok(()),
            n => Err(format!("{n} sent")),
        }
    })
    .await;
    assert_eq!(reported(&place, sale.id, "sent").await, 1_000);
    assert_eq!(place.count("SELECT count(*) FROM campaign_count WHERE occurrence = 1").await, 0);
    place.stop().await;
}

#[tokio::test]
async fn a_pause_does_not_wait_while_the_audience_is_found() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let sale = campaign(&place, pro, place.clock.now(), Settings::default()).await;
    let mut db = place.store.connection().await.unwrap();
    let reading = db.transaction().await.unwrap();
    let lock = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE users IN ACCESS EXCLUSIVE MODE";
    reading.batch_execute(lock).await.unwrap();
    place.run().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                 AND query LIKE '%FROM users %' AND pid <> pg_backend_pid()";
    eventually(SOON, async || match place.count(waits).await {
        0 => Err("no query for users is waiting"),
        _ => Ok(()),
    })
    .await;
    move_to(&place, sale.id, CampaignStatus::Paused).await;
    reading.rollback().await.unwrap();
    place.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    assert_eq!(now_stands(&place, sale.id).await.status, CampaignStatus::Paused);
    assert_eq!(place.count("SELECT count(*) FROM send_chunk").await, 0);
    // The slice is found again after the resumption.
    move_to(&place, sale.id, CampaignStatus::Sending).await;
    assert_eq!(delivered_until(&place, sale.id, CampaignStatus::Completed).await.recipients, 10);
    place.stop().await;
}
