//! Campaigns whose checks fail do not affect others.

use domain::campaign::{CampaignStatus, Settings};
use jiff::SignedDuration;
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, current_campaign, delivered_until, move_to, segment};
use crate::fixture::{Fixture, SOON};

/// Makes queueing a campaign's recipients fail like a statement that exceeds its timeout.
async fn exceed_timeout(fixture: &Fixture, id: Uuid) {
    let sql = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'canceled on purpose' USING ERRCODE = '57014'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON send_chunk FOR EACH ROW \
         WHEN (NEW.campaign_id = '{id}') EXECUTE FUNCTION refuse()"
    );
    fixture.store.connection().await.unwrap().batch_execute(&sql).await.unwrap();
}

async fn faults(fixture: &Fixture, id: Uuid) -> i32 {
    let db = fixture.store.connection().await.unwrap();
    db.query_one("SELECT faults FROM campaign WHERE id = $1", &[&id]).await.unwrap().get(0)
}

/// Makes a postponed campaign due.
async fn make_due(fixture: &Fixture, id: Uuid) {
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE campaign SET look_at = now() - interval '1 hour' WHERE id = $1", &[&id]).await.unwrap();
}

#[tokio::test]
async fn failing_campaign_delays_no_other_and_is_finally_paused() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let an_hour_ago = fixture.clock.now() - SignedDuration::from_hours(1);
    // Both are due before the valid campaign.
    let unreadable = campaign(&fixture, pro, an_hour_ago, Settings::default()).await.id;
    let slow = campaign(&fixture, pro, an_hour_ago, Settings::default()).await.id;
    let good = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    let db = fixture.store.connection().await.unwrap();
    let settings = "UPDATE campaign SET settings = '{\"throttlePerMinute\": \"many\"}' WHERE id = $1";
    db.execute(settings, &[&unreadable]).await.unwrap();
    exceed_timeout(&fixture, slow).await;
    fixture.run().await;
    delivered_until(&fixture, good, CampaignStatus::Completed).await;

    // Faults occur one at a time, until the limit is reached.
    for id in [unreadable, slow] {
        for n in 1..=4 {
            eventually(SOON, async || match faults(&fixture, id).await {
                found if found >= n => Ok(()),
                found => Err(format!("{found} faults of {id}")),
            })
            .await;
            make_due(&fixture, id).await;
        }
        let paused = format!("SELECT count(*) FROM campaign WHERE id = '{id}' AND status <> 'PAUSED'");
        fixture.eventually_none(&paused).await;
    }
    let sql = "SELECT status_reason FROM campaign WHERE id = $1";
    let reason: String = db.query_one(sql, &[&unreadable]).await.unwrap().get(0);
    assert!(reason.contains("the scheduler's log"), "{reason}");
    let paused = current_campaign(&fixture, slow).await;
    assert_eq!(paused.status, CampaignStatus::Paused);
    assert!(paused.status_reason.unwrap().contains("exceeded 1 minute"));

    // Resuming resets the faults.
    db.batch_execute("DROP TRIGGER refuse ON send_chunk").await.unwrap();
    move_to(&fixture, slow, CampaignStatus::Sending).await;
    assert_eq!(delivered_until(&fixture, slow, CampaignStatus::Completed).await.recipients, 10);
    assert_eq!(faults(&fixture, slow).await, 0);
    fixture.stop().await;
}
