//! How much of the ledger the statements read that run all the time: what they are about, and nothing beside it.

use shared::clock::from_ms;
use shared::ids::{self, ProjectId};
use shared::send::{Channel, DeliveryState};
use shared::store::campaigns::sending;
use shared::store::messages::claim::claim;
use shared::store::messages::due;
use shared::store::messages::settle::{HELD, Settled, held, release_held, settle};
use shared::store::{Transaction, timers};
use uuid::Uuid;

use crate::place::Place;

const MODES: [&str; 3] = ["auto", "force_generic_plan", "force_custom_plan"];
const DAY_MS: i64 = 86_400_000;

/// Rows that the transaction has read so far of tables with such a name: by scans of whole tables, and by indexes.
async fn read(tx: &Transaction<'_>, tables: &str) -> (i64, i64) {
    let sql = "SELECT coalesce(sum(seq_tup_read), 0)::bigint, coalesce(sum(idx_tup_fetch), 0)::bigint \
               FROM pg_stat_xact_user_tables WHERE relname ~ $1";
    let row = tx.query_one(sql, &[&tables]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Runs a piece of work under every kind of plan, each in a transaction that is rolled back; it may read so many rows.
macro_rules! reads_at_most {
    ($place:expr, $tables:expr, $most:expr, |$tx:ident| $work:expr) => {
        for mode in MODES {
            let mut db = $place.store.connection().await.unwrap();
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

/// A ledger over three days: 100 messages of the project are due and 2,000 of another one, 2,000 wait, all others are
/// done with.
async fn ledger(place: &Place) -> ProjectId {
    let other = ProjectId(ids::fresh(place.clock.now_ms()));
    let db = place.store.connection().await.unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, due_at, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'automation', $3, $4, now() + $5::text::interval * n, now(), now() FROM generate_series(1, $6::bigint) n";
    let now = place.clock.now_ms();
    for day in 0..3 {
        let from = now - day * DAY_MS;
        let held = format!("{HELD}: x");
        for (n, (project, status, reason, due, count)) in [
            (place.project, "sent", None, None, 12_000),
            (place.project, "queued", Some(&held), Some("1 minute"), 700),
            (place.project, "queued", None, Some("-1 second"), 33),
            (other, "queued", None, Some("-1 second"), 700),
        ]
        .into_iter()
        .enumerate()
        {
            let from = from - n as i64 * 20_000;
            db.execute(sql, &[&project, &from, &status, &reason, &due, &i64::from(count)]).await.unwrap();
        }
    }
    db.batch_execute("ANALYZE message").await.unwrap();
    other
}

#[tokio::test]
async fn of_the_ledger_only_the_rows_in_question_are_read() {
    let place = Place::new().await;
    let project = place.project;
    let other = ledger(&place).await;
    let now = place.clock.now();
    let db = place.store.connection().await.unwrap();
    // From the first to the last day, every one is between the bounds.
    let waiting = "SELECT id FROM message WHERE project_id = $1 AND status = 'queued' ORDER BY id";
    let ids: Vec<Uuid> = db.query(waiting, &[&project]).await.unwrap().iter().map(|r| r.get(0)).step_by(25).collect();
    let wanted: Vec<(Uuid, i32)> = ids.iter().map(|id| (*id, 0)).collect();
    let settled: Vec<Settled> = ids.iter().map(|id| sent(project, *id)).collect();
    let settled: Vec<&Settled> = settled.iter().collect();
    let (count, later) = (ids.len() as i64, from_ms(now.as_millisecond() + 60_000));
    drop(db);

    reads_at_most!(place, "^message", 2 * 2_199, |tx| {
        let mut projects = due::projects(&*tx, now, 10).await.unwrap();
        projects.sort_unstable_by_key(|p| p.0);
        assert_eq!(projects, [project, other]);
    });
    reads_at_most!(place, "^message", 4 * 99, |tx| {
        assert_eq!(due::take(tx, project, now, 2_000).await.unwrap().count, 99);
    });
    reads_at_most!(place, "^message", 4 * count, |tx| {
        let sooner = from_ms(now.as_millisecond() - 3_600_000);
        assert!(due::give_back(tx, project, &wanted.iter().copied().collect(), sooner).await.unwrap() > 0);
    });
    reads_at_most!(place, "^message", 4 * count, |tx| {
        assert_eq!(claim(&*tx, project, &wanted, later, now).await.unwrap().len() as i64, count);
    });
    reads_at_most!(place, "^message", 4 * count, |tx| {
        assert_eq!(settle(&*tx, project, &settled, now).await.unwrap().len() as i64, count);
    });
    reads_at_most!(place, "^message", 5 * 84 + 2 * 2_199, |tx| {
        let held = held(&*tx, project, Channel::Email, now).await.unwrap();
        let some: Vec<Uuid> = held.iter().copied().step_by(25).collect();
        assert_eq!((held.len(), some.len()), (2_100, 84));
        assert_eq!(release_held(tx, project, Channel::Email, &some, now).await.unwrap(), 84);
        // Another worker that looks at the same change finds nothing left to write.
        assert_eq!(release_held(tx, project, Channel::Email, &some, now).await.unwrap(), 0);
    });
}

fn sent(project: ProjectId, id: Uuid) -> Settled {
    Settled::new(project, id, 0, DeliveryState::Sent)
}

#[tokio::test]
async fn of_the_timers_only_those_are_read_that_are_due() {
    let place = Place::new().await;
    let (project, other) = (place.project, ProjectId(ids::fresh(place.clock.now_ms())));
    place.timers(project, 0..20_000, 3_600_000).await;
    place.timers(project, 30_000..30_100, -1).await;
    place.timers(other, 0..5_000, -1_000).await;
    place.store.connection().await.unwrap().batch_execute("ANALYZE timer").await.unwrap();
    let now = place.clock.now();
    reads_at_most!(place, "^timer$", 4 * 100, |tx| {
        assert_eq!(timers::due::take(tx, project, now, now, 2_000).await.unwrap().len(), 100);
    });
    reads_at_most!(place, "^timer$", 2 * 5_100, |tx| {
        assert_eq!(timers::due::projects(&*tx, now, 10).await.unwrap().len(), 2);
    });
}

#[tokio::test]
async fn of_many_busy_projects_none_starves() {
    const AT_ONCE: i64 = 100;
    let place = Place::new().await;
    let projects: Vec<ProjectId> = (0..150).map(|_| ProjectId(ids::fresh(place.clock.now_ms()))).collect();
    for (n, project) in projects.iter().enumerate() {
        // Each has as much as five looks take of it.
        for run in 0..5 {
            place.timers(*project, [run], -60_000 + 1_000 * run as i64 + n as i64).await;
        }
    }
    let now = place.clock.now();
    let db = place.store.connection().await.unwrap();
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..5 {
        for project in timers::due::projects(&db, now, AT_ONCE).await.unwrap() {
            served.insert(project);
            let taken = "DELETE FROM timer WHERE project_id = $1 AND ctid IN \
                         (SELECT ctid FROM timer WHERE project_id = $1 ORDER BY due_at LIMIT 1)";
            db.execute(taken, &[&project]).await.unwrap();
        }
    }
    assert_eq!(served.len(), projects.len());
}

#[tokio::test]
async fn campaigns_of_one_project_keep_no_others_waiting() {
    let place = Place::new().await;
    let (project, other) = (place.project, ProjectId(ids::fresh(place.clock.now_ms())));
    let sql = "INSERT INTO campaign (project_id, id, name, channel, segment_id, template_ids, settings, status, look_at, created_at, updated_at) \
               SELECT $1, gen_random_uuid(), 'c', 'EMAIL', gen_random_uuid(), '{}', '{}', 'SENDING', now() + $2::text::interval * n, now(), now() \
               FROM generate_series(1, $3::bigint) n";
    let db = place.store.connection().await.unwrap();
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
    let now = place.clock.now();
    reads_at_most!(place, "^campaign$", 2 * 2_003 + 20, |tx| {
        assert_eq!(sending::due(&*tx, now, 2, 50).await.unwrap(), expected);
    });
    let db = place.store.connection().await.unwrap();
    assert_eq!(sending::due(&db, now, 50, 3).await.unwrap().len(), 3);
}
