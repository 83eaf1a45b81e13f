//! A gateway on port 0, with a project and its keys.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, topology};
use database::Store;
use database::config::DatabaseConfig;
use gateway::App;
use gateway::app::Parts;
use gateway::config::GatewayConfig;
use kernel::clock::Clock;
use kernel::ids::{ProjectId, fresh};
use kernel::shutdown::Shutdown;
use secrets::MasterKeys;
use store_projects::api_keys::{self, KeyType};
use store_projects::projects::{self, ProjectSecrets};
use testkit::{TestDatabase, TestNats};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use wire::event::{IngestBatch, IngestItem};

use crate::http::{Call, HttpResponse};

pub const MB: i64 = 1 << 20;

/// A project with a key of each type.
#[derive(Clone)]
pub struct Tenant {
    pub id: ProjectId,
    pub secret: String,
    pub public: String,
}

pub fn master_keys() -> MasterKeys {
    MasterKeys::parse(&"42".repeat(32)).unwrap()
}

pub async fn tenant(store: &Store, rate_limit: i32) -> Tenant {
    let now = Clock::system().now();
    let id = ProjectId(fresh(now.as_millisecond()));
    let mut db = store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    projects::insert(&tx, &master_keys(), id, "Test", &ProjectSecrets::random(), now).await.unwrap();
    tx.execute("UPDATE project SET rate_limit = $2 WHERE project_id = $1", &[&id, &rate_limit]).await.unwrap();
    tx.commit().await.unwrap();
    let (secret, public) = (key(store, id, KeyType::Secret).await, key(store, id, KeyType::Public).await);
    Tenant { id, secret, public }
}

/// Creates a key of a project.
pub async fn key(store: &Store, project: ProjectId, key_type: KeyType) -> String {
    let now = Clock::system().now();
    let key = api_keys::random_key(key_type);
    let mut db = store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    api_keys::insert(&tx, project, fresh(now.as_millisecond()), key_type, "test", &key, now).await.unwrap();
    tx.commit().await.unwrap();
    key
}

pub fn bus_config(url: &str, prefix: &str, ingest_max_bytes: i64) -> BusConfig {
    BusConfig {
        url: url.to_owned(),
        ca_file: None,
        stream_prefix: prefix.to_owned(),
        partitions: 4,
        replicas: 1,
        ingest_max_bytes,
        send_max_bytes: 16 * MB,
        dead_max_bytes: 16 * MB,
    }
}

/// A running gateway.
pub struct Gateway {
    pub app: Arc<App>,
    pub addr: SocketAddr,
    pub shutdown: Shutdown,
    pub serving: JoinHandle<()>,
}

impl Gateway {
    pub async fn start(database: &DatabaseConfig, bus: &BusConfig, config: GatewayConfig) -> Self {
        let bus = Bus::connect(bus, "test").await.unwrap();
        let parts = Parts {
            config,
            store: Store::new(database, "test").unwrap(),
            ingest_stream: topology::ensure(&bus).await.unwrap(),
            bus,
            clock: Clock::system(),
            master_keys: master_keys(),
        };
        let shutdown = Shutdown::new();
        let app = App::start(parts, &shutdown).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let serving = tokio::spawn(gateway::serve(listener, app.clone(), shutdown.clone()));
        Self { app, addr, shutdown, serving }
    }

    /// Starts a call below `/api/v1` with a key.
    pub fn call(&self, method: &str, path: &str, key: &str) -> Call {
        Call::new(self.addr, method, &format!("/api/v1{path}")).header("x-api-key", key)
    }

    pub async fn post(&self, path: &str, key: &str, body: impl Into<bytes::Bytes>) -> HttpResponse {
        self.call("POST", path, key).header("content-type", "application/json").send(body).await
    }

    /// Returns every item of the ingest stream, in message order.
    pub async fn stored(&self) -> Vec<IngestItem> {
        let bus = &self.app.bus;
        let mut stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        let mut items = Vec::new();
        if state.messages == 0 {
            return items;
        }
        for seq in state.first_sequence..=state.last_sequence {
            let message = stream.get_raw_message(seq).await.unwrap();
            items.extend(IngestBatch::decode_checked(message.payload).unwrap().items);
        }
        items
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A gateway on the shared servers, together with the guards that it needs.
pub struct Fixture {
    pub gateway: Gateway,
    pub tenant: Tenant,
    pub store: Store,
    _nats: TestNats,
    _database: TestDatabase,
}

pub async fn fixture() -> Fixture {
    fixture_with(64 * MB, 100_000).await
}

pub async fn fixture_with(ingest_max_bytes: i64, rate_limit: i32) -> Fixture {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let store = database.store();
    let tenant = tenant(&store, rate_limit).await;
    let bus = bus_config(nats.url(), nats.prefix(), ingest_max_bytes);
    let gateway = Gateway::start(&database.config(), &bus, GatewayConfig::default()).await;
    Fixture { gateway, tenant, store, _nats: nats, _database: database }
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
