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

use crate::fixture::{Fixture, SOON};
use crate::worker::{DUE, deliver_due, report, reported};

/// Creates users; every third has the plan `pro`.
pub async fn create_users(fixture: &Fixture, count: i64) {
    let sql = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
               SELECT $1, md5(i::text)::uuid, 'u' || i, jsonb_build_object('plan', CASE i % 3 WHEN 0 THEN 'pro' ELSE 'free' END), \
               now(), now(), now() FROM generate_series(1, $2::bigint) AS i";
    fixture.store.connection().await.unwrap().execute(sql, &[&fixture.project, &count]).await.unwrap();
}

pub async fn segment(fixture: &Fixture, plan: &str) -> Uuid {
    let (id, now) = (ids::fresh(fixture.clock.now_ms()), fixture.clock.now());
    let rules = json!([{"field": "plan", "operator": "eq", "value": plan}]);
    let (name, description, segment_type) = (plan.to_owned(), String::new(), SegmentType::Rules);
    let segment = Segment { id, name, description, segment_type, rules, created_at: now, updated_at: now };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    segments::insert(&tx, fixture.project, &segment).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// A campaign to a segment, due at a time.
pub async fn campaign(fixture: &Fixture, segment_id: Uuid, at: Timestamp, settings: Settings) -> Campaign {
    let now = fixture.clock.now();
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
    save(fixture, &campaign).await;
    campaign
}

async fn save(fixture: &Fixture, campaign: &Campaign) {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    campaigns::insert(&tx, fixture.project, campaign).await.unwrap();
    tx.commit().await.unwrap();
}

pub async fn current_campaign(fixture: &Fixture, id: Uuid) -> Campaign {
    campaigns::get(&fixture.store.connection().await.unwrap(), fixture.project, id).await.unwrap().unwrap()
}

/// Delivers due messages until the campaign has the status. Returns the campaign.
pub async fn delivered_until(fixture: &Fixture, id: Uuid, status: CampaignStatus) -> Campaign {
    delivered_for(fixture, id, status, Duration::ZERO).await
}

/// Like [`delivered_until`], but advances a manual clock by `step` each time.
pub async fn delivered_for(fixture: &Fixture, id: Uuid, status: CampaignStatus, step: Duration) -> Campaign {
    eventually(SOON, async || {
        fixture.clock.advance(step);
        deliver_due(fixture).await;
        let campaign = current_campaign(fixture, id).await;
        if campaign.status == status { Ok(campaign) } else { Err(format!("{campaign:?}")) }
    })
    .await
}

pub async fn move_to(fixture: &Fixture, id: Uuid, status: CampaignStatus) {
    let (mut db, now) = (fixture.store.connection().await.unwrap(), fixture.clock.now());
    let tx = db.transaction().await.unwrap();
    sending::set_status(&tx, fixture.project, id, (status, None), Some(now), now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn each_user_of_the_audience_gets_one_message_with_two_schedulers() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 9_000).await;
    let (pro, free) = (segment(&fixture, "pro").await, segment(&fixture, "free").await);
    let sale = campaign(&fixture, free, fixture.clock.now(), Settings::default()).await;
    let none = Campaign { id: Uuid::from_u128(3), exclude_segment_ids: vec![pro, free], ..sale.clone() };
    save(&fixture, &none).await;
    let some = Campaign { id: Uuid::from_u128(4), segment_id: free, exclude_segment_ids: vec![pro], ..sale.clone() };
    save(&fixture, &some).await;
    fixture.run().await;
    fixture.run().await;
    let done = delivered_until(&fixture, sale.id, CampaignStatus::Completed).await;
    assert_eq!(done.recipients, 6_000);
    assert_eq!(delivered_until(&fixture, none.id, CampaignStatus::Completed).await.recipients, 0);
    assert_eq!(delivered_until(&fixture, some.id, CampaignStatus::Completed).await.recipients, 6_000);
    fixture.stop().await;
    let id = sale.id;
    let count = format!(
        "SELECT count(*) FROM message WHERE campaign_id = '{id}' AND status = 'sent' AND template_id IS NOT NULL"
    );
    assert_eq!(fixture.count(&count).await, 6_000);
    let different = format!("SELECT count(DISTINCT user_id) FROM message WHERE campaign_id = '{id}'");
    assert_eq!(fixture.count(&different).await, 6_000);
    assert_eq!(report(&fixture, id).await, [(None, "sent".to_owned(), 6_000)]);
    assert_eq!(
        fixture.count("SELECT sum(count)::bigint FROM message_count").await,
        fixture.count("SELECT count(*) FROM message").await
    );
    assert_eq!(fixture.count("SELECT count(*) FROM send_chunk").await, 0);
    let names = &fixture.bus.names;
    assert!(fixture.payloads(&names.send_stream(), &names.send_all()).await.is_empty(), "nothing is published");
}

#[tokio::test]
async fn a_campaign_found_hours_late_is_paused_and_sends_nothing() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let late = fixture.clock.now() - SignedDuration::from_mins(6 * 60 + 1);
    let late = campaign(&fixture, pro, late, Settings::default()).await;
    let almost = fixture.clock.now() - SignedDuration::from_mins(5 * 60 + 55);
    let almost = campaign(&fixture, pro, almost, Settings::default()).await;
    fixture.run().await;
    delivered_until(&fixture, almost.id, CampaignStatus::Completed).await;
    let paused = delivered_until(&fixture, late.id, CampaignStatus::Paused).await;
    assert!(paused.status_reason.unwrap().contains("due more than 6 hours ago"));
    fixture.stop().await;
    assert_eq!(fixture.count("SELECT count(DISTINCT campaign_id) FROM message").await, 1);
}

#[tokio::test]
async fn sending_campaigns_of_a_restored_backup_are_paused_when_hours_late() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let old = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await;
    let young = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await;
    fixture.run().await;
    eventually(SOON, async || match fixture.count(DUE).await {
        20 => Ok(()),
        due => Err(due),
    })
    .await;
    fixture.stop().await;
    // The state in the backup: both released hours ago.
    let db = fixture.store.connection().await.unwrap();
    let ago = "UPDATE campaign SET look_at = now() - make_interval(mins => $2) WHERE id = $1";
    for (id, minutes) in [(old.id, 361), (young.id, 355)] {
        db.execute(ago, &[&id, &minutes]).await.unwrap();
    }
    db.execute("UPDATE send_chunk SET due_at = now() - interval '5 hours'", &[]).await.unwrap();
    fixture.run().await;
    fixture.run().await;
    let due_of_old = format!("SELECT count(*) FROM send_chunk WHERE due_at IS NOT NULL AND campaign_id = '{}'", old.id);
    fixture.eventually_none(&due_of_old).await;
    let paused = current_campaign(&fixture, old.id).await;
    assert_eq!(paused.status, CampaignStatus::Paused);
    assert!(paused.status_reason.unwrap().contains("interrupted for more than 6 hours"));
    delivered_until(&fixture, young.id, CampaignStatus::Completed).await;
    assert_eq!((reported(&fixture, old.id, "queued").await, reported(&fixture, young.id, "sent").await), (10, 10));
    move_to(&fixture, old.id, CampaignStatus::Sending).await;
    delivered_until(&fixture, old.id, CampaignStatus::Completed).await;
    fixture.stop().await;
}

#[tokio::test]
async fn variants_split_the_audience_and_recurring_campaign_waits_for_next_occurrence() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 3_000).await;
    let pro = segment(&fixture, "pro").await;
    let variant = |name: &str, n, weight| Variant { name: name.to_owned(), template_id: Uuid::from_u128(n), weight };
    let recurrence = Recurrence { cron: "0 9 * * *".to_owned(), timezone: "Europe/Oslo".to_owned() };
    let settings = Settings {
        variants: vec![variant("A", 1, 70.0), variant("B", 2, 30.0)],
        recurrence: Some(recurrence.clone()),
        ..Settings::default()
    };
    let sale = campaign(&fixture, pro, fixture.clock.now(), settings).await;
    fixture.run().await;
    let again = eventually(SOON, async || {
        deliver_due(&fixture).await;
        let campaign = current_campaign(&fixture, sale.id).await;
        let ended = campaign.status == CampaignStatus::Scheduled && campaign.started_at.is_some();
        if ended { Ok(campaign) } else { Err(format!("{campaign:?}")) }
    })
    .await;
    assert!(again.scheduled_at.unwrap() > fixture.clock.now());
    assert_eq!(again.scheduled_at, recurrence.next_after(fixture.clock.now()));
    let of = |name: &str, template: u128| {
        let template = Uuid::from_u128(template);
        format!("SELECT count(*) FROM message WHERE variant = '{name}' AND template_id = '{template}'")
    };
    let (a, b) = (fixture.count(&of("A", 1)).await, fixture.count(&of("B", 2)).await);
    assert_eq!(a + b, 1_000);
    assert!((600..800).contains(&a), "{a} of 1000 got a variant of 70 %");
    assert_eq!(
        report(&fixture, sale.id).await,
        [(Some("A".to_owned()), "sent".to_owned(), a), (Some("B".to_owned()), "sent".to_owned(), b)]
    );
    // At the next occurrence each user gets one more, and the report starts over.
    let due = "UPDATE campaign SET look_at = now(), scheduled_at = now()";
    fixture.store.connection().await.unwrap().execute(due, &[]).await.unwrap();
    eventually(SOON, async || {
        deliver_due(&fixture).await;
        match fixture.count("SELECT count(*) FROM message WHERE status = 'sent'").await {
            2_000 => Ok(()),
            n => Err(format!("{n} sent")),
        }
    })
    .await;
    assert_eq!(reported(&fixture, sale.id, "sent").await, 1_000);
    assert_eq!(fixture.count("SELECT count(*) FROM campaign_count WHERE occurrence = 1").await, 0);
    fixture.stop().await;
}

#[tokio::test]
async fn a_pause_does_not_wait_while_the_audience_is_found() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let sale = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await;
    let mut db = fixture.store.connection().await.unwrap();
    let reading = db.transaction().await.unwrap();
    let lock = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE users IN ACCESS EXCLUSIVE MODE";
    reading.batch_execute(lock).await.unwrap();
    fixture.run().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                 AND query LIKE '%FROM users %' AND pid <> pg_backend_pid()";
    eventually(SOON, async || match fixture.count(waits).await {
        0 => Err("no query for users is waiting"),
        _ => Ok(()),
    })
    .await;
    move_to(&fixture, sale.id, CampaignStatus::Paused).await;
    reading.rollback().await.unwrap();
    fixture.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    assert_eq!(current_campaign(&fixture, sale.id).await.status, CampaignStatus::Paused);
    assert_eq!(fixture.count("SELECT count(*) FROM send_chunk").await, 0);
    // The slice is found again after the resumption.
    move_to(&fixture, sale.id, CampaignStatus::Sending).await;
    assert_eq!(delivered_until(&fixture, sale.id, CampaignStatus::Completed).await.recipients, 10);
    fixture.stop().await;
}
