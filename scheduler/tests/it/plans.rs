//! Statements that run continuously read only the rows that they are about.

use std::collections::BTreeMap;

use database::Transaction;
use domain::message::{Channel, DeliveryState, Lane, Queue};
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use secrets::MasterKeys;
use store_profiles::date_due::plan::{self, Plan};
use store_profiles::segments::dirty;
use store_projects::webhook_endpoints;
use store_sending::campaigns::counts::Counts;
use store_sending::campaigns::sending;
use store_sending::messages::claim::load;
use store_sending::messages::settle::{Settled, cancel, count_ambiguous, settle};
use store_sending::send_chunks::begin::{TakeRequest, take};
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use store_sending::send_chunks::{ready, release_held};
use store_sending::timers;
use uuid::Uuid;

use crate::fixture::Fixture;

const MODES: [&str; 3] = ["auto", "force_generic_plan", "force_custom_plan"];
const DAY_MS: i64 = 86_400_000;

/// Returns the rows that the transaction has read so far of tables that match: by sequential scans, and by indexes.
async fn read(tx: &Transaction<'_>, tables: &str) -> (i64, i64) {
    let sql = "SELECT coalesce(sum(seq_tup_read), 0)::bigint, coalesce(sum(idx_tup_fetch), 0)::bigint \
               FROM pg_stat_xact_user_tables WHERE relname ~ $1";
    let row = tx.query_one(sql, &[&tables]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Runs `$work` with every plan cache mode, each in a transaction that is rolled back, and checks that it reads at most
/// `$most` rows.
macro_rules! reads_at_most {
    ($fixture:expr, $tables:expr, $most:expr, |$tx:ident| $work:expr) => {
        for mode in MODES {
            let mut db = $fixture.store.connection().await.unwrap();
            db.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
            let mut transaction = db.transaction().await.unwrap();
            let $tx = &mut transaction;
            let (seq, index) = read($tx, $tables).await;
            $work;
            let (seq, index) = {
                let now = read($tx, $tables).await;
                (now.0 - seq, now.1 - index)
            };
            assert!(seq == 0 && index <= $most, "{mode}, {}: {seq} by scans, {index} by indexes", stringify!($work));
            transaction.rollback().await.unwrap();
        }
    };
}

/// Inserts messages of three days: 2,100 of each project are queued, all others are sent.
async fn ledger(fixture: &Fixture, other: ProjectId) {
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'automation', $3, now(), now() FROM generate_series(1, $4::bigint) n";
    let now = fixture.clock.now_ms();
    for day in 0..3 {
        let from = now - day * DAY_MS;
        for (n, (project, status, count)) in
            [(fixture.project, "sent", 12_000), (fixture.project, "queued", 700), (other, "queued", 700)]
                .into_iter()
                .enumerate()
        {
            let from = from - n as i64 * 20_000;
            db.execute(sql, &[&project, &from, &status, &i64::from(count)]).await.unwrap();
        }
    }
    db.batch_execute("ANALYZE message").await.unwrap();
}

#[tokio::test]
async fn message_statements_read_only_relevant_rows() {
    let fixture = Fixture::new().await;
    let (project, now) = (fixture.project, fixture.clock.now());
    ledger(&fixture, ProjectId(ids::fresh(fixture.clock.now_ms()))).await;
    let db = fixture.store.connection().await.unwrap();
    // IDs from the first to the last day, so that all rows are between the bounds.
    let queued = "SELECT id FROM message WHERE project_id = $1 AND status = 'queued' ORDER BY id";
    let ids: Vec<Uuid> = db.query(queued, &[&project]).await.unwrap().iter().map(|r| r.get(0)).step_by(25).collect();
    let wanted: BTreeMap<Uuid, bool> = ids.iter().map(|id| (*id, false)).collect();
    let settled: Vec<Settled> = ids.iter().map(|id| Settled::new(project, *id, 1, DeliveryState::Queued)).collect();
    let settled: Vec<&Settled> = settled.iter().collect();
    let count = ids.len() as i64;
    drop(db);
    reads_at_most!(fixture, "^message", 4 * count, |tx| {
        assert_eq!(load(&*tx, project, &wanted).await.unwrap().len() as i64, count);
    });
    reads_at_most!(fixture, "^message", 4 * count, |tx| {
        assert_eq!(settle(&*tx, project, &settled, now).await.unwrap().len() as i64, count);
    });
    reads_at_most!(fixture, "^message", 4 * count, |tx| count_ambiguous(&*tx, project, &ids, now).await.unwrap());
    reads_at_most!(fixture, "^message", 4 * count, |tx| {
        cancel(&*tx, project, &wanted, Counts::default(), now).await.unwrap();
    });
}

/// Inserts `count` chunks of two messages into a queue. The `n`th is due `n` times `due` from now.
async fn queue_up(fixture: &Fixture, project: ProjectId, lane: Lane, held: bool, due: Option<&str>, count: i64) {
    // All IDs are of one month.
    let id = "('0199a000-0000-' || substr(gen_random_uuid()::text, 15))::uuid";
    let sql = format!(
        "INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_held, due_at, campaign_id, occurrence, send_at, \
               created_at) SELECT $1::uuid, gen_random_uuid(), 'EMAIL', $2::text, ARRAY[{id}, {id}], '00', 2, $3, \
               now() + $4::text::interval * n, CASE $2::text WHEN 'campaign' THEN $1::uuid END, 1, now() - interval '1 minute', now() \
               FROM generate_series(1, $5::bigint) n"
    );
    let db = fixture.store.connection().await.unwrap();
    db.execute(&sql, &[&project, &lane.as_str(), &held, &due, &count]).await.unwrap();
}

#[tokio::test]
async fn queue_statements_read_only_relevant_chunks() {
    let fixture = Fixture::new().await;
    let (project, other) = (fixture.project, ProjectId(ids::fresh(fixture.clock.now_ms())));
    let queue = |project, lane| Queue { project, channel: Channel::Email, lane };
    for (project, lane, held, due, count) in [
        (project, Lane::Automation, false, Some("-1 second"), 60),
        (project, Lane::Automation, true, Some("1 minute"), 300),
        (project, Lane::Direct, false, Some("1 minute"), 3_000),
        (project, Lane::Campaign, false, None, 6_000),
        (other, Lane::Automation, false, Some("-1 minute"), 700),
    ] {
        queue_up(&fixture, project, lane, held, due, count).await;
    }
    fixture.store.connection().await.unwrap().batch_execute("ANALYZE send_chunk").await.unwrap();
    let now = fixture.clock.now();
    reads_at_most!(fixture, "^send_chunk$", 2 * 760, |tx| {
        let expected = [queue(project, Lane::Automation), queue(other, Lane::Automation)];
        let mut found = ready::queues(&*tx, now).await.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
    });
    reads_at_most!(fixture, "^send_chunk$", 6 * 60, |tx| {
        let want = TakeRequest { queue: queue(project, Lane::Automation), max: 100, from: None, take_over: Some(&[]) };
        let taken = take(tx, want, now).await.unwrap();
        assert_eq!((taken.messages.len(), taken.has_more), (100, true));
    });
    reads_at_most!(fixture, "^send_chunk$", 4 * 300, |tx| {
        assert_eq!(release_held(&*tx, project, Channel::Email, now).await.unwrap(), 600);
        // A second worker that sees the same change finds nothing left to write.
        assert_eq!(release_held(&*tx, project, Channel::Email, now).await.unwrap(), 0);
    });
    let of = CampaignRef { project, campaign: project.0 };
    reads_at_most!(fixture, "^send_chunk$", 6 * 100, |tx| {
        assert_eq!(chunks::release(&*tx, of, 51, now).await.unwrap(), 51);
        assert!(chunks::is_open(&*tx, of).await.unwrap());
        assert_eq!(chunks::next_time(&*tx, of, now).await.unwrap(), None::<Timestamp>);
    });
    reads_at_most!(fixture, "^send_chunk$", 6 * 100, |tx| {
        assert_eq!(chunks::cancel(&*tx, of, 50, now).await.unwrap().count, 100);
    });
}

#[tokio::test]
async fn timer_poll_reads_only_due_timers() {
    let fixture = Fixture::new().await;
    let [project, other] = projects(&fixture, 2).await[..] else { panic!() };
    fixture.timers(project, 0..20_000, 3_600_000).await;
    fixture.timers(project, 30_000..30_100, -1).await;
    fixture.timers(other, 0..5_000, -1_000).await;
    fixture.store.connection().await.unwrap().batch_execute("ANALYZE timer").await.unwrap();
    let now = fixture.clock.now();
    reads_at_most!(fixture, "^timer$", 4 * 100, |tx| {
        assert_eq!(timers::due::claim(tx, project, now, now, 2_000).await.unwrap().len(), 100);
    });
    reads_at_most!(fixture, "^timer$", 2 * 5_100, |tx| {
        assert_eq!(timers::due::projects(&*tx, now, 10).await.unwrap().len(), 2);
    });
}

#[tokio::test]
async fn no_busy_project_starves() {
    const MAX_PROJECTS: i64 = 100;
    let fixture = Fixture::new().await;
    let projects: Vec<ProjectId> = (0..150).map(|_| ProjectId(ids::fresh(fixture.clock.now_ms()))).collect();
    for (n, project) in projects.iter().enumerate() {
        // Each project has enough timers for five polls.
        for run in 0..5 {
            fixture.timers(*project, [run], -60_000 + 1_000 * run as i64 + n as i64).await;
        }
    }
    let now = fixture.clock.now();
    let db = fixture.store.connection().await.unwrap();
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..5 {
        for project in timers::due::projects(&db, now, MAX_PROJECTS).await.unwrap() {
            served.insert(project);
            let taken = "DELETE FROM timer WHERE project_id = $1 AND ctid IN \
                         (SELECT ctid FROM timer WHERE project_id = $1 ORDER BY due_at LIMIT 1)";
            db.execute(taken, &[&project]).await.unwrap();
        }
    }
    assert_eq!(served.len(), projects.len());
}

/// Creates `count` projects.
async fn projects(fixture: &Fixture, count: usize) -> Vec<ProjectId> {
    let sql = "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) \
               SELECT id, 'p', '', now(), now(), 1 FROM unnest($1::uuid[]) AS v (id)";
    let created: Vec<ProjectId> = (0..count).map(|_| ProjectId(ids::fresh(fixture.clock.now_ms()))).collect();
    fixture.store.connection().await.unwrap().execute(sql, &[&created]).await.unwrap();
    created
}

#[tokio::test]
async fn a_backlog_of_one_project_hides_no_other_project() {
    let fixture = Fixture::with([("INGEST_MAX_BYTES", "16777216")]).await;
    let busy = projects(&fixture, 150).await;
    // Due before and after the timers of the other projects.
    fixture.timers(fixture.project, 0..20_000, -60_000).await;
    fixture.timers(fixture.project, 20_000..30_000, -1).await;
    for project in &busy {
        fixture.timers(*project, [1], -30_000).await;
    }
    fixture.store.connection().await.unwrap().batch_execute("ANALYZE timer").await.unwrap();
    let now = fixture.clock.now();
    // The window, and a probe for each project.
    reads_at_most!(fixture, "^timer$", 5_000 + 2 * 151, |tx| {
        let found = timers::due::projects(&*tx, now, 1_000).await.unwrap();
        assert_eq!((found.len(), found[0]), (151, fixture.project));
    });
    let app = fixture.app().await;
    for _ in 0..5 {
        scheduler::due::timers::tick(app.clone()).await.unwrap();
    }
    let sql = "SELECT count(*) FROM timer WHERE project_id = ANY($1)";
    let db = fixture.store.connection().await.unwrap();
    let left: i64 = db.query_one(sql, &[&busy]).await.unwrap().get(0);
    assert_eq!(left, 0, "timers of the other projects were not served");
}

#[tokio::test]
async fn marks_of_one_project_hide_no_other_project() {
    let fixture = Fixture::new().await;
    let [first, second, third] = projects(&fixture, 3).await[..] else { panic!() };
    let sql = "INSERT INTO segment_dirty (project_id, id, look, people) SELECT $1, \
               (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, 'x', '{}' FROM generate_series(1, $3::bigint) n";
    let db = fixture.store.connection().await.unwrap();
    let now_ms = fixture.clock.now_ms();
    for (project, ms, count) in
        [(first, now_ms, 3_000_i64), (second, now_ms + 5_000, 1), (first, now_ms + 9_000, 3_000)]
    {
        db.execute(sql, &[&project, &ms, &count]).await.unwrap();
    }
    let sql = "INSERT INTO segment_membership (project_id, segment_id, user_id, due_at) \
               SELECT $1, gen_random_uuid(), gen_random_uuid(), now() - $2::text::interval FROM generate_series(1, $3::bigint)";
    for (project, age, count) in [(first, "1 hour", 3_000_i64), (third, "1 minute", 1), (first, "1 second", 3_000)] {
        db.execute(sql, &[&project, &age, &count]).await.unwrap();
    }
    let found = dirty::projects(&db, fixture.clock.now(), 100).await.unwrap();
    assert_eq!(found, [first, second, third]);
}

/// Returns the session's index scans and rows read so far, for the webhook tables.
async fn scans(tx: &Transaction<'_>) -> (i64, i64) {
    let sql = "SELECT coalesce(sum(idx_scan), 0)::bigint, coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint \
               FROM pg_stat_xact_user_tables WHERE relname ~ '^webhook_'";
    let row = tx.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn scans_since(tx: &Transaction<'_>, before: (i64, i64)) -> (i64, i64) {
    let now = scans(tx).await;
    (now.0 - before.0, now.1 - before.1)
}

#[tokio::test]
async fn webhook_poll_cost_depends_only_on_pending_deliveries() {
    let fixture = Fixture::new().await;
    let keys = MasterKeys::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f").unwrap();
    let mut db = fixture.store.connection().await.unwrap();
    let endpoints = "INSERT INTO webhook_endpoint (project_id, id, url, types, secrets, enabled, created_at, updated_at) \
                     SELECT md5((n / 10)::text)::uuid, md5(n::text)::uuid, 'https://example.com', '{*}', '\\x00', n <> 3, now(), now() \
                     FROM generate_series(1, 2000) n";
    db.batch_execute(&format!("{endpoints}; ANALYZE webhook_endpoint")).await.unwrap();
    let now = fixture.clock.now();
    for mode in MODES {
        db.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        let tx = db.transaction().await.unwrap();
        let before = scans(&tx).await;
        assert!(webhook_endpoints::due(&tx, &keys, now).await.unwrap().is_empty());
        let (index_scans, rows) = scans_since(&tx, before).await;
        // The planner may read one end of the index.
        assert!(index_scans <= 2 && rows == 0, "{mode}: {index_scans} scans, {rows} rows with nothing pending");
        tx.rollback().await.unwrap();
    }
    // Five endpoints: three with a backlog, of which one is disabled, one with a retry later on, one with a single
    // delivery.
    let deliveries = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, data, happened_at, due_at, created_at) \
                      SELECT md5(($1 / 10)::text)::uuid, md5($1::text)::uuid, gen_random_uuid(), 'message.sent', '{}', now(), \
                      now() + $2::text::interval, now() FROM generate_series(1, $3::bigint)";
    for (endpoint, due, count) in [
        (1_i32, "-1 minute", 3_000_i64),
        (2, "-2 minutes", 3_000),
        (3, "-1 hour", 3_000),
        (4, "1 hour", 50),
        (1_500, "-1 hour", 1),
    ] {
        db.execute(deliveries, &[&endpoint, &due, &count]).await.unwrap();
    }
    db.batch_execute("ANALYZE webhook_delivery").await.unwrap();
    let id = |n: i64| format!("SELECT md5('{n}')::uuid");
    let mut expected: Vec<Uuid> = Vec::new();
    for endpoint in [1_500, 2, 1] {
        expected.push(db.query_one(&id(endpoint), &[]).await.unwrap().get(0));
    }
    let now = fixture.clock.now();
    for mode in MODES {
        db.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        let tx = db.transaction().await.unwrap();
        let before = scans(&tx).await;
        let found = webhook_endpoints::due(&tx, &keys, now).await.unwrap();
        assert_eq!(found.iter().map(|e| e.id).collect::<Vec<_>>(), expected, "the oldest first");
        let (index_scans, rows) = scans_since(&tx, before).await;
        assert!(index_scans <= 15 && rows <= 12, "{mode}: {index_scans} scans, {rows} rows for five endpoints");
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn campaigns_of_one_project_keep_no_others_waiting() {
    let fixture = Fixture::new().await;
    let (project, other) = (fixture.project, ProjectId(ids::fresh(fixture.clock.now_ms())));
    let sql = "INSERT INTO campaign (project_id, id, name, channel, segment_id, template_ids, settings, status, look_at, created_at, updated_at) \
               SELECT $1, gen_random_uuid(), 'c', 'EMAIL', gen_random_uuid(), '{}', '{}', 'SENDING', now() + $2::text::interval * n, now(), now() \
               FROM generate_series(1, $3::bigint) n";
    let db = fixture.store.connection().await.unwrap();
    for (project, due, count) in [(project, "-1 minute", 2_000), (other, "-1 second", 3), (other, "1 hour", 20_000_i64)]
    {
        db.execute(sql, &[&project, &due, &count]).await.unwrap();
    }
    db.batch_execute("ANALYZE campaign").await.unwrap();
    let longest = "SELECT id FROM campaign WHERE project_id = $1 ORDER BY look_at LIMIT 2";
    let mut expected = Vec::new();
    for project in [project, other] {
        let rows = db.query(longest, &[&project]).await.unwrap();
        expected.extend(rows.iter().map(|row| (project, row.get::<_, Uuid>(0))));
    }
    drop(db);
    let now = fixture.clock.now();
    reads_at_most!(fixture, "^campaign$", 2 * 2_003 + 20, |tx| {
        assert_eq!(sending::due(&*tx, now, 2, 50).await.unwrap(), expected);
    });
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(sending::due(&db, now, 50, 3).await.unwrap().len(), 3);
}

#[tokio::test]
async fn date_statements_read_only_relevant_users() {
    let fixture = Fixture::new().await;
    let (project, automation, count) = (fixture.project, Uuid::from_u128(7), 2_000);
    let db = fixture.store.connection().await.unwrap();
    // Without statistics, as for a project's first date-triggered automation.
    db.batch_execute(
        "ALTER TABLE date_due SET (autovacuum_enabled = false); ALTER TABLE erasure SET (autovacuum_enabled = false)",
    )
    .await
    .unwrap();
    let users = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
                 SELECT $1, md5(n::text)::uuid, n::text, '{\"birthday\": \"1990-06-01\"}', now(), now(), now() FROM generate_series(1, $2::bigint) n";
    db.execute(users, &[&project, &count]).await.unwrap();
    let dates = "INSERT INTO date_due (project_id, automation_id, user_id, partition, due_at, look_at) \
                 SELECT $1, $2, id, 0, now(), now() FROM users";
    db.execute(dates, &[&project, &automation]).await.unwrap();
    let erasures = "INSERT INTO erasure (project_id, user_id, erased_at, applied_at, has_left, seq, is_pending) \
                    SELECT $1, md5((-n)::text)::uuid, now(), now(), false, 1, true FROM generate_series(1, $2::bigint) n";
    db.execute(erasures, &[&project, &count]).await.unwrap();
    drop(db);
    let (since, scanned_to, timezone) = (fixture.clock.now(), None, "UTC".to_owned());
    let plan = Plan { project, automation, trigger: None, since, scanned_to, timezone };
    reads_at_most!(fixture, "^(date_due|erasure)$", count, |tx| {
        assert_eq!(plan::users(tx, &plan, "birthday", None).await.unwrap().len() as i64, count);
    });
    reads_at_most!(fixture, "^date_due$", 2 * count, |tx| {
        assert_eq!(plan::clear(tx, &plan, count).await.unwrap() as i64, count);
    });
}
