//! What is read of partitions that have just been made, of which PostgreSQL knows nothing: only what is asked for, also by
//! plans from when they were empty.

use jiff::Timestamp;
use shared::clock::from_ms;
use shared::ids::{self, ProjectId};
use shared::send::{Channel, DeliveryState};
use shared::store::campaigns::sending::{self, Rows};
use shared::store::messages::claim::claim;
use shared::store::messages::due;
use shared::store::messages::read::states;
use shared::store::messages::receipts::{self, Receipt};
use shared::store::messages::settle::{HELD, Settled, release_held, settle};
use shared::store::suppressions::recipients;
use shared::store::webhook_deliveries::tell::{self, MessageNews};
use shared::store::{Connection, Transaction};
use uuid::Uuid;

use crate::place::Place;

const MODES: [&str; 3] = ["auto", "force_generic_plan", "force_custom_plan"];
/// In auto mode, the plan of the sixth time no longer looks at the values.
const TIMES: usize = 6;
const DAY_MS: i64 = 86_400_000;
const ROWS: i64 = 15_000;
const WANTED: i64 = 60;

/// What a transaction has read of the ledger: rows by scans of whole partitions, rows by indexes, and pages of either.
async fn read(tx: &Transaction<'_>) -> [i64; 3] {
    let sql = "WITH ledger AS (SELECT relid FROM pg_partition_tree('message')), \
               parts AS (SELECT relid FROM ledger UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT relid FROM ledger)) \
               SELECT (SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables WHERE relid IN (SELECT relid FROM ledger)), \
               (SELECT coalesce(sum(idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables WHERE relid IN (SELECT relid FROM ledger)), \
               (SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(relid)), 0)::bigint FROM parts)";
    let row = tx.query_one(sql, &[]).await.unwrap();
    [row.get(0), row.get(1), row.get(2)]
}

struct Sent {
    project: ProjectId,
    campaign: Uuid,
    ids: Vec<Uuid>,
    /// When the campaign's sending began.
    began: Timestamp,
    now: Timestamp,
}

impl Sent {
    fn ends(&self, attempt: i32) -> Vec<Settled> {
        let end = |id: &Uuid| Settled {
            reason: Some(format!("{HELD}: x")),
            due_at: Some(self.later(2)),
            ..Settled::new(self.project, *id, attempt, DeliveryState::Queued)
        };
        self.ids.iter().map(end).collect()
    }

    fn later(&self, minutes: i64) -> Timestamp {
        from_ms(self.now.as_millisecond() + minutes * 60_000)
    }

    /// The way of the messages through the ledger, a piece of work after the other: how many rows each was about, and
    /// what it read.
    async fn goes(&self, tx: &mut Transaction<'_>) -> Vec<(&'static str, i64, [i64; 3])> {
        let (project, ids, now) = (self.project, &self.ids, self.now);
        let mut done = Vec::new();
        macro_rules! work {
            ($name:literal, $count:expr) => {
                let before = read(tx).await;
                let count = $count as i64;
                let after = read(tx).await;
                done.push(($name, count, std::array::from_fn(|n| after[n] - before[n])));
            };
        }
        let months = due::months(&*tx).await.unwrap();
        work!("take", due::take(tx, project, &months, now, 1_000).await.unwrap().count);
        // What pins the plan of that one is set until the end of the transaction.
        for setting in ["seqscan", "indexscan", "indexonlyscan", "bitmapscan", "sort"] {
            tx.batch_execute(&format!("SET LOCAL enable_{setting} TO DEFAULT")).await.unwrap();
        }
        let handed_over: Vec<(Uuid, i32)> = ids.iter().map(|id| (*id, 0)).collect();
        work!("claim", claim(&*tx, project, &handed_over, self.later(5), now).await.unwrap().len());
        let ends = self.ends(1);
        let ends: Vec<&Settled> = ends.iter().collect();
        work!("settle", settle(&*tx, project, &ends, now).await.unwrap().len());
        work!("release_held", release_held(tx, project, Channel::Email, ids, self.later(1)).await.unwrap());
        let claimed: Vec<(Uuid, i32)> = ids.iter().map(|id| (*id, 1)).collect();
        let times = vec![self.later(9); ids.len()];
        work!("put_off", due::put_off(&*tx, project, &claimed, &times, "night", now).await.unwrap());
        let taken = claimed.iter().copied().collect();
        work!("give_back", due::give_back(tx, project, &taken, now).await.unwrap());
        work!("states", states(&*tx, project, ids).await.unwrap().len());
        work!("recipients", recipients(&*tx, project, ids).await.unwrap().len());
        let receipt =
            |id: &Uuid| Receipt { message: *id, state: DeliveryState::Opened, at: now, reason: None, url: None };
        let told: Vec<Receipt> = ids.iter().map(receipt).collect();
        work!("receipts", receipts::apply(tx, project, &told, now).await.unwrap().reached.len());
        let news = |id: &Uuid| MessageNews { message: *id, kind: "message.opened", at: now, reason: None, url: None };
        let news: Vec<MessageNews> = ids.iter().map(news).collect();
        work!("tell", tell::of_messages(tx, project, &news, now).await.unwrap());
        let of = Rows::begun(project, self.campaign, self.began);
        let times = (now, self.later(10));
        work!("release", sending::release(&*tx, &of, None, WANTED, times).await.unwrap().len());
        work!("cancel", sending::cancel(&*tx, &of, WANTED, self.later(11)).await.unwrap());
        done
    }
}

/// Two days of the ledger, one of a campaign's sending among them; a few of the others are due.
async fn fill(db: &Connection, sent: &Sent) {
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, due_at, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'automation', 'queued', now() + interval '1 hour', now(), now() FROM generate_series(1, $3::bigint) n";
    for day in 0..2 {
        let from = sent.now.as_millisecond() - day * DAY_MS - ROWS;
        db.execute(sql, &[&sent.project, &from, &ROWS]).await.unwrap();
    }
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, occurrence, send_at, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'campaign', 'queued', $3, 1, now() - interval '1 hour', now(), now() FROM generate_series(1, $4::bigint) n";
    let began = sent.began.as_millisecond();
    db.execute(sql, &[&sent.project, &began, &sent.campaign, &ROWS]).await.unwrap();
    let due = "UPDATE message SET due_at = now() - interval '1 minute' WHERE id = ANY($1)";
    db.execute(due, &[&sent.ids]).await.unwrap();
    let sql = "INSERT INTO webhook_endpoint (project_id, id, url, types, secrets, created_at, updated_at) \
               VALUES ($1, gen_random_uuid(), 'https://example.com', '{*}', '', now(), now())";
    db.execute(sql, &[&sent.project]).await.unwrap();
}

#[tokio::test]
async fn of_partitions_that_nobody_has_analyzed_only_the_rows_in_question_are_read() {
    let place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    let sql = "SELECT string_agg(format('ALTER TABLE %s SET (autovacuum_enabled = off)', relid), ';') \
               FROM pg_partition_tree('message') WHERE isleaf";
    let quiet: String = db.query_one(sql, &[]).await.unwrap().get(0);
    db.batch_execute(&quiet).await.unwrap();
    let now = place.clock.now();
    // Of both days, from the first to the last: all that is there lies between the bounds.
    let id = |n: i64| {
        let (day, n) = (n % 2, n / 2 * (2 * ROWS / WANTED) + 1);
        Uuid::parse_str(&format!("{:012x}70008{n:015x}", now.as_millisecond() - day * DAY_MS - ROWS + n)).unwrap()
    };
    let sent = Sent {
        project: place.project,
        campaign: ids::fresh(now.as_millisecond()),
        ids: (0..WANTED).map(id).collect(),
        began: from_ms(now.as_millisecond() - DAY_MS / 2),
        now,
    };
    let mut sessions = Vec::new();
    for mode in MODES {
        let mut session = place.store.connection().await.unwrap();
        session.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        for _ in 0..TIMES {
            let mut tx = session.transaction().await.unwrap();
            sent.goes(&mut tx).await;
            tx.rollback().await.unwrap();
        }
        sessions.push(session);
    }
    fill(&db, &sent).await;
    let known = "SELECT count(*) FROM pg_class WHERE oid IN (SELECT relid FROM pg_partition_tree('message') WHERE isleaf) AND reltuples >= 0";
    for (mode, mut session) in MODES.into_iter().zip(sessions) {
        let mut tx = session.transaction().await.unwrap();
        for (name, count, [scanned, rows, pages]) in sent.goes(&mut tx).await {
            let is_near = scanned == 0 && rows <= 8 * WANTED && pages <= 60 * WANTED;
            assert!(is_near, "{mode}, {name}: {scanned} rows by scans, {rows} by indexes, {pages} pages");
            assert_eq!(count, WANTED, "{mode}, {name}");
        }
        tx.rollback().await.unwrap();
        assert_eq!(place.count(known).await, 0);
    }
}
