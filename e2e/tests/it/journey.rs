//! Runs the examples of docs/guide/automations.md with the real programs in this process. The test advances their clock, so
//! that ten days take seconds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, topology};
use database::{Store, ingest_partitions};
use e2e::Api;
use gateway::app::Parts;
use gateway::config::GatewayConfig;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::ids::{self, ProjectId};
use kernel::shutdown::Shutdown;
use runtime::startup::Connected;
use secrets::MasterKeys;
use serde_json::{Value, json};
use store_projects::api_keys::{self, KeyType};
use store_projects::projects::{self, ProjectSecrets};
use testkit::{TestDatabase, TestNats, eventually};
use tokio::net::TcpListener;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const SOON: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_hours(24);

/// Gateway, worker-automation and scheduler with one manual clock.
struct Programs {
    clock: Clock,
    api: Api,
    sql: tokio_postgres::Client,
    shutdown: Shutdown,
    _servers: (TestDatabase, TestNats),
}

impl Programs {
    async fn start() -> Self {
        let (database, nats) = (TestDatabase::create().await, TestNats::create().await);
        let env = Env::from_pairs([
            ("NATS_URL", nats.url()),
            ("STREAM_PREFIX", nats.prefix()),
            ("INGEST_MAX_BYTES", "16777216"),
            ("SEND_MAX_BYTES", "16777216"),
            ("DEAD_MAX_BYTES", "16777216"),
            ("PARTITION_LEASE_MS", "2000"),
            ("SCHEDULER_TICK_MS", "20"),
            ("MASTER_KEY", KEY),
        ]);
        let (clock, shutdown) = (Clock::manual(Clock::system().now()), Shutdown::new());
        let connected = async |name: &str| {
            let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), name).await.unwrap();
            let ingest_stream = topology::ensure(&bus).await.unwrap();
            Connected { store: database.store(), bus, ingest_stream, clock: clock.clone() }
        };
        let Connected { store, bus, ingest_stream, .. } = connected("gateway").await;
        let db = store.connection().await.unwrap();
        ingest_partitions::ensure(&db, ingest_stream.partitions, ingest_stream.created_ms).await.unwrap();
        drop(db);

        let config = scheduler::config::SchedulerConfig::from_env(&env).unwrap();
        let scheduler = scheduler::App::new(config, connected("scheduler").await);
        tokio::spawn(scheduler::run(scheduler, shutdown.clone()));
        let config = worker_automation::config::Config::from_env(&env).unwrap();
        let worker = worker_automation::App { config, connected: connected("worker").await };
        tokio::spawn(worker_automation::run(worker, shutdown.clone()));

        let config = GatewayConfig::from_env(&env).unwrap();
        let master_keys = MasterKeys::parse(KEY).unwrap();
        let [public, secret] = keys(&store, &master_keys, &clock).await;
        let parts = Parts { config, store, ingest_stream, bus, clock: clock.clone(), master_keys };
        let app = gateway::App::start(parts, &shutdown).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::new(&format!("http://{}", listener.local_addr().unwrap()), &public, &secret);
        tokio::spawn(gateway::serve(listener, app, shutdown.clone()));
        Self { clock, api, sql: database.client().await, shutdown, _servers: (database, nats) }
    }

    /// Creates a template. `sent` reports it by its name.
    async fn template(&self, name: &str) -> String {
        let new = json!({ "name": name, "channel": "EMAIL", "subject": name, "body": name });
        self.api.create("/templates", &new).await
    }

    async fn track(&self, user: &str, event: &str) {
        let event = json!({ "event": event, "user_id": user, "properties": {} });
        self.api.track("/events", &event).await.expect(202);
    }

    /// Returns the messages sent so far, as `user:template`.
    async fn sent(&self) -> String {
        let sql = "SELECT coalesce(string_agg(u.external_id || ':' || t.name, ' ' ORDER BY u.external_id, m.created_at), '') \
                   FROM message m JOIN users u ON u.id = m.user_id JOIN template t ON t.id = m.template_id";
        self.sql.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn until_sent(&self, expected: &str) {
        eventually(SOON, async || match self.sent().await {
            sent if sent == expected => Ok(()),
            sent => Err(sent),
        })
        .await;
    }

    async fn until(&self, sql: &str, expected: i64) {
        eventually(SOON, async || match self.sql.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) {
            found if found == expected => Ok(()),
            found => Err(format!("{sql}: {found}")),
        })
        .await;
    }
}

/// Creates a project with a public and a secret key.
async fn keys(store: &Store, master_keys: &MasterKeys, clock: &Clock) -> [String; 2] {
    let now = clock.now();
    let project = ProjectId(ids::fresh(now.as_millisecond()));
    let mut db = store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    projects::insert(&tx, master_keys, project, "Test", &ProjectSecrets::random(), now).await.unwrap();
    let types = [KeyType::Public, KeyType::Secret];
    let keys = types.map(api_keys::random_key);
    for (key_type, key) in types.into_iter().zip(&keys) {
        api_keys::insert(&tx, project, ids::fresh(now.as_millisecond()), key_type, "test", key, now).await.unwrap();
    }
    tx.commit().await.unwrap();
    keys
}

/// Returns an example from the documentation, with IDs in place of its placeholders.
fn example(heading: &str, ids: &[(&str, &str)]) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/automations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let section = page
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("docs/guide/automations.md has no section {heading}"));
    let example = section.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let whole = ids.iter().fold(example.to_owned(), |text, (placeholder, id)| text.replace(placeholder, id));
    serde_json::from_str(&whole).unwrap_or_else(|error| panic!("{error}: {whole}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn welcome_journey_takes_every_path() {
    let programs = Programs::start().await;
    let (welcome, reminder) = (programs.template("welcome").await, programs.template("reminder").await);
    let discount = programs.template("discount").await;
    let ids = [("$WELCOME", &*welcome), ("$REMINDER", &*reminder), ("$DISCOUNT", &*discount)];
    let journey = example("From a welcome to the first order", &ids);
    let automation = programs.api.create("/automations", &journey).await;
    // Users who order early, after the reminder, and never. A second sign-up sends no second welcome.
    for user in ["early", "late", "never"] {
        programs.track(user, "signed_up").await;
    }
    programs.until_sent("early:welcome late:welcome never:welcome").await;
    programs.clock.advance(DAY);
    programs.track("early", "order_completed").await;
    programs.track("never", "signed_up").await;
    programs.until("SELECT count(*) FROM events", 5).await;
    programs.clock.advance(Duration::from_secs(2 * 86_400 - 1));
    programs.track("late", "looked_around").await;
    programs.until("SELECT count(*) FROM events", 6).await;
    assert_eq!(programs.sent().await, "early:welcome late:welcome never:welcome");

    programs.clock.advance(Duration::from_secs(1));
    programs.until_sent("early:welcome late:welcome late:reminder never:welcome never:reminder").await;
    programs.until("SELECT count(*) FROM run WHERE status = 'completed'", 1).await;
    programs.clock.advance(2 * DAY);
    programs.track("late", "order_completed").await;
    programs.until("SELECT count(*) FROM run WHERE status = 'completed'", 2).await;
    programs.clock.advance(5 * DAY);
    let all = "early:welcome late:welcome late:reminder never:welcome never:reminder never:discount";
    programs.until_sent(all).await;
    programs.until("SELECT count(*) FROM run WHERE status = 'completed'", 3).await;
    programs.until("SELECT count(*) FROM timer", 0).await;
    assert_eq!(programs.sent().await, all);
    let report = programs.api.get(&format!("/automations/{automation}/report")).await.expect(200);
    assert_eq!(
        (&report["entered"], &report["completed"], &report["converted"]),
        (&json!(3), &json!(3), &json!(2)),
        "{report}"
    );
    programs.shutdown.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn birthday_automation_runs_at_nine_local_time() {
    let programs = Programs::start().await;
    let birthday = programs.template("birthday").await;
    // Five days from now, in a birth year that has the same day.
    let today = programs.clock.now().to_zoned(TimeZone::UTC);
    let day = today.date().checked_add(5.days()).unwrap();
    let born = day.checked_sub(28.years()).unwrap().to_string();
    let identify = async |user: &str, properties: Value| {
        programs.api.track("/users/identify", &json!({ "user_id": user, "properties": properties })).await.expect(202);
    };
    // One user before the automation is created, one after it.
    identify("east", json!({ "birthday": born, "timezone": "Asia/Tokyo" })).await;
    identify("none", json!({ "birthday": "in May" })).await;
    programs.until("SELECT count(*) FROM users", 2).await;
    programs.api.create("/automations", &example("Every birthday", &[("$BIRTHDAY", &birthday)])).await;
    identify("west", json!({ "birthday": born, "timezone": "America/New_York" })).await;
    identify("other", json!({ "birthday": "1990-06-01" })).await;
    identify("other", json!({ "birthday": null })).await;
    programs.until("SELECT count(*) FROM date_due", 2).await;
    programs.until("SELECT count(*) FROM automation WHERE dates_since IS NOT NULL", 0).await;

    let nine = |zone: &str| day.at(9, 0, 0, 0).to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp();
    let advance_to = |at: jiff::Timestamp| {
        programs.clock.advance(Duration::try_from(at.duration_since(programs.clock.now())).unwrap());
    };
    advance_to(nine("Asia/Tokyo"));
    programs.until_sent("east:birthday").await;
    advance_to(nine("America/New_York"));
    programs.until_sent("east:birthday west:birthday").await;
    // The next occurrence is a year later.
    let next = "SELECT count(*) FROM date_due WHERE due_at > now() + interval '360 days'";
    programs.until(next, 2).await;
    assert_eq!(programs.sent().await, "east:birthday west:birthday");
    programs.shutdown.cancel();
}
