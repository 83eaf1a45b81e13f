//! A database and streams with running schedulers.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use bus::config::BusConfig;
use bus::{Bus, topology};
use bytes::Bytes;
use database::Store;
use futures_util::StreamExt;
use kernel::clock::{Clock, from_ms};
use kernel::env::Env;
use kernel::ids::{self, ProjectId};
use kernel::shutdown::Shutdown;
use runtime::startup::Connected;
use scheduler::config::SchedulerConfig;
use scheduler::{App, run};
use store_sending::timers::set::{NewTimer, set};
use testkit::{TestDatabase, TestNats, eventually};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub const SOON: Duration = Duration::from_secs(30);

pub struct Fixture {
    pub store: Store,
    pub bus: Bus,
    pub project: ProjectId,
    pub clock: Clock,
    env: Env,
    running: Vec<(Shutdown, JoinHandle<bool>)>,
    _nats: Option<TestNats>,
    _database: TestDatabase,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with([("SCHEDULER_TICK_MS", "20")]).await
    }

    pub async fn with<const N: usize>(more: [(&str, &str); N]) -> Self {
        let nats = TestNats::create().await;
        let (url, prefix) = (nats.url().to_owned(), nats.prefix().to_owned());
        Self::at(&url, &prefix, Some(nats), &more).await
    }

    pub async fn at(nats_url: &str, prefix: &str, nats: Option<TestNats>, more: &[(&str, &str)]) -> Self {
        let database = TestDatabase::create().await;
        let pairs = [
            ("NATS_URL", nats_url),
            ("STREAM_PREFIX", prefix),
            ("INGEST_MAX_BYTES", "1048576"),
            ("SEND_MAX_BYTES", "16777216"),
            ("DEAD_MAX_BYTES", "16777216"),
        ];
        let env = Env::from_pairs(pairs.into_iter().chain(more.iter().copied()));
        let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "test").await.unwrap();
        topology::ensure(&bus).await.unwrap();
        let (store, clock) = (database.store(), Clock::system());
        let project = ProjectId(ids::fresh(clock.now_ms()));
        Self { store, bus, project, clock, env, running: Vec::new(), _nats: nats, _database: database }
    }

    pub async fn app(&self) -> Arc<App> {
        let connected = Connected {
            store: self.store.clone(),
            bus: self.bus.clone(),
            ingest_stream: topology::ensure(&self.bus).await.unwrap(),
            clock: self.clock.clone(),
        };
        App::new(SchedulerConfig::from_env(&self.env).unwrap(), connected)
    }

    /// Starts one more scheduler.
    pub async fn run(&mut self) {
        let shutdown = Shutdown::new();
        self.running.push((shutdown.clone(), tokio::spawn(run(self.app().await, shutdown))));
    }

    pub async fn stop(&mut self) {
        for (shutdown, task) in self.running.drain(..) {
            shutdown.cancel();
            assert!(task.await.unwrap(), "not drained in time");
        }
    }

    /// Inserts timers of these runs, due in `in_ms` milliseconds.
    pub async fn timers(&self, project: ProjectId, runs: impl IntoIterator<Item = u128>, in_ms: i64) {
        let due_at = from_ms(self.clock.now_ms() + in_ms);
        let timer =
            |n: u128| NewTimer { project, run: Uuid::from_u128(n), wait_seq: 1, partition: (n % 8) as i16, due_at };
        let timers: Vec<NewTimer> = runs.into_iter().map(timer).collect();
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        set(&tx, &timers).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap().get(0)
    }

    pub async fn eventually_none(&self, sql: &str) {
        eventually(SOON, async || match self.count(sql).await {
            0 => Ok(()),
            left => Err(format!("{left} left")),
        })
        .await;
    }

    /// Returns all payloads in a stream, with their subjects.
    pub async fn payloads(&self, stream: &str, filter: &str) -> Vec<(String, Bytes)> {
        let config = pull::Config {
            filter_subject: filter.to_owned(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_mins(1),
            ..pull::Config::default()
        };
        let consumer: PullConsumer = self.bus.jetstream.create_consumer_on_stream(config, stream).await.unwrap();
        let pending = consumer.cached_info().num_pending as usize;
        let mut found = Vec::new();
        if pending > 0 {
            let mut messages = consumer.fetch().max_messages(pending).messages().await.unwrap();
            while let Some(message) = messages.next().await {
                let message = message.unwrap();
                found.push((message.subject.to_string(), message.payload.clone()));
            }
        }
        let name = consumer.cached_info().name.clone();
        self.bus.jetstream.delete_consumer_from_stream(&name, stream).await.unwrap();
        assert_eq!(found.len(), pending);
        found
    }
}
