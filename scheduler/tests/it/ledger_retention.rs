//! Messages, runs and counts past their retention.

use database::months::Month;
use kernel::clock::{Clock, from_ms};
use kernel::ids::{self, ProjectId};
use scheduler::maintenance::retention::ledger::{clear_messages, clear_runs, fold_counts, forget_dead_letters};
use store_sending::messages::counts;
use store_sending::messages::retention::SLICE;
use uuid::Uuid;

use crate::fixture::Fixture;
use crate::retention::{DAY_MS, project, sending};

/// Inserts counted messages with a status, a millisecond apart.
async fn messages(fixture: &Fixture, project: ProjectId, from_ms: i64, status: &str, many: i64) {
    let db = fixture.store.connection().await.unwrap();
    let sql = "WITH new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2::bigint + n), 12, '0') || '7' || substr(md5(random()::text), 14))::uuid, $1, 'EMAIL', \
               'automation', $3, now(), now() FROM generate_series(1, $4::bigint) n RETURNING 1) \
               INSERT INTO message_count (project_id, lane, count) SELECT $1, 0, count(*) FROM new \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count";
    db.execute(sql, &[&project, &from_ms, &status, &many]).await.unwrap();
}

/// Returns the number of a project's messages, and the number counted.
async fn kept(fixture: &Fixture, project: ProjectId) -> (i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM message WHERE project_id = $1), \
               (SELECT sum(count)::bigint FROM message_count WHERE project_id = $1)";
    let row = fixture.store.connection().await.unwrap().query_one(sql, &[&project]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn partitions(fixture: &Fixture) -> i64 {
    fixture.count("SELECT count(*) FROM pg_inherits WHERE inhparent = 'message'::regclass").await
}

#[tokio::test]
async fn settled_messages_past_their_retention_are_removed_and_no_longer_counted() {
    let mut fixture = Fixture::new().await;
    let (short, long) = (project(&fixture, 40).await, project(&fixture, 400).await);
    let now = fixture.clock.now_ms();
    for project in [short, long] {
        messages(&fixture, project, now - DAY_MS, "sent", SLICE * 2 + 100).await;
        messages(&fixture, project, now - DAY_MS, "queued", 3).await;
        messages(&fixture, project, now + 2 * DAY_MS, "sent", 10).await;
    }
    let all = partitions(&fixture).await;

    fixture.clock = Clock::manual(from_ms(now + 40 * DAY_MS));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!(kept(&fixture, short).await, (13, 13));
    let rows = SLICE * 2 + 113;
    assert_eq!(kept(&fixture, long).await, (rows, rows));
    assert_eq!(partitions(&fixture).await, all);
}

#[tokio::test]
async fn messages_are_kept_for_at_least_a_month() {
    let mut fixture = Fixture::new().await;
    let short = project(&fixture, 1).await;
    let now = fixture.clock.now_ms();
    messages(&fixture, short, now, "sent", 5).await;
    fixture.clock = Clock::manual(from_ms(now + 30 * DAY_MS));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!(kept(&fixture, short).await, (5, 5));
    fixture.clock = Clock::manual(from_ms(now + 32 * DAY_MS));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!(kept(&fixture, short).await, (0, 0));
}

#[tokio::test]
async fn a_message_partition_is_dropped_once_nothing_in_it_can_be_sent() {
    let mut fixture = Fixture::new().await;
    let (one, two) = (project(&fixture, 5).await, project(&fixture, 64).await);
    let now = fixture.clock.now_ms();
    let start = Month::at(now).start_ms();
    for (project, status, many) in [(one, "sent", 300), (two, "sent", 200), (two, "queued", 1)] {
        messages(&fixture, project, start - DAY_MS / 2, status, many).await;
    }
    messages(&fixture, ProjectId(Uuid::from_u128(1)), start - DAY_MS / 2, "sent", 3).await;
    messages(&fixture, two, start + DAY_MS, "sent", 10).await;
    let all = partitions(&fixture).await;
    fixture.clock = Clock::manual(from_ms(start + 64 * DAY_MS + 60_000));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!((kept(&fixture, one).await, kept(&fixture, two).await), ((0, 0), (11, 11)));
    assert_eq!(partitions(&fixture).await, all, "one message is still to be sent");

    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE message SET status = 'failed' WHERE status = 'queued'", &[]).await.unwrap();
    messages(&fixture, two, start - DAY_MS / 2, "sent", 200).await;
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!((kept(&fixture, one).await, kept(&fixture, two).await), ((0, 0), (10, 10)));
    assert_eq!(partitions(&fixture).await, all - 1);
    let detached =
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^message_(before_)?2' AND NOT relispartition";
    assert_eq!(fixture.count(detached).await, 0);
}

#[tokio::test]
async fn messages_of_an_active_sending_are_kept_until_it_ends() {
    let mut fixture = Fixture::new().await;
    let one = project(&fixture, 64).await;
    let start = Month::at(fixture.clock.now_ms()).start_ms();
    let sent = start - DAY_MS / 2;
    let campaign = sending(&fixture, one, "PAUSED", sent).await;
    messages(&fixture, one, sent, "sent", 20).await;
    // Messages of an earlier sending of the same campaign.
    messages(&fixture, one, sent - 60_000, "sent", 5).await;
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE message SET campaign_id = $1", &[&campaign]).await.unwrap();
    messages(&fixture, one, sent, "sent", 10).await;
    let all = partitions(&fixture).await;
    fixture.clock = Clock::manual(from_ms(start + 64 * DAY_MS + 60_000));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!((kept(&fixture, one).await, partitions(&fixture).await), ((20, 20), all));

    db.execute("UPDATE campaign SET status = 'COMPLETED', under_way = false", &[]).await.unwrap();
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!((kept(&fixture, one).await, partitions(&fixture).await), ((0, 0), all - 1));
}

#[tokio::test]
async fn partition_is_kept_while_an_active_sending_may_insert_rows() {
    let mut fixture = Fixture::new().await;
    let one = project(&fixture, 64).await;
    let start = Month::at(fixture.clock.now_ms()).start_ms();
    sending(&fixture, one, "SENDING", start - DAY_MS / 2).await;
    let all = partitions(&fixture).await;
    fixture.clock = Clock::manual(from_ms(start + 64 * DAY_MS + 60_000));
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!(partitions(&fixture).await, all);

    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE campaign SET status = 'CANCELLED'", &[]).await.unwrap();
    clear_messages(fixture.app().await).await.unwrap();
    assert_eq!(partitions(&fixture).await, all - 1);
}

#[tokio::test]
async fn ended_runs_past_their_retention_are_removed() {
    let fixture = Fixture::new().await;
    let (one, now) = (project(&fixture, 40).await, fixture.clock.now_ms());
    let db = fixture.store.connection().await.unwrap();
    let (always, once) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for (id, reentry) in [(always, "always"), (once, "once")] {
        let sql = "INSERT INTO automation (project_id, id, name, trigger_type, definition, created_at, updated_at, changed_seq) \
                   VALUES ($1, $2, 'a', 'EVENT', jsonb_build_object('reentry', $3::text), now(), now(), 1)";
        db.execute(sql, &[&one, &id, &reentry]).await.unwrap();
    }
    let started = now - 60 * DAY_MS;
    let ended = |days: i64| Some(from_ms(now - days * DAY_MS));
    for (n, automation, ended) in
        [(1, always, ended(50)), (2, always, ended(30)), (3, always, None), (4, once, ended(50)), (5, once, ended(30))]
    {
        let id = ids::timed(started, [n; 10]);
        let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, trail, \
                   started_at, updated_at, ended_at) VALUES ($1, $2, $3, 1, $1, $4, '', 0, '{\"name\": \"bought\"}', '[{}]', now(), now(), $5)";
        let status = if ended.is_some() { "completed" } else { "waiting" };
        db.execute(sql, &[&one, &id, &automation, &status, &ended]).await.unwrap();
        let sql = "INSERT INTO run_listener (project_id, user_id, event, run_id) VALUES ($1, $1, 'bought', $2)";
        db.execute(sql, &[&one, &id]).await.unwrap();
    }
    clear_runs(fixture.app().await).await.unwrap();
    let left = async |sql: &str| {
        let rows = db.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, Uuid>(0).as_bytes()[15]).collect::<Vec<_>>()
    };
    assert_eq!(left("SELECT id FROM run ORDER BY id").await, [2, 3, 4, 5]);
    assert_eq!(left("SELECT run_id FROM run_listener ORDER BY run_id").await, [2, 3, 4, 5]);
    // The run stays, because it prevents re-entry, but its data is deleted.
    assert_eq!(left("SELECT id FROM run WHERE context = '{}' AND trail = '[]'").await, [4]);
}

#[tokio::test]
async fn dead_letters_are_removed_after_the_configured_days() {
    let fixture = Fixture::with([("DEAD_LETTERS_KEEP_DAYS", "30")]).await;
    let one = project(&fixture, 400).await;
    let db = fixture.store.connection().await.unwrap();
    for days in [29, 31] {
        let died = from_ms(fixture.clock.now_ms() - days * DAY_MS);
        let sql = "INSERT INTO dead_item (project_id, id, name, reason, partition, subject, payload, created_at, died_at) \
                   VALUES ($1, $2, 'track', 'poison', 0, 's', '', $3, $3)";
        db.execute(sql, &[&one, &ids::fresh(died.as_millisecond()), &died]).await.unwrap();
    }
    forget_dead_letters(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM dead_item").await, 1);
}

#[tokio::test]
async fn folding_past_quarters_does_not_change_message_counts() {
    let fixture = Fixture::new().await;
    let (one, now) = (project(&fixture, 400).await, fixture.clock.now());
    let db = fixture.store.connection().await.unwrap();
    for hours in [0, 3, 30, 101 * 24] {
        let sql = "INSERT INTO message_status_count SELECT $1, date_bin('15 minutes', $2, 'epoch'), c, 'sent', lane, lane + 1 \
                   FROM generate_series(0, 15) lane, unnest(ARRAY['EMAIL', 'PUSH']) c";
        let at = from_ms(now.as_millisecond() - hours * 3_600_000);
        db.execute(sql, &[&one, &at]).await.unwrap();
    }
    let sums = async || {
        let mut all = counts::since(&db, one, from_ms(now.as_millisecond() - 40 * 3_600_000)).await.unwrap();
        all.sort_unstable_by_key(|r| (r.at, r.channel.as_str()));
        all
    };
    let before = sums().await;
    assert_eq!(before.len(), 6);
    for _ in 0..2 {
        fold_counts(fixture.app().await).await.unwrap();
        assert_eq!(sums().await, before);
        assert_eq!(fixture.count("SELECT count(*) FROM message_status_count").await, 2 * (16 + 1 + 1));
    }
}
