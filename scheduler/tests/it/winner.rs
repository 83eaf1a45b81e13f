//! Campaigns that test their variants on a part of the audience.

use domain::campaign::{CampaignStatus, DecidedBy, Goal, Metric, Settings, Variant, Verdict, Winner};
use jiff::SignedDuration;
use store_sending::campaigns::winner::verdict;
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users, delivered_until, move_to, segment};
use crate::fixture::{Fixture, SOON};
use crate::worker::{deliver_due, report, reported};

fn tested(metric: Metric, test_share: f64) -> Settings {
    let variant = |name: &str, n, weight| Variant { name: name.to_owned(), template_id: Uuid::from_u128(n), weight };
    Settings {
        variants: vec![variant("A", 1, 50.0), variant("B", 2, 50.0)],
        winner: Some(Winner { metric, test_share, after_minutes: 60 }),
        goal: Some(Goal { event: "bought".to_owned(), within: "1d".to_owned() }),
        ..Settings::default()
    }
}

struct Sale<'a> {
    fixture: &'a Fixture,
    id: Uuid,
}

impl Sale<'_> {
    async fn count(&self, which: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM message WHERE campaign_id = '{}' AND {which}", self.id);
        self.fixture.count(&sql).await
    }

    async fn sql(&self, sql: &str) -> u64 {
        self.fixture.store.connection().await.unwrap().execute(sql, &[&self.id]).await.unwrap()
    }

    /// Delivers until the test has been sent; returns the number of users per variant.
    async fn tested(&self) -> (i64, i64) {
        eventually(SOON, async || {
            deliver_due(self.fixture).await;
            let waits = format!("SELECT count(*) FROM campaign WHERE id = '{}' AND test_sent_at IS NOT NULL AND look_at > now() + interval '50 minutes'", self.id);
            if self.fixture.count(&waits).await == 1 { Ok(()) } else { Err("the test has not been sent") }
        })
        .await;
        let variant = |name: &str| format!("variant = '{name}' AND status = 'sent'");
        (self.count(&variant("A")).await, self.count(&variant("B")).await)
    }

    /// Moves the campaign's times back to simulate an hour.
    async fn hour_passes(&self) {
        let sql = "UPDATE campaign SET test_sent_at = test_sent_at - interval '1 hour', look_at = now() WHERE id = $1";
        assert_eq!(self.sql(sql).await, 1);
    }

    async fn verdict(&self) -> Option<Verdict> {
        verdict(&self.fixture.store.connection().await.unwrap(), self.fixture.project, self.id).await.unwrap()
    }
}

#[tokio::test]
async fn remaining_audience_gets_the_winning_variant() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 3_000).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), tested(Metric::Clicked, 30.0)).await.id;
    fixture.run().await;
    fixture.run().await;
    let sale = Sale { fixture: &fixture, id };
    let (a, b) = sale.tested().await;
    assert!((230..370).contains(&(a + b)) && (90..220).contains(&a), "{a} and {b} of 1000");
    let waits =
        "SELECT sum(size)::bigint FROM send_chunk WHERE variant IS NULL AND template_id IS NULL AND due_at IS NULL";
    assert_eq!(fixture.count(waits).await, 1_000 - a - b);
    let row = |variant: Option<&str>, status: &str, count| (variant.map(str::to_owned), status.to_owned(), count);
    let waiting = row(None, "queued", 1_000 - a - b);
    let mut rows = report(&fixture, id).await;
    rows.sort();
    assert_eq!(rows, [waiting, row(Some("A"), "sent", a), row(Some("B"), "sent", b)]);
    // A is opened more often, B is clicked more often, and the metric is clicks.
    sale.sql("UPDATE message SET opened_at = now() WHERE campaign_id = $1 AND variant = 'A'").await;
    let clicks = "UPDATE message SET clicked_at = now(), status = 'clicked' WHERE id IN (SELECT id FROM message WHERE campaign_id = $1 AND variant = 'B' LIMIT 40)";
    assert_eq!(sale.sql(clicks).await, 40);
    // There is no verdict before its time, nor while the campaign is paused.
    sale.sql("UPDATE campaign SET look_at = now() WHERE id = $1").await;
    assert_eq!(sale.tested().await, (a, b - 40));
    move_to(&fixture, id, CampaignStatus::Paused).await;
    fixture.eventually_none(&format!("SELECT count(*) FROM campaign WHERE id = '{id}' AND look_at IS NOT NULL")).await;
    sale.sql("UPDATE campaign SET test_sent_at = test_sent_at - interval '1 hour' WHERE id = $1").await;
    assert_eq!(sale.verdict().await, None);
    move_to(&fixture, id, CampaignStatus::Sending).await;
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    let verdict = sale.verdict().await.unwrap();
    let scores: Vec<(&str, i64, i64)> =
        verdict.scores.iter().map(|s| (s.variant.as_str(), s.sent, s.results)).collect();
    assert_eq!(scores, [("A", a, 0), ("B", b, 40)]);
    assert_eq!((verdict.variant.as_str(), verdict.decided_by), ("B", DecidedBy::Results));
    let template = Uuid::from_u128(2);
    assert_eq!(sale.count(&format!("variant = 'B' AND template_id = '{template}'")).await, 1_000 - a);
    assert_eq!(sale.count("sent_at IS NOT NULL").await, 1_000);
    // The remaining audience is counted for the winner. The statuses that the test wrote above are not in the counts.
    assert_eq!(report(&fixture, id).await, [row(Some("A"), "sent", a), row(Some("B"), "sent", 1_000 - a)]);
    let different = format!("SELECT count(DISTINCT user_id) FROM message WHERE campaign_id = '{id}'");
    assert_eq!(fixture.count(&different).await, 1_000);
    fixture.stop().await;
}

#[tokio::test]
async fn without_results_the_first_variant_wins_and_a_tie_is_reported() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 600).await;
    let pro = segment(&fixture, "pro").await;
    let now = fixture.clock.now();
    let quiet = campaign(&fixture, pro, now, tested(Metric::Opened, 50.0)).await.id;
    let even = campaign(&fixture, pro, now, tested(Metric::Opened, 50.0)).await.id;
    // The first share is too small to contain a user, and the second leaves none for the remaining audience.
    let none = campaign(&fixture, pro, now, tested(Metric::Opened, 0.000_001)).await.id;
    let all = campaign(&fixture, pro, now, tested(Metric::Opened, 99.999_999)).await.id;
    fixture.run().await;
    for id in [none, all] {
        delivered_until(&fixture, id, CampaignStatus::Completed).await;
    }
    let sale = |id| Sale { fixture: &fixture, id };
    assert_eq!(sale(none).verdict().await.unwrap().decided_by, DecidedBy::NoResults);
    assert_eq!(sale(none).count("variant = 'A' AND status = 'sent'").await, 200);
    assert_eq!(sale(all).verdict().await, None);
    assert_eq!(sale(all).count("status = 'sent'").await, 200);
    for id in [quiet, even] {
        sale(id).tested().await;
    }
    // Variants of the same size, all messages opened.
    let same = "DELETE FROM message WHERE campaign_id = $1 AND status = 'sent' AND id NOT IN (SELECT id FROM \
                (SELECT id, row_number() OVER (PARTITION BY variant ORDER BY id) AS n FROM message WHERE campaign_id = $1 AND status = 'sent') AS x WHERE n <= 20)";
    sale(even).sql(same).await;
    sale(even)
        .sql("UPDATE message SET opened_at = now(), status = 'opened' WHERE campaign_id = $1 AND status = 'sent'")
        .await;
    for (id, by) in [(quiet, DecidedBy::NoResults), (even, DecidedBy::Tie)] {
        sale(id).hour_passes().await;
        delivered_until(&fixture, id, CampaignStatus::Completed).await;
        let verdict = sale(id).verdict().await.unwrap();
        assert_eq!((verdict.variant.as_str(), verdict.decided_by), ("A", by));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn conversions_are_events_of_the_user_within_the_window() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 600).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), tested(Metric::Converted, 50.0)).await.id;
    fixture.run().await;
    let sale = Sale { fixture: &fixture, id };
    let (a, b) = sale.tested().await;
    // Users of A bought too early or did something else. Ten users of B bought in time, three of them under the user
    // they were merged into.
    let event = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                 SELECT project_id, (left(id::text, 14) || '7' || substr(md5(id::text || $2), 1, 3) || '-8' || substr(md5(id::text || $2), 1, 3) || '-' || substr(md5(id::text || $2), 5, 12))::uuid, \
                 $2, user_id, '{}', sent_at + make_interval(mins => $3), now() FROM message WHERE campaign_id = $1 AND variant = $4 AND id IN \
                 (SELECT id FROM message WHERE campaign_id = $1 AND variant = $4 ORDER BY id LIMIT $5)";
    let db = fixture.store.connection().await.unwrap();
    for (name, minutes, variant, count) in
        [("bought", -5, "A", 1_000), ("looked", 5, "A", 1_000), ("bought", 5, "B", 10i64)]
    {
        db.execute(event, &[&id, &name, &minutes, &variant, &count]).await.unwrap();
    }
    let merged = "UPDATE users SET merged_into = $1, merged_at = now() WHERE id IN (SELECT user_id FROM events WHERE name = 'bought' AND ts > now() LIMIT 3)";
    let became = Uuid::from_u128(99);
    assert_eq!(db.execute(merged, &[&became]).await.unwrap(), 3);
    let theirs = "UPDATE events SET user_id = $1 WHERE user_id IN (SELECT id FROM users WHERE merged_into = $1)";
    db.execute(theirs, &[&became]).await.unwrap();
    sale.hour_passes().await;
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    let verdict = sale.verdict().await.unwrap();
    let scores: Vec<(&str, i64, i64)> =
        verdict.scores.iter().map(|s| (s.variant.as_str(), s.sent, s.results)).collect();
    assert_eq!(scores, [("A", a, 0), ("B", b, 10)]);
    assert!(verdict.decided_at <= fixture.clock.now() + SignedDuration::from_secs(5));
    fixture.stop().await;
}

#[tokio::test]
async fn a_pause_does_not_wait_while_conversions_are_counted() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 300).await;
    let pro = segment(&fixture, "pro").await;
    let id = campaign(&fixture, pro, fixture.clock.now(), tested(Metric::Converted, 50.0)).await.id;
    fixture.run().await;
    let sale = Sale { fixture: &fixture, id };
    sale.tested().await;
    let mut db = fixture.store.connection().await.unwrap();
    let counting = db.transaction().await.unwrap();
    let lock = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    counting.batch_execute(lock).await.unwrap();
    sale.hour_passes().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                 AND query LIKE '%did AS MATERIALIZED%' AND pid <> pg_backend_pid()";
    eventually(SOON, async || match fixture.count(waits).await {
        0 => Err("no count is waiting"),
        _ => Ok(()),
    })
    .await;
    move_to(&fixture, id, CampaignStatus::Paused).await;
    counting.rollback().await.unwrap();
    fixture.eventually_none("SELECT count(*) FROM campaign WHERE look_at IS NOT NULL").await;
    assert_eq!(sale.verdict().await, None, "results of a paused campaign lead to no verdict");
    move_to(&fixture, id, CampaignStatus::Sending).await;
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    assert_eq!(sale.verdict().await.unwrap().decided_by, DecidedBy::NoResults);
    fixture.stop().await;
}

#[tokio::test]
async fn the_verdict_moves_queued_recipients_to_the_winner_in_the_report() {
    let mut fixture = Fixture::new().await;
    create_users(&fixture, 3_000).await;
    let pro = segment(&fixture, "pro").await;
    let settings = Settings { throttle_per_minute: Some(6_000), ..tested(Metric::Opened, 10.0) };
    let id = campaign(&fixture, pro, fixture.clock.now(), settings).await.id;
    fixture.run().await;
    let sale = Sale { fixture: &fixture, id };
    let (a, b) = sale.tested().await;
    let opened = "UPDATE message SET opened_at = now() WHERE campaign_id = $1 AND variant = 'B'";
    assert_eq!(sale.sql(opened).await as i64, b);
    let queued = async |of: Option<&str>| {
        let rows = report(&fixture, id).await.into_iter();
        rows.filter(|row| row.0.as_deref() == of && row.1 == "queued").map(|row| row.2).sum::<i64>()
    };
    assert_eq!((queued(None).await, queued(Some("B")).await), (1_000 - a - b, 0));
    sale.hour_passes().await;
    eventually(SOON, async || match queued(None).await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
    assert_eq!(queued(Some("B")).await, 1_000 - a - b);
    let waiting = "SELECT count(*) FROM send_chunk WHERE variant IS DISTINCT FROM 'B' OR send_at = 'infinity'";
    assert_eq!(fixture.count(waiting).await, 0);
    delivered_until(&fixture, id, CampaignStatus::Completed).await;
    assert_eq!(reported(&fixture, id, "sent").await, 1_000);
    fixture.stop().await;
}
