//! Limits the rows that finding an audience reads.

use domain::campaign::Settings;
use jiff::SignedDuration;
use kernel::ids::{self, ProjectId};
use serde_json::json;
use store_profiles::segments::{self, Segment, SegmentType};
use store_sending::campaigns::audience::find_slice;
use store_sending::campaigns::sending;
use uuid::Uuid;

use crate::campaigns::{campaign, create_users};
use crate::fixture::Fixture;

const SLICE: i64 = 500;

/// Creates a project whose users did two things each, and every fifth a third; some events came before a merge.
async fn project(fixture: &mut Fixture, users: i64) {
    fixture.project = ProjectId(ids::fresh(fixture.clock.now_ms()));
    create_users(fixture, users).await;
    let db = fixture.store.connection().await.unwrap();
    let anonymous = "INSERT INTO users (project_id, id, properties, merged_into, created_at, last_seen_at, updated_at) \
                     SELECT $1, md5('a' || i)::uuid, '{}', md5(i::text)::uuid, now(), now(), now() \
                     FROM generate_series(1, $2::bigint, 7) AS i";
    db.execute(anonymous, &[&fixture.project, &users]).await.unwrap();
    let events = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                  SELECT $1, (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || substr(h, 1, 3) || '8' \
                  || substr(h, 4, 15))::uuid, name, id, '{}', now(), now() \
                  FROM (SELECT u.id, e.name, md5(u.id::text || e.name) AS h FROM users u \
                  CROSS JOIN unnest(ARRAY['viewed', 'searched', 'bought']) AS e (name) \
                  WHERE u.project_id = $1 AND (e.name <> 'bought' OR right(u.id::text, 1) < '3')) AS of";
    db.execute(events, &[&fixture.project]).await.unwrap();
}

async fn buyers(fixture: &Fixture) -> Uuid {
    let (id, now) = (ids::fresh(fixture.clock.now_ms()), fixture.clock.now());
    let rules = json!([
        {"field": "event:viewed", "operator": "did"},
        {"field": "event:bought", "operator": "did_not"},
        {"field": "plan", "operator": "exists"},
    ]);
    let (name, description, segment_type) = ("b".to_owned(), String::new(), SegmentType::Rules);
    let segment = Segment { id, name, description, segment_type, rules, created_at: now, updated_at: now };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    segments::insert(&tx, fixture.project, &segment).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Returns the rows read for one slice, per recipient found.
async fn cost(fixture: &Fixture, campaign: Uuid) -> i64 {
    let mut db = fixture.store.connection().await.unwrap();
    let now = fixture.clock.now() + SignedDuration::from_secs(1);
    db.batch_execute("ANALYZE").await.unwrap();
    let tx = db.transaction().await.unwrap();
    sending::begin(&tx, fixture.project, campaign, now, now).await.unwrap();
    let (campaign, progress) = sending::lock_due(&tx, fixture.project, campaign, now).await.unwrap().unwrap();
    let sql = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_xact_user_tables \
               WHERE relname LIKE 'events%' OR relname = 'users'";
    let before: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
    let slice = find_slice(&tx, fixture.project, &campaign, &progress, SLICE, now).await.unwrap();
    let after: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
    assert!(slice.len() as i64 > SLICE / 2, "{} found", slice.len());
    (after - before) / slice.len() as i64
}

#[tokio::test]
async fn rows_read_per_recipient_do_not_grow_with_the_audience() {
    let mut fixture = Fixture::new().await;
    let mut costs = Vec::new();
    for users in [3_000, 12_000] {
        project(&mut fixture, users).await;
        let segment = buyers(&fixture).await;
        let id = campaign(&fixture, segment, fixture.clock.now(), Settings::default()).await.id;
        costs.push(cost(&fixture, id).await);
    }
    let [small, large] = costs[..] else { panic!("{costs:?}") };
    assert!(small < 30 && large <= 2 * small, "{small} and {large} rows for each recipient");
}
