//! Relation locks of statements on partitioned tables, with PostgreSQL's default settings. Its lock table holds about 6,400 locks of all
//! connections together.

mod peak;

use std::collections::BTreeMap;

use database::config::DatabaseConfig;
use database::filter::PageStart;
use database::months;
use database::{Connection, Store, migrate, time_partitions};
use domain::message::{Channel, DeliveryState, Lane, Queue};
use jiff::{SignedDuration, Timestamp};
use kernel::clock::{Clock, from_ms};
use kernel::ids::{self, ProjectId};
use local_servers::PostgresOptions;
use serde_json::{Value, json};
use store_profiles::events::export;
use store_profiles::events::list::{self as events, EventFilter};
use store_profiles::events::retention;
use store_profiles::segments::evaluate;
use store_projects::project_removals;
use store_sending::campaigns::occurrence::OccurrenceRows;
use store_sending::campaigns::sending;
use store_sending::campaigns::{counts as campaign_counts, winner};
use store_sending::dead_letters::{self, DeadFilter};
use store_sending::erasures;
use store_sending::messages::claim::load;
use store_sending::messages::counts;
use store_sending::messages::read::{self, MessageFilter};
use store_sending::messages::receipts::{self, Receipt};
use store_sending::messages::recipients::{self, LockMode};
use store_sending::messages::retention as message_retention;
use store_sending::messages::settle::{self, Settled, settle};
use store_sending::send_chunks::begin::{self, Recipients, SendingRow, TakeRequest};
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use store_sending::send_chunks::{self, NewChunk, Share, ready};
use testkit::PrivatePostgres;
use uuid::Uuid;

use peak::peak;

const DAY_MS: i64 = 86_400_000;
/// Days with a partition of their own, as in installations that started with daily partitions.
const DAYS: i64 = 401;
const DAYS_AHEAD: i64 = 14;
/// Concurrent connections.
const CONNECTIONS: usize = 10;
/// Maximum relations that one transaction locks with daily partitions: the tables and indexes of a month of events and messages.
const MAX_LOCKS_DAILY: i64 = 31 * (4 + 5) + 60;
/// The same with weekly partitions of events and monthly ones of messages.
const MAX_LOCKS: i64 = 6 * 4 + 5 + 40;
/// Relations that a statement without a time limit locks with those: 59 weeks of events.
const MAX_LOCKS_UNLIMITED: i64 = 59 * 4 + 40;

struct Ledger {
    server: PrivatePostgres,
    store: Store,
    project: ProjectId,
    user: Uuid,
    now: Timestamp,
}

impl Ledger {
    /// Starts a server with PostgreSQL's defaults and the product's tables.
    async fn new() -> Self {
        let options = PostgresOptions { max_connections: 100, shared_buffers_mb: 128, ..PostgresOptions::for_tests() };
        let server = PrivatePostgres::start_with(options).await;
        let config = DatabaseConfig { url: server.url(), pool_size: CONNECTIONS };
        let clock = Clock::system();
        migrate::run(&config, &clock).await.unwrap();
        let client = server.client().await;
        for (setting, default) in [("max_locks_per_transaction", "64"), ("max_connections", "100")] {
            let row = client.query_one("SELECT current_setting($1)", &[&setting]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), default);
        }
        let project = ProjectId(ids::fresh(clock.now_ms()));
        let store = Store::new(&config, "test").unwrap();
        Self { server, store, project, user: Uuid::from_u128(7), now: clock.now() }
    }

    async fn drop_partitions(&self) {
        let client = self.server.client().await;
        let sql = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent IN ('events'::regclass, 'message'::regclass)";
        for row in client.query(sql, &[]).await.unwrap() {
            client.batch_execute(&format!("DROP TABLE {}", row.get::<_, &str>(0))).await.unwrap();
        }
    }

    fn day_ms(&self, day: i64) -> i64 {
        let now_ms = self.now.as_millisecond();
        now_ms - now_ms.rem_euclid(DAY_MS) + (day - DAYS + DAYS_AHEAD) * DAY_MS
    }

    async fn create_daily_partitions(&self) {
        self.drop_partitions().await;
        let client = self.server.client().await;
        for table in ["events", "message"] {
            for day in 0..DAYS {
                let (from, to) = (ids::lower_bound(self.day_ms(day)), ids::lower_bound(self.day_ms(day + 1)));
                let sql =
                    format!("CREATE TABLE {table}_{day} PARTITION OF {table} FOR VALUES FROM ('{from}') TO ('{to}')");
                client.batch_execute(&sql).await.unwrap();
            }
        }
    }

    /// Creates partitions as the scheduler does, for the same number of days.
    async fn create_partitions(&self) {
        self.drop_partitions().await;
        let mut db = self.store.connection().await.unwrap();
        for day in (31..=DAYS - DAYS_AHEAD).step_by(7) {
            time_partitions::ensure(&mut db, self.day_ms(day)).await.unwrap();
        }
    }

    fn id(&self, day: i64, n: u8) -> Uuid {
        ids::timed(self.day_ms(day) + 3_600_000, [n; 10])
    }

    /// Returns the messages of one worker, one in each of ten months.
    fn messages(&self, worker: u8) -> Vec<Uuid> {
        (0..10).map(|nth| self.id(DAYS - DAYS_AHEAD - 1 - nth * 30, worker)).collect()
    }

    fn queue(&self, lane: Lane) -> Queue {
        Queue { project: self.project, channel: Channel::Email, lane }
    }

    /// Inserts ten queued messages for each worker, and an event for each day.
    async fn fill(&self) {
        let db = self.store.connection().await.unwrap();
        let message = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
                       SELECT $1, i, $2, 'EMAIL', 'automation', 'queued', $3, $3 FROM unnest($4::uuid[]) AS v (i)";
        for worker in 0..=u8::try_from(CONNECTIONS).unwrap() {
            let (past, messages) = (self.now - SignedDuration::from_hours(1), self.messages(worker));
            db.execute(message, &[&self.project, &self.user, &past, &messages]).await.unwrap();
            let chunk = |part| NewChunk::due(self.queue(Lane::Automation), part, past);
            let chunks: Vec<NewChunk> = send_chunks::parts(&messages).into_iter().map(chunk).collect();
            send_chunks::insert(&db, &chunks, self.now).await.unwrap();
        }
        let event = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                     SELECT $1, i, 'seen', $2, '{}', $3, $3 FROM unnest($4::uuid[]) AS v (i)";
        let days: Vec<Uuid> = (31..DAYS - DAYS_AHEAD).map(|day| self.id(day, 1)).collect();
        for days in days.chunks(20) {
            db.execute(event, &[&self.project, &self.user, &self.now, &days]).await.unwrap();
        }
    }

    fn later(&self) -> Timestamp {
        self.now + SignedDuration::from_mins(5)
    }

    async fn poll(&self) {
        let mut db = self.store.connection().await.unwrap();
        time_partitions::ensure(&mut db, self.now.as_millisecond()).await.unwrap();
        time_partitions::analyze_new(&db).await.unwrap();
        ready::queues(&db, self.now).await.unwrap();
        ready::backlog(&db, self.now).await.unwrap();
        ready::oldest(&db).await.unwrap();
        ready::overdue(&db, self.now, 100).await.unwrap();
    }

    /// Begins messages of each month and returns them to the queue.
    async fn take(&self) {
        for _ in 0..10 {
            self.take_batch().await;
        }
    }

    async fn take_batch(&self) {
        let (mut db, queue) = (self.store.connection().await.unwrap(), self.queue(Lane::Automation));
        let tx = db.transaction().await.unwrap();
        let want = TakeRequest { queue, max: 10, from: None, take_over: Some(&[]) };
        let taken = begin::take(&tx, want, self.now).await.unwrap();
        let messages: Vec<Uuid> = [taken.messages, taken.in_doubt].concat();
        settle::count_ambiguous(&tx, self.project, &messages, self.now).await.unwrap();
        let begun = NewChunk::begun(queue, messages.clone(), SignedDuration::from_mins(5));
        let chunk = send_chunks::insert(&tx, &[begun], self.now).await.unwrap()[0];
        let mut done = send_chunks::settle::lock(&tx, self.project, &[chunk]).await.unwrap();
        done.values_mut().for_each(|done| (0..messages.len()).for_each(|member| done.set(member)));
        send_chunks::settle::write(&tx, self.project, &done).await.unwrap();
        send_chunks::insert(&tx, &[NewChunk::due(queue, messages, self.now)], self.now).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Sends a campaign that started in the oldest partition, from its release to its cancellation.
    async fn send_campaign(&self) {
        let (mut db, campaign) = (self.store.connection().await.unwrap(), Uuid::from_u128(3));
        let (queue, of) = (self.queue(Lane::Campaign), CampaignRef { project: self.project, campaign });
        let sending_row = SendingRow {
            campaign,
            occurrence: 1,
            started_at: from_ms(self.day_ms(40)),
            name: "Sale".to_owned(),
            template_id: None,
            subscription_group_id: None,
        };
        sending::due(&db, self.now, 10, 10).await.unwrap();
        let tx = db.transaction().await.unwrap();
        let users: Vec<Uuid> = (0..10).map(|_| ids::fresh(self.now.as_millisecond())).collect();
        let parked = NewChunk {
            due_at: None,
            campaign: Some((campaign, 1)),
            audience: Some(Share::default()),
            ..NewChunk::due(queue, users.clone(), self.now)
        };
        send_chunks::insert(&tx, &[parked], self.now).await.unwrap();
        chunks::release(&tx, of, 5, self.now).await.unwrap();
        chunks::next_time(&tx, of, self.now).await.unwrap();
        winner::is_under_way(&tx, &OccurrenceRows::at(self.project, campaign, sending_row.started_at)).await.unwrap();
        recipients::lock(&tx, campaign, LockMode::Shared).await.unwrap();
        let audience = [Recipients { share: Share::default(), users, found_at: self.now }];
        let begun =
            recipients::insert(&tx, queue, (&sending_row, &audience), Some, LockMode::Shared, self.now).await.unwrap();
        let recipients::BeginResult::Messages(messages) = begun else { panic!("a user was merged meanwhile") };
        let ids = messages.iter().map(|message| message.id).collect();
        let retries = NewChunk { campaign: Some((campaign, 1)), ..NewChunk::due(queue, ids, self.now) };
        send_chunks::insert(&tx, &[retries], self.now).await.unwrap();
        chunks::park(&tx, of, self.now).await.unwrap();
        campaign_counts::report(&tx, self.project, campaign).await.unwrap();
        tx.commit().await.unwrap();
        let tx = db.transaction().await.unwrap();
        chunks::cancel(&tx, of, 10, self.now).await.unwrap();
        chunks::is_open(&tx, of).await.unwrap();
        tx.commit().await.unwrap();
        let tx = db.transaction().await.unwrap();
        dead_letters::replay(&tx, self.project, &DeadFilter::default(), 10, self.now).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Counts the users who had an event within a week.
    async fn evaluate(&self) {
        let db = self.store.connection().await.unwrap();
        self.count_users(&db, json!({"within": "7d", "count": {"gte": 2}})).await;
    }

    async fn count_users(&self, db: &Connection, did: Value) {
        let rules = json!([{"field": "event:seen", "operator": "did", "value": did}]);
        let rules = rules::parse(&rules, "rules").unwrap();
        let users = evaluate::satisfying(db, self.project, &rules, self.now).await.unwrap();
        evaluate::count(db, &users).await.unwrap();
    }

    /// Processes messages as a worker does, from loading them to the receipt.
    async fn send(&self, worker: u8) {
        let mut db = self.store.connection().await.unwrap();
        let states = read::states(&db, self.project, &self.messages(worker)).await.unwrap();
        assert_eq!(states.len(), 10);
        for id in self.messages(worker) {
            read::get(&db, self.project, id).await.unwrap().unwrap();
        }
        let wanted: BTreeMap<Uuid, bool> = self.messages(worker).into_iter().map(|id| (id, false)).collect();
        let loaded = load(&db, self.project, &wanted).await.unwrap();
        let ends: Vec<Settled> = loaded
            .iter()
            .map(|c| Settled {
                due_at: Some(self.later()),
                ..Settled::new(self.project, c.id, c.attempt, DeliveryState::Queued)
            })
            .collect();
        let ends: Vec<&Settled> = ends.iter().collect();
        for (_, ends) in months::split(&ends, |end| end.id) {
            let tx = db.transaction().await.unwrap();
            assert_eq!(settle(&tx, self.project, &ends, self.now).await.unwrap().len(), ends.len());
            tx.commit().await.unwrap();
        }
        let receipt = |id: &Uuid| Receipt {
            message: *id,
            state: DeliveryState::Delivered,
            at: self.now,
            reason: None,
            url: None,
        };
        for id in &self.messages(worker)[..2] {
            let tx = db.transaction().await.unwrap();
            receipts::apply(&tx, self.project, &[receipt(id)], self.now).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    async fn list(&self) {
        let mut db = self.store.connection().await.unwrap();
        for filter in [
            MessageFilter::default(),
            MessageFilter { user_ids: Some(vec![self.user]), ..MessageFilter::default() },
            MessageFilter { status: Some(DeliveryState::Opened), ..MessageFilter::default() },
        ] {
            read::list(&db, self.project, &filter, &PageStart::Offset(70), 50).await.unwrap();
            read::total(&db, self.project, &filter).await.unwrap();
        }
        let filter = EventFilter { user_ids: Some(vec![self.user]), names: None };
        events::list(&mut db, self.project, &filter, &PageStart::Offset(100), 50).await.unwrap();
        export::page(&mut db, self.project, &filter, Uuid::max(), 50).await.unwrap();
        dead_letters::list(&mut db, self.project, &DeadFilter::default(), &PageStart::Offset(0), 50).await.unwrap();
        dead_letters::total(&db, self.project, &DeadFilter::default()).await.unwrap();
        send_chunks::release_held(&db, self.project, Channel::Email, self.now).await.unwrap();
        counts::since(&db, self.project, self.now).await.unwrap();
    }

    async fn erase(&self) {
        let mut db = self.store.connection().await.unwrap();
        let unknown_user = [Uuid::from_u128(8)];
        let months = erasures::months(&db).await.unwrap();
        let tx = db.transaction().await.unwrap();
        assert!(!erasures::have_rows(&tx, self.project, &unknown_user, &months).await.unwrap());
        tx.commit().await.unwrap();
        for month in months {
            erasures::with_rows(&db, self.project, &unknown_user, month).await.unwrap();
            let tx = db.transaction().await.unwrap();
            erasures::remove_slice(&tx, self.project, &unknown_user, (self.now, Some(self.now)), month).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    async fn retain(&self) {
        let mut db = self.store.connection().await.unwrap();
        let before = from_ms(self.day_ms(200));
        let other = ProjectId(Uuid::from_u128(9));
        for month in months::of_table_before(&db, "events", before).await.unwrap() {
            let tx = db.transaction().await.unwrap();
            retention::remove_slice(&tx, other, month, before).await.unwrap();
            tx.commit().await.unwrap();
        }
        for month in months::of_table_before(&db, "message", before).await.unwrap() {
            let tx = db.transaction().await.unwrap();
            message_retention::remove_slice(&tx, other, month, before).await.unwrap();
            tx.commit().await.unwrap();
        }
        for part in project_removals::parts(&db).await.unwrap() {
            let tx = db.transaction().await.unwrap();
            project_removals::remove_slice(&tx, other, part).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    async fn all(&self, worker: u8) {
        self.poll().await;
        self.take().await;
        self.send(worker).await;
        self.send_campaign().await;
        self.evaluate().await;
        self.list().await;
        self.erase().await;
        self.retain().await;
    }
}

async fn assert_each_kind_is_bounded(ledger: &Ledger, most: i64) {
    let monitor = ledger.server.client().await;
    let held = [
        ("poll", peak(&monitor, async || ledger.poll().await).await),
        ("take", peak(&monitor, async || ledger.take().await).await),
        ("send", peak(&monitor, async || ledger.send(0).await).await),
        ("send campaign", peak(&monitor, async || ledger.send_campaign().await).await),
        ("evaluate", peak(&monitor, async || ledger.evaluate().await).await),
        ("list", peak(&monitor, async || ledger.list().await).await),
        ("erase", peak(&monitor, async || ledger.erase().await).await),
        ("retain", peak(&monitor, async || ledger.retain().await).await),
    ];
    println!("most relations locked by one connection: {held:?}");
    for (kind, locks) in held {
        assert!(locks > 0 && locks <= most, "{kind}: {locks} relations, at most {most} are expected");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_hundred_partitions_fit_the_default_lock_table_size() {
    let ledger = Ledger::new().await;
    ledger.create_daily_partitions().await;
    ledger.fill().await;

    // A statement without bounds on IDs locks all partitions and indexes: a third of the lock table.
    let client = ledger.server.client().await;
    client.batch_execute("BEGIN; SELECT count(*) FROM message WHERE updated_at <= now()").await.unwrap();
    let sql = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 5 * DAYS);
    client.batch_execute("ROLLBACK").await.unwrap();

    assert_each_kind_is_bounded(&ledger, MAX_LOCKS_DAILY).await;
    let workers = (1..=CONNECTIONS).map(|n| ledger.all(u8::try_from(n).unwrap()));
    futures_util::future::join_all(workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn year_of_weekly_and_monthly_partitions_needs_few_locks() {
    let ledger = Ledger::new().await;
    ledger.create_partitions().await;
    ledger.fill().await;
    assert_each_kind_is_bounded(&ledger, MAX_LOCKS).await;

    // A rule without a time limit reads all of them.
    let monitor = ledger.server.client().await;
    let unlimited = async || {
        let db = ledger.store.connection().await.unwrap();
        ledger.count_users(&db, json!({"count": {"gte": 2}})).await;
    };
    let locks = peak(&monitor, unlimited).await;
    assert!(locks > MAX_LOCKS && locks <= MAX_LOCKS_UNLIMITED, "{locks} relations");
}
