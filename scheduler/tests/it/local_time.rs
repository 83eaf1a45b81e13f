//! Campaigns that are sent at a time in each user's timezone.

use domain::campaign::{CampaignStatus, Settings};
use jiff::{SignedDuration, Timestamp};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, delivered_until, move_to, now_stands, people, segment};
use crate::place::{Place, SOON};
use crate::worker::{deliver_due, report, reported};

fn in_user_timezone() -> Settings {
    Settings { send_in_user_timezone: true, ..Settings::default() }
}

/// Gives the users with the plan `pro` these timezones in rotation.
async fn live_in(place: &Place, zones: &[&str]) {
    let sql = "UPDATE users SET properties = properties || jsonb_build_object('timezone', ($2::text[])[1 + substr(external_id, 2)::int / 3 % $3]) \
               WHERE project_id = $1 AND properties ->> 'plan' = 'pro'";
    let db = place.store.connection().await.unwrap();
    db.execute(sql, &[&place.project, &zones, &i32::try_from(zones.len()).unwrap()]).await.unwrap();
}

/// Returns the number of parked recipients, by hours from the campaign's time to their release.
async fn hours(place: &Place, id: Uuid) -> Vec<(i32, i64)> {
    let sql = "SELECT round(extract(epoch FROM s.send_at - c.meant_for) / 3600)::int, sum(s.size)::bigint FROM send_chunk s \
               JOIN campaign c ON c.id = s.campaign_id WHERE c.id = $1 AND s.due_at IS NULL GROUP BY 1 ORDER BY 1";
    let rows = place.store.connection().await.unwrap().query(sql, &[&id]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn look_at(place: &Place, id: Uuid) -> Option<Timestamp> {
    let db = place.store.connection().await.unwrap();
    db.query_one("SELECT look_at FROM campaign WHERE id = $1", &[&id]).await.unwrap().get(0)
}

/// Moves the campaign's times back, to simulate passing hours.
async fn hours_pass(place: &Place, id: Uuid, hours: i32) {
    let db = place.store.connection().await.unwrap();
    for sql in [
        "UPDATE send_chunk SET send_at = send_at - make_interval(hours => $2) WHERE campaign_id = $1",
        "UPDATE campaign SET look_at = look_at - make_interval(hours => $2) WHERE id = $1",
    ] {
        db.execute(sql, &[&id, &hours]).await.unwrap();
    }
}

#[tokio::test]
async fn each_user_is_sent_to_at_that_time_in_their_timezone() {
    let mut place = Place::new().await;
    people(&place, 900).await;
    // The names of these zones have inverted signs. `Mars/Olympus` does not exist.
    live_in(&place, &["Etc/GMT-2", "utc", "Etc/GMT-9", "Etc/GMT+3", "Mars/Olympus", "Etc/GMT+8"]).await;
    let pro = segment(&place, "pro").await;
    let sale = campaign(&place, pro, place.clock.now(), in_user_timezone()).await;
    place.run().await;
    place.run().await;
    let sent = async |expected: i64| {
        eventually(SOON, async || {
            deliver_due(&place).await;
            let (sent, next) = (reported(&place, sale.id, "sent").await, look_at(&place, sale.id).await);
            // The next check is at the next recipients' time.
            let waits = next.is_some_and(|next| next > place.clock.now() + SignedDuration::from_mins(50));
            if sent == expected && waits { Ok(()) } else { Err(format!("{sent} sent, next check at {next:?}")) }
        })
        .await;
    };
    // Two hours ago is still in time; nine hours ago means tomorrow.
    sent(150).await;
    assert_eq!(hours(&place, sale.id).await, [(3, 50), (8, 50), (15, 50)]);
    assert_eq!(now_stands(&place, sale.id).await.recipients, 300);

    move_to(&place, sale.id, CampaignStatus::Paused).await;
    eventually(SOON, async || look_at(&place, sale.id).await.map_or(Ok(()), |at| Err(at.to_string()))).await;
    // Recipients whose time comes during the pause wait until the campaign is resumed.
    hours_pass(&place, sale.id, 3).await;
    assert_eq!(reported(&place, sale.id, "sent").await, 150);
    move_to(&place, sale.id, CampaignStatus::Sending).await;
    sent(200).await;
    hours_pass(&place, sale.id, 5).await;
    sent(250).await;
    hours_pass(&place, sale.id, 7).await;
    assert_eq!(delivered_until(&place, sale.id, CampaignStatus::Completed).await.recipients, 300);
    assert_eq!(reported(&place, sale.id, "sent").await, 300);
    place.stop().await;
}

#[tokio::test]
async fn it_begins_at_that_time_in_the_earliest_timezone() {
    let mut place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let in_hours = |hours| place.clock.now() + SignedDuration::from_hours(hours);
    let later = campaign(&place, pro, in_hours(20), in_user_timezone()).await;
    let cancelled = campaign(&place, pro, in_hours(3), in_user_timezone()).await;
    place.run().await;
    eventually(SOON, async || {
        let (stands, next) = (now_stands(&place, later.id).await, look_at(&place, later.id).await);
        let first = stands.scheduled_at.map(|at| at - SignedDuration::from_hours(14));
        if stands.status == CampaignStatus::Scheduled && next == first {
            Ok(())
        } else {
            Err(format!("{next:?}, {stands:?}"))
        }
    })
    .await;
    // Its time comes in three hours for users without a timezone.
    let begun = delivered_until(&place, cancelled.id, CampaignStatus::Sending).await;
    assert!(begun.started_at.unwrap() < begun.scheduled_at.unwrap());
    eventually(SOON, async || match hours(&place, cancelled.id).await[..] {
        [(0, 10)] => Ok(()),
        ref parked => Err(format!("{parked:?}")),
    })
    .await;
    move_to(&place, cancelled.id, CampaignStatus::Cancelled).await;
    place.eventually_none("SELECT count(*) FROM send_chunk").await;
    place.stop().await;
    assert_eq!(report(&place, cancelled.id).await, [(None, "cancelled".to_owned(), 10)]);
    assert_eq!(place.count("SELECT count(*) FROM message").await, 0);
}

#[tokio::test]
async fn users_without_a_timezone_have_the_projects() {
    let mut place = Place::new().await;
    people(&place, 60).await;
    let sql = "INSERT INTO project (project_id, name, timezone, secrets, created_at, updated_at, changed_seq) \
               VALUES ($1, 'p', 'Asia/Tokyo', '', now(), now(), 1)";
    place.store.connection().await.unwrap().execute(sql, &[&place.project]).await.unwrap();
    live_in(&place, &["asia/tokyo", "UTC"]).await;
    let (pro, free) = (segment(&place, "pro").await, segment(&place, "free").await);
    let to_pro = campaign(&place, pro, place.clock.now(), in_user_timezone()).await;
    let to_free = campaign(&place, free, place.clock.now(), in_user_timezone()).await;
    place.run().await;
    delivered_until(&place, to_free.id, CampaignStatus::Completed).await;
    eventually(SOON, async || match now_stands(&place, to_pro.id).await.recipients {
        20 => Ok(()),
        n => Err(n),
    })
    .await;
    place.stop().await;
    assert_eq!(hours(&place, to_pro.id).await, [(9, 10)]);
    assert_eq!(reported(&place, to_free.id, "sent").await, 40);
}
