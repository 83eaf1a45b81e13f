//! Statements on new partitions, which have no statistics, read only the rows that they are about, even with plans made
//! while the partitions were empty.

use std::collections::BTreeMap;

use database::{Connection, Transaction};
use domain::message::{Channel, DeliveryState, Lane, Queue};
use jiff::Timestamp;
use kernel::clock::from_ms;
use kernel::ids::{self, ProjectId};
use store_sending::campaigns::counts::Counts;
use store_sending::messages::claim::load;
use store_sending::messages::read::states;
use store_sending::messages::receipts::{self, Receipt};
use store_sending::messages::recipients::{self as sending, BeginResult, LockMode};
use store_sending::messages::settle::{Settled, cancel, count_ambiguous, settle};
use store_sending::send_chunks::Share;
use store_sending::send_chunks::begin::{Recipients, SendingRow};
use store_sending::suppressions::recipients;
use store_sending::webhook_deliveries::enqueue::{self, MessageEvent};
use uuid::Uuid;

use crate::fixture::Fixture;

const MODES: [&str; 3] = ["auto", "force_generic_plan", "force_custom_plan"];
/// In auto mode, PostgreSQL may use a generic plan from the sixth execution on.
const TIMES: usize = 6;
const DAY_MS: i64 = 86_400_000;
const ROWS: i64 = 15_000;
const WANTED: i64 = 60;

/// Returns a transaction's reads of the ledger: rows by sequential scans, rows by indexes, and pages.
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
            reason: Some("retrying: x".to_owned()),
            due_at: Some(self.later(2)),
            ..Settled::new(self.project, *id, attempt, DeliveryState::Queued)
        };
        self.ids.iter().map(end).collect()
    }

    fn later(&self, minutes: i64) -> Timestamp {
        from_ms(self.now.as_millisecond() + minutes * 60_000)
    }

    /// Returns the campaign's messages, one in 250.
    fn of_campaign(&self) -> BTreeMap<Uuid, bool> {
        (0..WANTED).map(|n| (id(self.began.as_millisecond(), n * (ROWS / WANTED) + 1), true)).collect()
    }

    /// Begins messages to users whose rows do not exist yet.
    async fn begin(&self, tx: &Transaction<'_>) -> usize {
        let campaign = SendingRow {
            campaign: self.campaign,
            occurrence: 1,
            started_at: self.began,
            name: "Sale".to_owned(),
            template_id: None,
            subscription_group_id: None,
        };
        let queue = Queue { project: self.project, channel: Channel::Email, lane: Lane::Campaign };
        let users = (0..WANTED).map(|n| Uuid::from_u128(n.unsigned_abs().into())).collect();
        let audience = [Recipients { share: Share::default(), users, found_at: self.now }];
        let begun =
            sending::insert(tx, queue, (&campaign, &audience), Some, LockMode::Exclusive, self.now).await.unwrap();
        let BeginResult::Messages(messages) = begun else { panic!("the lease is exclusive") };
        messages.len()
    }

    /// Runs the messages through the steps of the ledger. Returns for each step the rows it is about and its reads.
    async fn steps(&self, tx: &mut Transaction<'_>) -> Vec<(&'static str, i64, [i64; 3])> {
        let (project, ids, now) = (self.project, &self.ids, self.now);
        let mut done = Vec::new();
        macro_rules! step {
            ($name:literal, $count:expr) => {
                let before = read(tx).await;
                let count = $count as i64;
                let after = read(tx).await;
                done.push(($name, count, std::array::from_fn(|n| after[n] - before[n])));
            };
        }
        let wanted: BTreeMap<Uuid, bool> = ids.iter().map(|id| (*id, false)).collect();
        step!("load", load(&*tx, project, &wanted).await.unwrap().len());
        step!("begin", self.begin(tx).await);
        let ends = self.ends(1);
        let ends: Vec<&Settled> = ends.iter().collect();
        step!("settle", settle(&*tx, project, &ends, now).await.unwrap().len());
        step!("in doubt", {
            count_ambiguous(&*tx, project, ids, now).await.unwrap();
            load(&*tx, project, &wanted).await.unwrap().iter().filter(|message| message.ambiguous == 1).count()
        });
        step!("states", states(&*tx, project, ids).await.unwrap().len());
        step!("recipients", recipients(&*tx, project, ids).await.unwrap().len());
        let receipt =
            |id: &Uuid| Receipt { message: *id, state: DeliveryState::Opened, at: now, reason: None, url: None };
        let new_receipts: Vec<Receipt> = ids.iter().map(receipt).collect();
        step!("receipts", receipts::apply(tx, project, &new_receipts, now).await.unwrap().reached.len());
        let news = |id: &Uuid| MessageEvent { message: *id, kind: "message.opened", at: now, reason: None, url: None };
        let news: Vec<MessageEvent> = ids.iter().map(news).collect();
        step!("notify", enqueue::for_messages(tx, project, &news, now).await.unwrap());
        let of_campaign = self.of_campaign();
        step!("cancel", {
            cancel(&*tx, project, &of_campaign, Counts::default(), now).await.unwrap();
            let ids: Vec<Uuid> = of_campaign.keys().copied().collect();
            let states = states(&*tx, project, &ids).await.unwrap();
            states.into_iter().filter(|of| of.status == DeliveryState::Cancelled).count()
        });
        done
    }
}

/// Inserts two days of messages and the messages of a campaign.
async fn fill(db: &Connection, sent: &Sent) {
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'automation', 'queued', now(), now() FROM generate_series(1, $3::bigint) n";
    for day in 0..2 {
        let from = sent.now.as_millisecond() - day * DAY_MS - ROWS;
        db.execute(sql, &[&sent.project, &from, &ROWS]).await.unwrap();
    }
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, occurrence, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($2::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, gen_random_uuid(), \
               'EMAIL', 'campaign', 'queued', $3, 1, now(), now() FROM generate_series(1, $4::bigint) n";
    let began = sent.began.as_millisecond();
    db.execute(sql, &[&sent.project, &began, &sent.campaign, &ROWS]).await.unwrap();
    let sql = "INSERT INTO webhook_endpoint (project_id, id, url, types, secrets, created_at, updated_at) \
               VALUES ($1, gen_random_uuid(), 'https://example.com', '{*}', '', now(), now())";
    db.execute(sql, &[&sent.project]).await.unwrap();
}

/// Returns the ID of the `n`th message created in a millisecond.
fn id(ms: i64, n: i64) -> Uuid {
    Uuid::parse_str(&format!("{ms:012x}70008{n:015x}")).unwrap()
}

#[tokio::test]
async fn statements_read_only_relevant_rows_without_statistics() {
    let fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let sql = "SELECT string_agg(format('ALTER TABLE %s SET (autovacuum_enabled = off)', relid), ';') \
               FROM pg_partition_tree('message') WHERE isleaf";
    let quiet: String = db.query_one(sql, &[]).await.unwrap().get(0);
    db.batch_execute(&quiet).await.unwrap();
    let now = fixture.clock.now();
    // IDs from the first to the last of both days, so that all rows are between the bounds.
    let wanted = |n: i64| {
        let (day, n) = (n % 2, n / 2 * (2 * ROWS / WANTED) + 1);
        id(now.as_millisecond() - day * DAY_MS - ROWS + n, n)
    };
    let sent = Sent {
        project: fixture.project,
        campaign: ids::fresh(now.as_millisecond()),
        ids: (0..WANTED).map(wanted).collect(),
        began: from_ms(now.as_millisecond() - DAY_MS / 2),
        now,
    };
    let mut sessions = Vec::new();
    for mode in MODES {
        let mut session = fixture.store.connection().await.unwrap();
        session.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        for _ in 0..TIMES {
            let mut tx = session.transaction().await.unwrap();
            sent.steps(&mut tx).await;
            tx.rollback().await.unwrap();
        }
        sessions.push(session);
    }
    fill(&db, &sent).await;
    let known = "SELECT count(*) FROM pg_class WHERE oid IN (SELECT relid FROM pg_partition_tree('message') WHERE isleaf) AND reltuples >= 0";
    for (mode, mut session) in MODES.into_iter().zip(sessions) {
        let mut tx = session.transaction().await.unwrap();
        for (name, count, [scanned, rows, pages]) in sent.steps(&mut tx).await {
            let is_near = scanned == 0 && rows <= 8 * WANTED && pages <= 60 * WANTED;
            assert!(is_near, "{mode}, {name}: {scanned} rows by scans, {rows} by indexes, {pages} pages");
            assert_eq!(count, WANTED, "{mode}, {name}");
        }
        tx.rollback().await.unwrap();
        assert_eq!(fixture.count(known).await, 0);
    }
}
