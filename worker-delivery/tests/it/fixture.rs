//! A project with a mail server and delivery workers.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, Publisher, topology};
use bytes::Bytes;
use database::Store;
use database::config::DatabaseConfig;
use domain::message::{Channel, Lane};
use jiff::Timestamp;
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::ids::{self, ProjectId};
use kernel::shutdown::Shutdown;
use prost::Message as _;
use providers::stub::Stub;
use runtime::startup::Connected;
use secrets::MasterKeys;
use serde_json::{Value, json};
use store_projects::channels::{self, ChannelSettings};
use store_projects::projects::{self, ProjectSecrets, creators};
use store_sending::messages::insert::NewMessage;
use testkit::{TestDatabase, TestMailbox, TestNats, eventually};
use tokio::task::JoinHandle;
use uuid::Uuid;
use wire::event::id_bytes;
use wire::send::{DirectMessage, SendChunk};
use worker_delivery::channels::Channels;
use worker_delivery::config::DeliveryConfig;
use worker_delivery::{App, run};

use queue::CHUNK_HOLDS_MESSAGE;

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const SOON: Duration = Duration::from_secs(20);

pub struct Fixture {
    pub store: Store,
    pub bus: Bus,
    pub project: ProjectId,
    pub keys: MasterKeys,
    pub clock: Clock,
    /// Environment for a worker in its own process.
    pub env: Vec<(&'static str, String)>,
    /// Provider addresses for the workers in this process.
    pub addresses: Vec<(&'static str, String)>,
    running: Vec<(Shutdown, JoinHandle<bool>)>,
    _nats: Option<TestNats>,
    _database: Option<TestDatabase>,
}

/// A row of the ledger, with the columns that the tests use.
#[derive(Debug)]
pub struct Row {
    pub status: String,
    pub reason: Option<String>,
    pub attempt: i32,
    pub failures: i32,
    pub ambiguous: i32,
    /// A worker is sending it.
    pub is_begun: bool,
    /// When the message is due; only while no worker is sending it.
    pub due_at: Option<Timestamp>,
    pub subject: Option<String>,
    pub provider: Option<String>,
    pub user_id: Uuid,
}

impl Fixture {
    /// Creates a project without running workers and without mail settings.
    pub async fn new() -> Self {
        let database = TestDatabase::create().await;
        Self::on(database.config(), Some(database)).await
    }

    pub async fn on(config: DatabaseConfig, database: Option<TestDatabase>) -> Self {
        let nats = TestNats::create().await;
        let (url, prefix) = (nats.url().to_owned(), nats.prefix().to_owned());
        Self::at(config, database, &url, &prefix, Some(nats)).await
    }

    pub async fn at(
        config: DatabaseConfig,
        database: Option<TestDatabase>,
        nats_url: &str,
        prefix: &str,
        nats: Option<TestNats>,
    ) -> Self {
        let pairs = [("NATS_URL", nats_url), ("STREAM_PREFIX", prefix), ("SEND_MAX_BYTES", "16777216")];
        let more = [("INGEST_MAX_BYTES", "16777216"), ("DEAD_MAX_BYTES", "16777216")];
        let broker = BusConfig::from_env(&Env::from_pairs(pairs.into_iter().chain(more))).unwrap();
        let bus = Bus::connect(&broker, "test").await.unwrap();
        topology::ensure(&bus).await.unwrap();
        let (store, clock) = (Store::new(&config, "test").unwrap(), Clock::system());
        let keys = MasterKeys::parse(KEY).unwrap();
        let project = ProjectId(ids::fresh(clock.now_ms()));
        let mut db = store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        projects::insert(&tx, &keys, project, "Shop", &ProjectSecrets::random(), clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        let env = vec![
            ("DATABASE_URL", config.url.clone()),
            ("NATS_URL", nats_url.to_owned()),
            ("STREAM_PREFIX", prefix.to_owned()),
            ("MASTER_KEY", KEY.to_owned()),
            ("OUTBOUND_ALLOW", "127.0.0.0/8".to_owned()),
            ("ADMIN_ADDR", "127.0.0.1:0".to_owned()),
            ("DELIVERY_CONCURRENCY", "32".to_owned()),
        ];
        Self {
            store,
            bus,
            project,
            keys,
            clock,
            env,
            addresses: Vec::new(),
            running: Vec::new(),
            _nats: nats,
            _database: database,
        }
    }

    /// Creates a project with a mailbox and a running worker.
    pub async fn with_mailbox() -> (Self, TestMailbox) {
        let mailbox = TestMailbox::start().await;
        let mut fixture = Self::new().await;
        fixture.configure(mailbox.port(), json!({}), None).await;
        fixture.run().await;
        (fixture, mailbox)
    }

    /// Points the project's mail at a port of this machine.
    pub async fn configure(&self, port: u16, more: Value, password: Option<&str>) {
        let mut settings = json!({
            "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": port, "smtpSecurity": "none",
            "mailproviderFromEmail": "shop@example.com", "emailFromName": "Shop",
        });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let secrets: Vec<(&str, &str)> = password.map(|p| ("smtpPassword", p)).into_iter().collect();
        self.configure_channel(Channel::Email, settings, &secrets).await;
    }

    pub async fn configure_channel(&self, channel: Channel, settings: Value, secrets: &[(&str, &str)]) {
        let new = ChannelSettings {
            settings: settings.as_object().unwrap().clone(),
            secrets: secrets.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ..ChannelSettings::default()
        };
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        channels::put(&tx, &self.keys, self.project, channel, &new, self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub async fn run(&mut self) {
        self.run_with(Channels::default(), self.store.clone()).await;
    }

    pub async fn run_with_stub(&mut self, stub: Stub) {
        self.run_with(Channels::with_stub(stub), self.store.clone()).await;
    }

    /// Starts one more worker.
    pub async fn run_with(&mut self, channels: Channels, store: Store) {
        let ingest_stream = topology::ensure(&self.bus).await.unwrap();
        let own = [("MASTER_KEY", KEY), ("OUTBOUND_ALLOW", "127.0.0.0/8"), ("DELIVERY_CONCURRENCY", "32")];
        let env = Env::from_pairs(own.into_iter().chain(self.addresses.iter().map(|(n, v)| (*n, v.as_str()))));
        let config = DeliveryConfig::from_env(&env).unwrap();
        let connected = Connected { store, bus: self.bus.clone(), ingest_stream, clock: self.clock.clone() };
        let shutdown = Shutdown::new();
        let app: Arc<App> = App::new(config, connected, channels, shutdown.clone());
        self.running.push((shutdown, tokio::spawn(run(app))));
    }

    /// Signals the worker that was started first to stop.
    pub fn signal_first_to_stop(&self) {
        self.running.first().unwrap().0.cancel();
    }

    /// Stops every worker; all must drain.
    pub async fn stop(&mut self) {
        for (shutdown, task) in self.running.drain(..) {
            shutdown.cancel();
            assert!(task.await.unwrap(), "not drained in time");
        }
    }

    /// Creates another project in addition to [`Self::project`].
    pub async fn another_project(&self) -> ProjectId {
        let project = ProjectId(ids::fresh(self.clock.now_ms()));
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        projects::insert(&tx, &self.keys, project, "Bank", &ProjectSecrets::random(), self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        project
    }

    /// Records the account that created the project.
    pub async fn set_creator(&self, account: Uuid) {
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        creators::set(&tx, self.project, account).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub async fn user(&self, external_id: &str, email: Option<&str>, name: Option<&str>) -> Uuid {
        let id = ids::UserKey::External(external_id).internal_id(self.project);
        self.insert_user(id, email, name, None).await;
        id
    }

    pub async fn insert_user(&self, id: Uuid, email: Option<&str>, name: Option<&str>, merged_into: Option<Uuid>) {
        let sql = "INSERT INTO users (project_id, id, external_id, email, name, properties, merged_into, created_at, last_seen_at, updated_at) \
                   VALUES ($1, $2, 'x', $3, $4, '{\"plan\": \"pro\"}', $5, now(), now(), now())";
        let db = self.store.connection().await.unwrap();
        db.execute(sql, &[&self.project, &id, &email, &name, &merged_into]).await.unwrap();
    }

    pub async fn template(&self, subject: &str, body: &str) -> Uuid {
        let id = ids::fresh(self.clock.now_ms());
        let sql = "INSERT INTO template (project_id, id, name, channel, subject, body, created_at, updated_at, changed_seq) \
                   VALUES ($1, $2, 't', 'EMAIL', $3, $4, now(), now(), 1)";
        let db = self.store.connection().await.unwrap();
        db.execute(sql, &[&self.project, &id, &subject, &body]).await.unwrap();
        id
    }

    /// Returns a new message of an automation.
    pub fn message(&self, user_id: Uuid) -> NewMessage {
        let now = self.clock.now();
        NewMessage {
            project: self.project,
            id: ids::fresh(now.as_millisecond()),
            user_id,
            channel: Channel::Email,
            lane: Lane::Automation,
            template_id: None,
            content: json!({ "subject": "Hello", "body": "<p>Hello</p>" }),
            data: json!({}),
            automation_id: None,
            run_id: None,
            subscription_group_id: None,
            trace: None,
            created_at: now,
        }
    }

    pub fn direct(&self, users: &[Uuid], content: &Value) -> (Uuid, DirectMessage) {
        let now = self.clock.now_ms();
        let id = ids::fresh(now);
        let message = DirectMessage {
            project_id: id_bytes(self.project.0),
            message_id: id_bytes(id),
            user_ids: users.iter().map(|u| id_bytes(*u)).collect(),
            channel: "EMAIL".to_owned(),
            content: content.to_string().into(),
            accepted_ms: now,
            ..DirectMessage::default()
        };
        (id, message)
    }

    pub async fn send_direct(&self, messages: Vec<DirectMessage>) {
        let chunk = SendChunk { direct: messages, ..SendChunk::of(Vec::new()) };
        self.publish(chunk.encode_to_vec().into()).await;
    }

    /// Publishes to the stream of direct messages.
    pub async fn publish(&self, payload: Bytes) {
        let subject = self.bus.names.send(Channel::Email);
        Publisher::new(self.bus.clone()).publish(subject, payload).await.unwrap();
    }

    pub async fn row(&self, id: Uuid) -> Option<Row> {
        let sql = format!(
            "SELECT status, status_reason, attempt, failures, ambiguous, \
             EXISTS (SELECT FROM send_chunk c WHERE {CHUNK_HOLDS_MESSAGE} AND c.is_begun), \
             (SELECT max(c.due_at) FROM send_chunk c WHERE {CHUNK_HOLDS_MESSAGE} AND NOT c.is_begun), subject, provider, user_id \
             FROM message m WHERE project_id = $1 AND id = $2"
        );
        let row = self.store.connection().await.unwrap().query_opt(&sql, &[&self.project, &id]).await.unwrap()?;
        Some(Row {
            status: row.get(0),
            reason: row.get(1),
            attempt: row.get(2),
            failures: row.get(3),
            ambiguous: row.get(4),
            is_begun: row.get(5),
            due_at: row.get(6),
            subject: row.get(7),
            provider: row.get(8),
            user_id: row.get(9),
        })
    }

    /// Waits until `attempts` attempts of the message are settled and none is in flight. Returns the row.
    pub async fn settled(&self, id: Uuid, attempts: i32) -> Row {
        eventually(SOON, async || match self.row(id).await {
            Some(row) if row.attempt >= attempts && !row.is_begun => Ok(row),
            other => Err(other),
        })
        .await
    }

    /// Waits until the send stream is empty.
    pub async fn drained(&self) {
        self.drained_within(SOON).await;
    }

    pub async fn drained_within(&self, time: Duration) {
        eventually(time, async || {
            let mut stream =
                self.bus.jetstream.get_stream(self.bus.names.send_stream()).await.map_err(|e| e.to_string())?;
            match stream.info().await.map_err(|e| e.to_string())?.state.messages {
                0 => Ok(()),
                left => Err(format!("{left} messages left in the stream")),
            }
        })
        .await;
    }

    /// Returns the seconds until the message's next attempt.
    pub fn due_in(&self, row: &Row) -> Option<i64> {
        row.due_at.map(|d| (d.as_millisecond() - self.clock.now_ms()) / 1_000)
    }

    pub async fn channel_error(&self) -> Option<String> {
        self.error_of(Channel::Email).await
    }

    pub async fn error_of(&self, channel: Channel) -> Option<String> {
        let db = self.store.connection().await.unwrap();
        channels::get(&db, &self.keys, self.project, channel).await.unwrap().unwrap().error
    }
}
