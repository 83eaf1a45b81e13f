//! Campaigns of which too much fails.

use jiff::SignedDuration;
use shared::campaign::{CampaignStatus, Settings};
use shared::send::DeliveryState;
use shared::store::campaigns::{self, outcomes};
use shared::store::messages::claim::claim;
use shared::store::messages::settle::{Settled, settle};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, delivered_until, move_to, now_stands, people, segment};
use crate::place::{Place, SOON};

/// Plays delivery over so many released rows of a campaign: what came of each, by its number.
async fn deliver(
    place: &Place,
    id: Uuid,
    count: i64,
    outcome: impl Fn(i64) -> (DeliveryState, Option<&'static str>, i32),
) {
    let sql = "SELECT id, attempt FROM message WHERE campaign_id = $1 AND status = 'queued' AND due_at IS NOT NULL AND NOT claimed \
               ORDER BY id LIMIT $2";
    let db = place.store.connection().await.unwrap();
    let rows = eventually(SOON, async || {
        let rows = db.query(sql, &[&id, &count]).await.unwrap();
        if rows.len() as i64 == count { Ok(rows) } else { Err(format!("{} released", rows.len())) }
    })
    .await;
    let wanted: Vec<(Uuid, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let now = place.clock.now();
    let claimed = claim(&db, place.project, &wanted, now + SignedDuration::from_secs(60), now).await.unwrap();
    assert_eq!(claimed.len() as i64, count);
    let settled: Vec<Settled> = claimed
        .iter()
        .zip(0..)
        .map(|(message, n)| {
            let (status, reason, failures) = outcome(n);
            let due_at = (status == DeliveryState::Queued).then(|| now + SignedDuration::from_hours(1));
            Settled {
                reason: reason.map(str::to_owned),
                due_at,
                failures,
                ..Settled::new(place.project, message.id, message.attempt, status)
            }
        })
        .collect();
    settle(&db, place.project, &settled.iter().collect::<Vec<_>>(), now).await.unwrap();
}

const SENT: (DeliveryState, Option<&str>, i32) = (DeliveryState::Sent, None, 0);
const REFUSED: (DeliveryState, Option<&str>, i32) = (DeliveryState::Failed, Some("rejected: 550 no"), 1);
const RETRIED: (DeliveryState, Option<&str>, i32) = (DeliveryState::Queued, Some("retrying: 421 later"), 1);

#[tokio::test]
async fn a_run_of_failures_pauses_it_and_a_resumption_starts_over() {
    let mut place = Place::new().await;
    people(&place, 1_800).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    place.run().await;
    // What is suppressed has not failed, and one success ends a run.
    deliver(&place, id, 99, |_| REFUSED).await;
    deliver(&place, id, 50, |_| (DeliveryState::Suppressed, Some("unsubscribed"), 0)).await;
    deliver(&place, id, 1, |_| SENT).await;
    deliver(&place, id, 60, |_| REFUSED).await;
    deliver(&place, id, 39, |_| RETRIED).await;
    let outcomes = outcomes::get(&place.store.connection().await.unwrap(), place.project, id).await.unwrap();
    assert_eq!((outcomes.sent, outcomes.failed, outcomes.failed_in_row), (1, 198, 99));
    assert_eq!(now_stands(&place, id).await.status, CampaignStatus::Sending);
    deliver(&place, id, 1, |_| REFUSED).await;
    let paused = eventually(SOON, async || {
        let campaign = now_stands(&place, id).await;
        if campaign.status == CampaignStatus::Paused { Ok(campaign) } else { Err(campaign) }
    })
    .await;
    // What a provider says may name a recipient, who can be erased; the campaign stays.
    let reason = paused.status_reason.unwrap();
    assert!(reason.starts_with("100 messages in a row failed") && reason.contains("`rejected`"), "{reason}");
    assert_eq!(place.count("SELECT count(*) FROM campaign_outcome WHERE reason <> 'rejected'").await, 0);
    place.eventually_none("SELECT count(*) FROM message WHERE status = 'queued' AND due_at IS NOT NULL").await;
    // The same again would be too many at once, were they not forgotten.
    move_to(&place, id, CampaignStatus::Sending).await;
    deliver(&place, id, 99, |_| REFUSED).await;
    let done = delivered_until(&place, id, CampaignStatus::Completed).await;
    assert_eq!((done.recipients, done.status_reason), (600, None));
    place.stop().await;
    assert_eq!(place.count("SELECT count(*) FROM message WHERE status = 'failed'").await, 99 + 60 + 1 + 99);
}

#[tokio::test]
async fn over_half_of_a_thousand_is_too_much_and_half_is_not() {
    let mut place = Place::new().await;
    people(&place, 6_600).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    deliver(&place, id, 1_000, |n| if n % 2 == 0 { SENT } else { REFUSED }).await;
    // From there on they are counted anew.
    let judged = "SELECT count(*) FROM campaign_outcome WHERE sent + failed > 0";
    place.eventually_none(judged).await;
    assert_eq!(now_stands(&place, id).await.status, CampaignStatus::Sending);
    deliver(&place, id, 999, |n| if n % 3 == 0 { SENT } else { REFUSED }).await;
    assert_eq!(place.count(judged).await, 1);
    deliver(&place, id, 1, |_| SENT).await;
    let paused = delivered_until(&place, id, CampaignStatus::Paused).await;
    assert!(paused.status_reason.unwrap().starts_with("666 of 1000 messages failed"));
    place.stop().await;
}

#[tokio::test]
async fn what_is_resumed_goes_by_the_template_that_was_mended_meanwhile() {
    let mut place = Place::new().await;
    people(&place, 900).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    place.run().await;
    deliver(&place, id, 100, |_| REFUSED).await;
    eventually(SOON, async || match now_stands(&place, id).await.status {
        CampaignStatus::Paused => Ok(()),
        other => Err(other),
    })
    .await;
    place.eventually_none("SELECT count(*) FROM message WHERE status = 'queued' AND due_at IS NOT NULL").await;
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let mut mended = campaigns::get_for_update(&tx, place.project, id).await.unwrap().unwrap();
    let (old, new) = (Uuid::from_u128(7), Uuid::from_u128(8));
    assert_eq!(mended.template_id.replace(new), Some(old));
    campaigns::update(&tx, place.project, &mended).await.unwrap();
    tx.commit().await.unwrap();
    for template in [old, new] {
        assert!(campaigns::uses_template(&db, place.project, template).await.unwrap().is_some());
    }
    move_to(&place, id, CampaignStatus::Sending).await;
    delivered_until(&place, id, CampaignStatus::Completed).await;
    let by = async |template: Uuid, status: &str| {
        place
            .count(&format!("SELECT count(*) FROM message WHERE template_id = '{template}' AND status = '{status}'"))
            .await
    };
    assert_eq!((by(old, "failed").await, by(new, "sent").await), (100, 200));
    assert_eq!(
        place.count(&format!("SELECT count(*) FROM campaign WHERE template_ids = ARRAY['{new}'::uuid]")).await,
        1
    );
    place.stop().await;
}

#[tokio::test]
async fn outcomes_are_not_locked_while_recipients_are_stored() {
    let mut place = Place::new().await;
    people(&place, 300).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    move_to(&place, id, CampaignStatus::Sending).await;
    let mut db = place.store.connection().await.unwrap();
    // To be judged, and fine so far.
    let outcome = "INSERT INTO campaign_outcome (project_id, campaign_id, sent, failed, failed_in_row) VALUES ($1, $2, 900, 100, 1)";
    db.execute(outcome, &[&place.project, &id]).await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE message_count IN EXCLUSIVE MODE").await.unwrap();
    place.run().await;
    let waiting = "SELECT count(*) > 0 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                   WHERE NOT l.granted AND c.relname = 'message_count'";
    testkit::eventually_true("storing recipients waits", SOON, async || {
        tx.query_one(waiting, &[]).await.unwrap().get(0)
    })
    .await;
    let judged = "SELECT sent FROM campaign_outcome WHERE campaign_id = $1 FOR UPDATE NOWAIT";
    assert_eq!(tx.query_one(judged, &[&id]).await.unwrap().get::<_, i64>(0), 0);
    tx.commit().await.unwrap();
    delivered_until(&place, id, CampaignStatus::Completed).await;
    place.stop().await;
}
