//! Campaigns with too many failed messages.

use domain::campaign::{CampaignStatus, Settings};
use domain::message::DeliveryState;
use store_sending::campaigns::{self, outcomes};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, current_campaign, delivered_until, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{Outcome, SENT, deliver};

const REFUSED: Outcome = (DeliveryState::Failed, Some("rejected: 550 no"), 1);
const RETRIED: Outcome = (DeliveryState::Queued, Some("retrying: 421 later"), 1);
const RELEASED: &str = "SELECT count(*) FROM send_chunk WHERE due_at IS NOT NULL";

#[tokio::test]
async fn failures_in_a_row_pause_a_campaign_and_a_resumption_starts_over() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 1_800).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    fixture.run().await;
    fixture.run().await;
    // Suppressed messages have not failed, and one success ends a run.
    deliver(&fixture, 99, |_| REFUSED).await;
    deliver(&fixture, 50, |_| (DeliveryState::Suppressed, Some("unsubscribed"), 0)).await;
    deliver(&fixture, 1, |_| SENT).await;
    deliver(&fixture, 60, |_| REFUSED).await;
    deliver(&fixture, 39, |_| RETRIED).await;
    let outcomes = outcomes::get(&fixture.store.connection().await.unwrap(), fixture.project, id).await.unwrap();
    assert_eq!((outcomes.sent, outcomes.failed, outcomes.failed_in_row), (1, 198, 99));
    assert_eq!(current_campaign(&fixture, id).await.status, CampaignStatus::Sending);
    deliver(&fixture, 1, |_| REFUSED).await;
    let paused = eventually(SOON, async || {
        let campaign = current_campaign(&fixture, id).await;
        if campaign.status == CampaignStatus::Paused { Ok(campaign) } else { Err(campaign) }
    })
    .await;
    // Only a reason code is stored: a provider's text may name a recipient, who can be erased while the campaign stays.
    let reason = paused.status_reason.unwrap();
    assert!(reason.starts_with("100 messages in a row failed") && reason.contains("`rejected`"), "{reason}");
    assert_eq!(fixture.count("SELECT count(*) FROM campaign_outcome WHERE reason <> 'rejected'").await, 0);
    fixture.eventually_none(RELEASED).await;
    // With the failures before the pause, these would be too many.
    move_to(&fixture, id, CampaignStatus::Sending).await;
    deliver(&fixture, 99, |_| REFUSED).await;
    let done = delivered_until(&fixture, id, CampaignStatus::Completed).await;
    assert_eq!((done.recipients, done.status_reason), (600, None));
    fixture.stop().await;
    assert_eq!(fixture.count("SELECT count(*) FROM message WHERE status = 'failed'").await, 99 + 60 + 1 + 99);
}

#[tokio::test]
async fn more_than_half_of_a_thousand_failures_pause_a_campaign_and_half_do_not() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 6_600).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    fixture.run().await;
    deliver(&fixture, 1_000, |n| if n % 2 == 0 { SENT } else { REFUSED }).await;
    // The share of failures is counted from zero after this.
    let judged = "SELECT count(*) FROM campaign_outcome WHERE sent + failed > 0";
    fixture.eventually_none(judged).await;
    assert_eq!(current_campaign(&fixture, id).await.status, CampaignStatus::Sending);
    deliver(&fixture, 999, |n| if n % 3 == 0 { SENT } else { REFUSED }).await;
    assert_eq!(fixture.count(judged).await, 1);
    deliver(&fixture, 1, |_| SENT).await;
    let paused = eventually(SOON, async || {
        let campaign = current_campaign(&fixture, id).await;
        if campaign.status == CampaignStatus::Paused { Ok(campaign) } else { Err(campaign) }
    })
    .await;
    assert!(paused.status_reason.unwrap().starts_with("666 of 1000 messages failed"));
    fixture.stop().await;
}

#[tokio::test]
async fn resumed_campaign_uses_its_new_template() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 900).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    fixture.run().await;
    deliver(&fixture, 100, |_| REFUSED).await;
    eventually(SOON, async || match current_campaign(&fixture, id).await.status {
        CampaignStatus::Paused => Ok(()),
        other => Err(other),
    })
    .await;
    fixture.eventually_none(RELEASED).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let mut edited = campaigns::get_for_update(&tx, fixture.project, id).await.unwrap().unwrap();
    let (old, new) = (Uuid::from_u128(7), Uuid::from_u128(8));
    assert_eq!(edited.template_id.replace(new), Some(old));
    campaigns::update(&tx, fixture.project, &edited).await.unwrap();
    tx.commit().await.unwrap();
    for template in [old, new] {
        assert!(campaigns::uses_template(&db, fixture.project, template).await.unwrap().is_some());
    }
    move_to(&fixture, id, CampaignStatus::Sending).await;
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    let by = async |template: Uuid, status: &str| {
        fixture
            .count(&format!("SELECT count(*) FROM message WHERE template_id = '{template}' AND status = '{status}'"))
            .await
    };
    assert_eq!((by(old, "failed").await, by(new, "sent").await), (100, 200));
    assert_eq!(
        fixture.count(&format!("SELECT count(*) FROM campaign WHERE template_ids = ARRAY['{new}'::uuid]")).await,
        1
    );
    fixture.stop().await;
}

#[tokio::test]
async fn outcomes_are_not_locked_while_recipients_are_queued() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 300).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), Settings::default()).await.id;
    move_to(&fixture, id, CampaignStatus::Sending).await;
    let mut db = fixture.store.connection().await.unwrap();
    // Enough outcomes for a decision, with few enough failures.
    let outcome = "INSERT INTO campaign_outcome (project_id, campaign_id, sent, failed, failed_in_row) VALUES ($1, $2, 900, 100, 1)";
    db.execute(outcome, &[&fixture.project, &id]).await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE send_chunk IN EXCLUSIVE MODE").await.unwrap();
    fixture.run().await;
    let waiting = "SELECT count(*) > 0 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                   WHERE NOT l.granted AND c.relname = 'send_chunk'";
    testkit::eventually_true("queueing recipients waits", SOON, async || {
        tx.query_one(waiting, &[]).await.unwrap().get(0)
    })
    .await;
    let judged = "SELECT sent FROM campaign_outcome WHERE campaign_id = $1 FOR UPDATE NOWAIT";
    assert_eq!(tx.query_one(judged, &[&id]).await.unwrap().get::<_, i64>(0), 0);
    tx.commit().await.unwrap();
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    fixture.stop().await;
}
