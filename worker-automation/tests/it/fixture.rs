//! A project with workers, and helpers to publish items and query the database.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, Publisher, topology};
use bytes::Bytes;
use database::{Store, ingest_partitions};
use kernel::clock::{Clock, from_ms};
use kernel::env::Env;
use kernel::ids::{self, ProjectId};
use kernel::shutdown::Shutdown;
use prost::Message;
use runtime::startup::Connected;
use serde_json::{Value, json};
use testkit::{TestDatabase, TestNats};
use tokio::runtime::Runtime;
use uuid::Uuid;
use wire::event::{Body, Identify, IngestBatch, IngestItem, Timer, Track, VERSION, id_bytes};
use worker_automation::config::Config;
use worker_automation::{App, run};

/// Encrypts the secrets of projects.
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const WITHIN: Duration = Duration::from_secs(20);

/// A worker in its own runtime, so that a test can kill it.
pub struct Worker {
    runtime: Option<Runtime>,
    shutdown: Shutdown,
}

impl Worker {
    /// Simulates `kill -9`: no task runs again, and nothing is released.
    pub fn die(mut self) {
        self.runtime.take().expect("alive").shutdown_background();
    }

    pub async fn stop_now(self) {
        tokio::task::spawn_blocking(|| self.stop()).await.unwrap();
    }

    fn stop(mut self) {
        self.shutdown.cancel();
        self.runtime.take().expect("alive").shutdown_timeout(Duration::from_secs(10));
    }
}

pub struct Fixture {
    pub project: ProjectId,
    pub store: Store,
    pub bus: Bus,
    pub clock: Clock,
    pub stream_created_ms: i64,
    worker: Option<Worker>,
    received: AtomicI64,
    client: tokio_postgres::Client,
    database: TestDatabase,
    _nats: TestNats,
    env: Env,
}

impl Fixture {
    pub async fn start() -> Self {
        let mut fixture = Self::without_worker().await;
        fixture.worker = Some(fixture.start_worker());
        fixture
    }

    pub async fn without_worker() -> Self {
        let (database, nats) = (TestDatabase::create().await, TestNats::create().await);
        let env = Env::from_pairs([
            ("DATABASE_URL", database.url()),
            ("NATS_URL", nats.url()),
            ("STREAM_PREFIX", nats.prefix()),
            ("INGEST_MAX_BYTES", "67108864"),
            ("SEND_MAX_BYTES", "67108864"),
            ("DEAD_MAX_BYTES", "67108864"),
            ("PARTITION_LEASE_MS", "2000"),
            ("MASTER_KEY", KEY),
            ("OUTBOUND_ALLOW", "127.0.0.0/8"),
        ]);
        let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "test").await.unwrap();
        let stream = topology::ensure(&bus).await.unwrap();
        let store = database.store();
        ingest_partitions::ensure(&store.connection().await.unwrap(), stream.partitions, stream.created_ms)
            .await
            .unwrap();
        let clock = Clock::system();
        Self {
            project: ProjectId(Uuid::from_u128(42)),
            received: AtomicI64::new(clock.now_ms()),
            client: database.client().await,
            stream_created_ms: stream.created_ms,
            worker: None,
            _nats: nats,
            store,
            bus,
            clock,
            database,
            env,
        }
    }

    pub fn start_worker(&self) -> Worker {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (env, shutdown, store) = (self.env.clone(), Shutdown::new(), self.database.store());
        let stop = shutdown.clone();
        runtime.spawn(async move {
            let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "worker").await.unwrap();
            let ingest_stream = topology::ensure(&bus).await.unwrap();
            let connected = Connected { store, bus, ingest_stream, clock: Clock::system() };
            run(App { config: Config::from_env(&env).unwrap(), connected }, stop).await.unwrap();
        });
        Worker { runtime: Some(runtime), shutdown }
    }

    pub async fn stop(mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop_now().await;
        }
    }

    /// Returns a new receive time, later than all before.
    pub fn now_ms(&self) -> i64 {
        self.received.fetch_add(1, Ordering::Relaxed)
    }

    /// Publishes items in order, each to its user's partition.
    pub async fn publish(&self, items: Vec<IngestItem>) {
        let mut parts: std::collections::BTreeMap<u16, Vec<IngestItem>> = std::collections::BTreeMap::new();
        for item in items {
            let partition = item.user_key().unwrap().partition(self.project, 8);
            parts.entry(partition).or_default().push(item);
        }
        for (partition, items) in parts {
            self.publish_to(partition, items).await;
        }
    }

    pub async fn publish_to(&self, partition: u16, items: Vec<IngestItem>) {
        self.publish_raw(partition, IngestBatch { version: VERSION, items }.encode_to_vec()).await;
    }

    pub async fn publish_raw(&self, partition: u16, payload: Vec<u8>) {
        Publisher::new(self.bus.clone()).publish(self.bus.names.ingest(partition), payload.into()).await.unwrap();
    }

    /// Waits until everything published so far is applied.
    pub async fn applied(&self) {
        let stream = self.bus.jetstream.get_stream(self.bus.names.ingest_stream()).await.unwrap();
        for partition in 0..8_u16 {
            let subject = self.bus.names.ingest(partition);
            let Ok(newest) = stream.get_last_raw_message_by_subject(&subject).await else { continue };
            let sql = format!("SELECT applied_seq FROM ingest_partition WHERE partition = {partition}");
            testkit::eventually(WITHIN, async || {
                let applied = self.number(&sql).await;
                if applied >= newest.sequence as i64 { Ok(()) } else { Err(applied) }
            })
            .await;
        }
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.client
            .query_one(sql, &[])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
            .get::<_, Option<i64>>(0)
            .unwrap_or(0)
    }

    pub async fn text(&self, sql: &str) -> Option<String> {
        self.client.query_opt(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).and_then(|r| r.get(0))
    }

    pub async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    pub async fn eventually(&self, what: &str, sql: &str, expected: i64) {
        testkit::eventually(WITHIN, async || {
            let found = self.number(sql).await;
            if found == expected { Ok(()) } else { Err(format!("{what}: {found}")) }
        })
        .await;
    }

    /// Returns the reasons in the dead-letter stream.
    pub async fn dead_letters(&self) -> Vec<String> {
        let mut stream = self.bus.jetstream.get_stream(self.bus.names.dead_stream()).await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        let mut reasons = Vec::new();
        let first = if state.messages == 0 { state.last_sequence + 1 } else { state.first_sequence };
        for seq in first..=state.last_sequence {
            let message = stream.get_raw_message(seq).await.unwrap();
            reasons.push(message.headers.get(bus::dead_letter::REASON).unwrap().to_string());
        }
        reasons
    }

    /// Returns the IDs of messages in due chunks of the delivery queue, in order.
    pub async fn queued(&self) -> Vec<String> {
        let sql = "SELECT m::text FROM send_chunk, unnest(members) AS m \
                   WHERE due_at <= now() AND NOT is_audience AND NOT is_begun ORDER BY m";
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Saves an active automation triggered by an event.
    pub async fn automation(&self, event: &str, reentry: &str, steps: &[Value]) -> Uuid {
        self.automation_with(event, reentry, steps, json!({})).await
    }

    /// Like [`Fixture::automation`], with additional parts of the definition.
    pub async fn automation_with(&self, event: &str, reentry: &str, steps: &[Value], parts: Value) -> Uuid {
        let id = ids::fresh(self.clock.now_ms());
        let mut definition = json!({"triggerType": "EVENT", "triggerEvent": event, "reentry": reentry, "steps": steps});
        definition.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        self.execute(&format!(
            "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'automation'; \
             INSERT INTO automation (project_id, id, name, trigger_type, trigger_event, active, definition, created_at, updated_at, changed_seq) \
             SELECT '{p}', '{id}', '{event}', 'EVENT', '{event}', true, '{definition}', now(), now(), seq FROM change WHERE topic = 'automation'; \
             INSERT INTO automation_version (project_id, automation_id, version, definition, created_at) VALUES ('{p}', '{id}', 1, '{definition}', now()); COMMIT",
            p = self.project
        ))
        .await;
        id
    }

    pub async fn deactivate(&self, id: Uuid) {
        self.execute(&format!(
            "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'automation'; \
             UPDATE automation SET active = false, changed_seq = (SELECT seq FROM change WHERE topic = 'automation') WHERE id = '{id}'; COMMIT"
        ))
        .await;
    }

    fn item(&self, user: Option<&str>, anonymous: Option<&str>, body: Body) -> IngestItem {
        let received_ms = self.now_ms();
        IngestItem {
            project_id: id_bytes(self.project.0),
            id: id_bytes(ids::fresh(self.clock.now_ms())),
            received_ms,
            timestamp_ms: from_ms(received_ms).as_millisecond(),
            user_id: user.map(str::to_owned),
            anonymous_id: anonymous.map(str::to_owned),
            body: Some(body),
            ..IngestItem::default()
        }
    }

    /// Returns an event with arbitrary text as properties.
    pub fn raw_track(&self, user: &str, name: &str, properties: &str) -> IngestItem {
        let properties = Bytes::copy_from_slice(properties.as_bytes());
        self.item(Some(user), None, Body::Track(Track { name: name.to_owned(), properties }))
    }
}

pub fn track(f: &Fixture, user: &str, name: &str, properties: Value) -> IngestItem {
    f.raw_track(user, name, &properties.to_string())
}

pub fn anonymous_track(f: &Fixture, anonymous: &str, name: &str) -> IngestItem {
    IngestItem { user_id: None, anonymous_id: Some(anonymous.to_owned()), ..track(f, "", name, json!({})) }
}

pub fn identify(f: &Fixture, user: Option<&str>, anonymous: Option<&str>, properties: Value) -> IngestItem {
    f.item(user, anonymous, Body::Identify(Identify { properties: properties.to_string().into() }))
}

/// Returns the timer item for this wait of a run.
pub fn timer(f: &Fixture, run: Uuid, wait_seq: u32) -> IngestItem {
    f.item(None, None, Body::Timer(Timer { run_id: id_bytes(run), wait_seq }))
}
