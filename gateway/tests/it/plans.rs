//! Number of rows that lists read from large tables: those they concern, and no others.

use database::Transaction;
use database::filter::PageStart;
use jiff::SignedDuration;
use kernel::ids::{ProjectId, UserKey};
use store_profiles::events::export as event_export;
use store_profiles::events::list::{self as events, EventFilter};
use store_profiles::users::export::{self as user_export, FIRST_POSITION};
use store_profiles::users::list::{self as users, UserFilter};
use store_profiles::users::read as identity;
use store_profiles::users::user_ref::{IdType, UserRef};
use store_sending::dead_letters::{self, DeadFilter};
use uuid::Uuid;

use crate::fixture::Gateway;

const MODES: [&str; 3] = ["auto", "force_generic_plan", "force_custom_plan"];
const USERS: i64 = 40_000;

/// Returns the rows that the transaction has read from matching tables, by sequential scans and by indexes.
async fn read(tx: &Transaction<'_>, tables: &str) -> (i64, i64) {
    let sql = "SELECT coalesce(sum(seq_tup_read), 0)::bigint, \
               coalesce(sum(greatest(idx_tup_fetch, (SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index i WHERE i.indrelid = t.relid))), 0)::bigint \
               FROM pg_stat_xact_user_tables t WHERE relname ~ $1";
    let row = tx.query_one(sql, &[&tables]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Runs a query under every plan cache mode, in a transaction that is rolled back, and limits the rows that it reads.
macro_rules! reads_at_most {
    ($gateway:expr, $tables:expr, $most:expr, |$tx:ident| $work:expr) => {
        for mode in MODES {
            let mut db = $gateway.app.store.connection().await.unwrap();
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
            db.batch_execute("RESET plan_cache_mode").await.unwrap();
        }
    };
}

/// Inserts 40,000 users. The oldest tenth has a rare name, and 100 were seen within the month. A second project has as
/// many.
async fn insert_users(gateway: &Gateway, project: ProjectId) {
    let sql = "INSERT INTO users (project_id, id, external_id, created_at, last_seen_at, updated_at) \
               SELECT $1, md5($1::uuid::text || n)::uuid, 'user-' || n, now() - interval '400 days' + n * interval '1 second', \
               CASE WHEN n % 400 = 0 THEN now() ELSE now() - interval '200 days' END, now() FROM generate_series(1, $2::bigint) n";
    gateway.sql.execute(sql, &[&project, &USERS]).await.unwrap();
    let sql = "INSERT INTO user_search SELECT project_id, id, created_at, chr(1) || external_id || chr(1) || \
               CASE WHEN substr(external_id, 6)::int <= 4000 THEN 'zelda ' ELSE 'ann ' END || md5(id::text) \
               FROM users WHERE project_id = $1";
    gateway.sql.execute(sql, &[&project]).await.unwrap();
}

#[tokio::test]
async fn user_queries_read_only_relevant_rows() {
    let gateway = Gateway::start().await;
    let (project, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
    insert_users(&gateway, project).await;
    insert_users(&gateway, other).await;
    gateway.sql.batch_execute("ANALYZE users; ANALYZE user_search").await.unwrap();
    let month_ago = gateway.app.clock.now() - SignedDuration::from_hours(30 * 24);
    let search = |text: &str| UserFilter { search: Some(text.to_owned()), seen_since: None, is_many: false };
    let seen = |since| UserFilter { search: None, seen_since: Some((since, month_ago)), is_many: false };
    // (filter, total found, maximum rows read)
    for (filter, total, most) in [
        (UserFilter::default(), 0, 50),
        (search("ann"), 10_000, 2 * (2_000 + 11_200)),
        (search("zelda"), 4_000, 2 * (2_000 + 4_100)),
        (search("z"), 4_000, 2 * (2_000 + 4_100) + 4_100),
        (search("an"), 10_000, 2 * (2_000 + 100) + 10_100),
        (search("user-1234"), 11, 2 * (2_000 + 100)),
        (search("unknown"), 0, 2 * (2_000 + 100)),
        (seen(true), 100, 2 * 200),
        (seen(false), 10_000, 2 * 10_200),
    ] {
        reads_at_most!(gateway, "^user", most, |tx| {
            let (page, found) = users::list(tx, project, &filter, &PageStart::Offset(0), 21).await.unwrap();
            assert_eq!(found.count, total, "{filter:?}");
            assert_eq!(page.len() as i64, if total == 0 && filter.search.is_none() { 21 } else { total.min(21) });
        });
    }
    // A page after a cursor continues where the previous page ends, whichever plan found it.
    for text in ["ann", "zelda"] {
        let mut db = gateway.app.store.connection().await.unwrap();
        let filter = search(text);
        let (first, total) = users::list(&mut db, project, &filter, &PageStart::Offset(0), 30).await.unwrap();
        let position = (first[9].created_at, first[9].id);
        let (rest, again) = users::list(&mut db, project, &filter, &PageStart::After(position), 20).await.unwrap();
        let (offset, _) = users::list(&mut db, project, &filter, &PageStart::Offset(10), 20).await.unwrap();
        assert_eq!((&rest[..], &offset[..], again), (&first[10..], &first[10..], total));
    }
}

/// One large project, a third of it merged users, among hundreds of small ones. A generic plan, which ignores the
/// parameters, assumes that the project is small.
#[tokio::test]
async fn id_lookups_read_only_relevant_rows() {
    let gateway = Gateway::start().await;
    let project = ProjectId(Uuid::from_u128(1));
    insert_users(&gateway, project).await;
    let sql = "INSERT INTO users (project_id, id, anonymous_id, merged_into, merged_at, created_at, last_seen_at, updated_at) \
               SELECT $1, gen_random_uuid(), 'a' || row_number() OVER (), id, now(), now(), now(), now() FROM users LIMIT 20000";
    gateway.sql.execute(sql, &[&project]).await.unwrap();
    let sql = "INSERT INTO users (project_id, id, created_at, last_seen_at, updated_at) \
               SELECT gen_random_uuid(), gen_random_uuid(), now(), now(), now() FROM generate_series(1, 300)";
    gateway.sql.execute(sql, &[]).await.unwrap();
    gateway.sql.batch_execute("ANALYZE users").await.unwrap();
    let sql = "SELECT id, merged_into FROM users WHERE merged_into IS NOT NULL LIMIT 3";
    let some = gateway.sql.query(sql, &[]).await.unwrap();
    let (pointers, known): (Vec<Uuid>, Vec<Uuid>) =
        some.iter().map(|row| (row.get::<_, Uuid>(0), row.get::<_, Uuid>(1))).unzip();
    reads_at_most!(gateway, "^users", 60, |tx| {
        let mut own = identity::all_ids(tx, project, known[0]).await.unwrap();
        own.sort_unstable();
        let mut expected = vec![pointers[0], known[0]];
        expected.sort_unstable();
        assert_eq!(own, expected);
        let identity::OwnedIds { ids, owners: people } = identity::all_ids_of(tx, project, &known).await.unwrap();
        assert_eq!((ids.len(), people.len()), (6, 6));
        let pointer = pointers[0].to_string();
        let pointer = UserRef::new(&pointer, IdType::Either);
        assert_eq!(identity::find_id(tx, project, pointer).await.unwrap(), Some(known[0]));
        assert_eq!(identity::resolve_all(tx, project, &pointers).await.unwrap()[&pointers[2]], known[2]);
        assert_eq!(identity::summaries(tx, project, &pointers).await.unwrap().len(), 3);
    });
}

/// Inserts events of the last three complete days: most of one name, 30 of rare names, and 60 of one user under two
/// IDs.
///
/// The current day is left out, because it may hold so few that a sequential scan is as cheap.
async fn events(gateway: &Gateway, project: ProjectId, ids: &[Uuid]) {
    let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
               SELECT $1, (lpad(to_hex($2::bigint - n * 8000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
               CASE WHEN n % 1000 = 7 THEN 'rare_' || n % 3 ELSE 'often' END, \
               CASE WHEN n % 500 = 3 THEN ($3::uuid[])[1 + n / 500 % 2] ELSE gen_random_uuid() END, '{}', now(), now() \
               FROM generate_series(1, 30000) n";
    let day_ms = 86_400_000;
    let midnight = gateway.app.clock.now_ms() / day_ms * day_ms;
    gateway.sql.execute(sql, &[&project, &midnight, &ids]).await.unwrap();
    let sql = "INSERT INTO event_count_sum SELECT project_id, current_date, name, count(*) FROM events WHERE project_id = $1 GROUP BY 1, 3";
    gateway.sql.execute(sql, &[&project]).await.unwrap();
}

#[tokio::test]
async fn event_queries_read_only_relevant_rows() {
    let gateway = Gateway::start().await;
    let (project, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
    let ids: Vec<Uuid> = ["u1", "u2"].map(|u| UserKey::External(u).internal_id(project)).to_vec();
    events(&gateway, project, &ids).await;
    events(&gateway, other, &ids).await;
    gateway.sql.batch_execute("ANALYZE events").await.unwrap();
    let names = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
    let one = Some(ids[..1].to_vec());
    for (filter, total, most) in [
        (EventFilter::default(), 30_000, 60),
        (EventFilter { names: names(&["often"]), user_ids: None }, 29_970, 60),
        (EventFilter { names: names(&["rare_0"]), user_ids: None }, 10, 60),
        (EventFilter { names: names(&["rare_0", "rare_1", "often"]), user_ids: None }, 29_990, 120),
        (EventFilter { names: None, user_ids: one.clone() }, 30, 120),
        (EventFilter { names: None, user_ids: Some(ids.clone()) }, 60, 240),
        (EventFilter { names: names(&["often"]), user_ids: one }, 30, 120),
        (EventFilter { names: names(&["rare_1", "often"]), user_ids: Some(ids.clone()) }, 60, 240),
    ] {
        reads_at_most!(gateway, "^events_", most, |tx| {
            let (page, found) = events::list(tx, project, &filter, &PageStart::Offset(0), 21).await.unwrap();
            assert_eq!((page.len() as i64, found.count), (total.min(21), total), "{filter:?}");
            assert!(page.is_sorted_by(|a, b| a.id > b.id));
            let behind = PageStart::After(page[5].id);
            let (rest, _) = events::list(tx, project, &filter, &behind, 3).await.unwrap();
            assert_eq!(
                rest.iter().map(|e| e.id).collect::<Vec<_>>(),
                page[6..9].iter().map(|e| e.id).collect::<Vec<_>>()
            );
        });
    }
    // An empty list of users finds nothing and reads no table.
    let no_users = EventFilter { names: None, user_ids: Some(Vec::new()) };
    let mut db = gateway.app.store.connection().await.unwrap();
    let (page, total) = events::list(&mut db, project, &no_users, &PageStart::Offset(0), 21).await.unwrap();
    assert_eq!((page.len(), total.count), (0, 0));
}

#[tokio::test]
async fn export_batch_reads_a_bounded_number_of_rows() {
    let gateway = Gateway::start().await;
    let (project, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
    let ids: Vec<Uuid> = ["u1", "u2"].map(|u| UserKey::External(u).internal_id(project)).to_vec();
    for project in [project, other] {
        insert_users(&gateway, project).await;
        events(&gateway, project, &ids).await;
    }
    gateway.sql.batch_execute("ANALYZE users; ANALYZE user_search; ANALYZE events").await.unwrap();
    let month_ago = gateway.app.clock.now() - SignedDuration::from_hours(30 * 24);
    let search = |text: &str| UserFilter { search: Some(text.to_owned()), seen_since: None, is_many: false };
    let seen = |since| UserFilter { search: None, seen_since: Some((since, month_ago)), is_many: false };
    // (filter, users found in the range, maximum rows read: for the end of the range and the users in it)
    for (filter, found, most) in [
        (UserFilter::default(), 200, 450),
        (search("ann"), 200, 2 * 5_000 + 900),
        (search("zelda"), 0, 2 * 5_000 + 50),
        (seen(true), 13, 4 * 5_000 + 50),
        (seen(false), 200, 2 * 5_000 + 900),
    ] {
        reads_at_most!(gateway, "^user", most, |tx| {
            let stretch = user_export::page(tx, project, &filter, FIRST_POSITION, 200).await.unwrap();
            assert_eq!(stretch.users.len(), found, "{filter:?}");
            assert!(stretch.next.is_some());
        });
    }
    let names = |count: i64| Some((0..count).map(|n| format!("rare_{n}")).collect());
    for (filter, found, most) in [
        (EventFilter::default(), 200, 450),
        (EventFilter { names: names(1), user_ids: None }, 10, 60),
        (EventFilter { names: names(3), user_ids: None }, 30, 120),
        (EventFilter { names: names(30), user_ids: None }, 0, 2 * 5_000 + 50),
        (EventFilter { names: None, user_ids: Some(ids.clone()) }, 60, 240),
    ] {
        reads_at_most!(gateway, "^events_", most, |tx| {
            let stretch = event_export::page(tx, project, &filter, Uuid::max(), 200).await.unwrap();
            assert!(stretch.events.len() <= 200 && (found == 0 || stretch.events.len() == found), "{filter:?}");
        });
    }
}

/// Inserts messages of three days; one in 30 is a dead letter.
async fn messages(gateway: &Gateway, project: ProjectId) {
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, dead, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2::bigint - n * 8000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'direct', 'failed', CASE WHEN n % 300 = 0 THEN 'render_failed: x' ELSE 'gave_up: x' END, n % 30 = 0, now(), now() \
               FROM generate_series(1, 30000) n";
    gateway.sql.execute(sql, &[&project, &gateway.app.clock.now_ms()]).await.unwrap();
}

#[tokio::test]
async fn dead_letter_queries_read_only_relevant_rows() {
    let gateway = Gateway::start().await;
    let (project, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
    messages(&gateway, project).await;
    messages(&gateway, other).await;
    gateway.sql.batch_execute("ANALYZE message").await.unwrap();
    let by_reason = |code: &str| DeadFilter { reason: Some(code.to_owned()), ..DeadFilter::default() };
    let now = gateway.app.clock.now();
    for (filter, total, most) in [
        (DeadFilter::default(), 1_000, 1_000 + 60),
        (by_reason("render_failed"), 100, 1_000 + 250),
        (by_reason("nothing"), 0, 2 * 1_100),
    ] {
        reads_at_most!(gateway, "^message_", most, |tx| {
            let page = dead_letters::list(tx, project, &filter, &PageStart::Offset(0), 21).await.unwrap();
            let found = dead_letters::total(tx, project, &filter).await.unwrap();
            assert_eq!((page.len() as i64, found.count), (total.min(21), total), "{filter:?}");
            assert!(page.is_sorted_by(|a, b| a.id > b.id));
        });
        // A replayed message is read, found again by ID, and updated.
        reads_at_most!(gateway, "^message_", 5 * 1_100, |tx| {
            let replayed = dead_letters::replay(tx, project, &filter, 10_000, now).await.unwrap();
            assert_eq!(replayed.messages as i64, total);
        });
    }
}
