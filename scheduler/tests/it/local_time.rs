//! Campaigns that are sent at a time in each user's timezone.

use domain::campaign::{CampaignStatus, Settings};
use jiff::{SignedDuration, Timestamp};
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, current_campaign, delivered_until, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{deliver_due, report, reported};

fn in_user_timezone() -> Settings {
    Settings { send_in_user_timezone: true, ..Settings::default() }
}

/// Gives the users with the plan `pro` these timezones in rotation.
async fn set_timezones(fixture: &Fixture, zones: &[&str]) {
    let sql = "UPDATE users SET properties = properties || jsonb_build_object('timezone', ($2::text[])[1 + substr(external_id, 2)::int / 3 % $3]) \
               WHERE project_id = $1 AND properties ->> 'plan' = 'pro'";
    let db = fixture.store.connection().await.unwrap();
    db.execute(sql, &[&fixture.project, &zones, &i32::try_from(zones.len()).unwrap()]).await.unwrap();
}

/// Returns the number of parked recipients, by hours from the campaign's time to their release.
async fn hours(fixture: &Fixture, id: Uuid) -> Vec<(i32, i64)> {
    let sql = "SELECT round(extract(epoch FROM s.send_at - c.meant_for) / 3600)::int, sum(s.size)::bigint FROM send_chunk s \
               JOIN campaign c ON c.id = s.campaign_id WHERE c.id = $1 AND s.due_at IS NULL GROUP BY 1 ORDER BY 1";
    let rows = fixture.store.connection().await.unwrap().query(sql, &[&id]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn next_check(fixture: &Fixture, id: Uuid) -> Option<Timestamp> {
    let db = fixture.store.connection().await.unwrap();
    db.query_one("SELECT look_at FROM campaign WHERE id = $1", &[&id]).await.unwrap().get(0)
}

/// Moves the campaign's times back, to simulate passing hours.
async fn hours_pass(fixture: &Fixture, id: Uuid, hours: i32) {
    let db = fixture.store.connection().await.unwrap();
    for sql in [
        "UPDATE send_chunk SET send_at = send_at - make_interval(hours => $2) WHERE campaign_id = $1",
        "UPDATE campaign SET look_at = look_at - make_interval(hours => $2) WHERE id = $1",
    ] {
        db.execute(sql, &[&id, &hours]).await.unwrap();
    }
}

#[tokio::test]
async fn each_user_is_sent_to_at_the_local_time() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 900).await;
    // The names of these zones have inverted signs. `Mars/Olympus` does not exist.
    set_timezones(&fixture, &["Etc/GMT-2", "utc", "Etc/GMT-9", "Etc/GMT+3", "Mars/Olympus", "Etc/GMT+8"]).await;
    let pro = segment(&fixture, "pro").await;
    let sale = campaign(&fixture, pro, fixture.clock.now(), in_user_timezone()).await;
    fixture.run().await;
    fixture.run().await;
    let sent = async |expected: i64| {
        eventually(SOON, async || {
            deliver_due(&fixture).await;
            let (sent, next) = (reported(&fixture, sale.id, "sent").await, next_check(&fixture, sale.id).await);
            // The next check is at the next recipients' time.
            let waits = next.is_some_and(|next| next > fixture.clock.now() + SignedDuration::from_mins(50));
            if sent == expected && waits { Ok(()) } else { Err(format!("{sent} sent, next check at {next:?}")) }
        })
        .await;
    };
    // Two hours ago is still in time; nine hours ago means tomorrow.
    sent(150).await;
    assert_eq!(hours(&fixture, sale.id).await, [(3, 50), (8, 50), (15, 50)]);
    assert_eq!(current_campaign(&fixture, sale.id).await.recipients, 300);

    move_to(&fixture, sale.id, CampaignStatus::Paused).await;
    eventually(SOON, async || next_check(&fixture, sale.id).await.map_or(Ok(()), |at| Err(at.to_string()))).await;
    // Recipients whose time comes during the pause wait until the campaign is resumed.
    hours_pass(&fixture, sale.id, 3).await;
    assert_eq!(reported(&fixture, sale.id, "sent").await, 150);
    move_to(&fixture, sale.id, CampaignStatus::Sending).await;
    sent(200).await;
    hours_pass(&fixture, sale.id, 5).await;
    sent(250).await;
    hours_pass(&fixture, sale.id, 7).await;
    assert_eq!(delivered_until(&fixture, sale.id, CampaignStatus::Completed).await.recipients, 300);
    assert_eq!(reported(&fixture, sale.id, "sent").await, 300);
    fixture.stop().await;
}

#[tokio::test]
async fn campaign_begins_at_the_local_time_of_the_earliest_timezone() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 30).await;
    let pro = segment(&fixture, "pro").await;
    let in_hours = |hours| fixture.clock.now() + SignedDuration::from_hours(hours);
    let later = campaign(&fixture, pro, in_hours(20), in_user_timezone()).await;
    let cancelled = campaign(&fixture, pro, in_hours(3), in_user_timezone()).await;
    fixture.run().await;
    eventually(SOON, async || {
        let (current, next) = (current_campaign(&fixture, later.id).await, next_check(&fixture, later.id).await);
        let first = current.scheduled_at.map(|at| at - SignedDuration::from_hours(14));
        if current.status == CampaignStatus::Scheduled && next == first {
            Ok(())
        } else {
            Err(format!("{next:?}, {current:?}"))
        }
    })
    .await;
    // Its time comes in three hours for users without a timezone.
    let begun = delivered_until(&fixture, cancelled.id, CampaignStatus::Sending).await;
    assert!(begun.started_at.unwrap() < begun.scheduled_at.unwrap());
    eventually(SOON, async || match hours(&fixture, cancelled.id).await[..] {
        [(0, 10)] => Ok(()),
        ref parked => Err(format!("{parked:?}")),
    })
    .await;
    move_to(&fixture, cancelled.id, CampaignStatus::Cancelled).await;
    fixture.eventually_none("SELECT count(*) FROM send_chunk").await;
    fixture.stop().await;
    assert_eq!(report(&fixture, cancelled.id).await, [(None, "cancelled".to_owned(), 10)]);
    assert_eq!(fixture.count("SELECT count(*) FROM message").await, 0);
}

#[tokio::test]
async fn users_without_a_timezone_use_the_projects() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 60).await;
    let sql = "INSERT INTO project (project_id, name, timezone, secrets, created_at, updated_at, changed_seq) \
               VALUES ($1, 'p', 'Asia/Tokyo', '', now(), now(), 1)";
    fixture.store.connection().await.unwrap().execute(sql, &[&fixture.project]).await.unwrap();
    set_timezones(&fixture, &["asia/tokyo", "UTC"]).await;
    let (pro, free) = (segment(&fixture, "pro").await, segment(&fixture, "free").await);
    let to_pro = campaign(&fixture, pro, fixture.clock.now(), in_user_timezone()).await;
    let to_free = campaign(&fixture, free, fixture.clock.now(), in_user_timezone()).await;
    fixture.run().await;
    delivered_until(&fixture, to_free.id, CampaignStatus::Completed).await;
    eventually(SOON, async || match current_campaign(&fixture, to_pro.id).await.recipients {
        20 => Ok(()),
        n => Err(n),
    })
    .await;
    fixture.stop().await;
    assert_eq!(hours(&fixture, to_pro.id).await, [(9, 10)]);
    assert_eq!(reported(&fixture, to_free.id, "sent").await, 40);
}
