//! A running gateway with projects, and a client that speaks JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use database::ingest_partitions;
use gateway::App;
use gateway::config::GatewayConfig;
use gateway::limits::permits::Permit;
use kernel::env::Env;
use serde_json::Value;
use testkit::{TestDatabase, TestNats};
use wire::event::IngestItem;

use crate::http::Call;
use crate::setup::{self, MB, Tenant, bus_config};

pub struct Gateway {
    pub app: Arc<App>,
    pub sql: tokio_postgres::Client,
    pub bus: Bus,
    served: setup::Gateway,
    /// Its own servers, dropped with it.
    _servers: Option<(TestDatabase, TestNats)>,
}

#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub body: Value,
}

impl ApiResponse {
    /// Returns the field names in `details`.
    pub fn fields(&self) -> Vec<&str> {
        let details = self.body["details"].as_array().into_iter().flatten();
        details.filter_map(|detail| detail["field"].as_str()).collect()
    }

    /// Returns the body; panics if the status differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

impl Gateway {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a gateway with environment variables.
    pub async fn start_with(variables: &[(&str, &str)]) -> Self {
        let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
        let gateway = Self::start_as(&database, &nats, variables).await;
        Self { _servers: Some((database, nats)), ..gateway }
    }

    /// Starts a gateway on servers that are shared with other gateways.
    pub async fn start_on(database: &TestDatabase, nats: &TestNats) -> Self {
        Self::start_as(database, nats, &[]).await
    }

    async fn start_as(database: &TestDatabase, nats: &TestNats, variables: &[(&str, &str)]) -> Self {
        let config = GatewayConfig::from_env(&Env::from_pairs(variables.iter().copied())).unwrap();
        let bus = bus_config(nats.url(), nats.prefix(), 16 * MB);
        let served = setup::Gateway::start(&database.config(), &bus, config).await;
        let (app, bus) = (served.app.clone(), served.app.bus.clone());
        Self { app, sql: database.client().await, bus, served, _servers: None }
    }

    /// Creates a project with a public and a secret key.
    pub async fn project(&self) -> Tenant {
        setup::tenant(&self.app.store, 100_000).await
    }

    pub fn address(&self) -> SocketAddr {
        self.served.addr
    }

    /// Stops the gateway; returns once every request is answered.
    pub async fn stop(&mut self) {
        self.served.shutdown.cancel();
        (&mut self.served.serving).await.unwrap();
    }

    /// Starts an unauthenticated call to a path below `/api/v1`.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.served.addr, method, &format!("/api/v1{path}"))
    }

    /// Sends a request with a key to a path below `/api/v1`.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        key: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> ApiResponse {
        let call = self.served.call(method, path, key);
        let call = headers.iter().fold(call, |call: Call, (name, value)| call.header(name, value));
        let response = call.send(body).await;
        ApiResponse { status: response.status, body: response.json() }
    }

    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.served.addr
    }

    /// Marks everything up to `seq` as recorded, present or future. End-to-end tests cover recording itself.
    pub async fn applied_up_to(&self, seq: i64) {
        let stream = &self.app.ingest.stream;
        let db = self.app.store.connection().await.unwrap();
        ingest_partitions::ensure(&db, stream.partitions, stream.created_ms).await.unwrap();
        db.execute("UPDATE ingest_partition SET applied_seq = $1", &[&seq]).await.unwrap();
    }

    /// Returns the items in the stream.
    pub async fn items(&self) -> Vec<IngestItem> {
        self.served.stored().await
    }

    /// Sends a `GET` with the project's secret key.
    pub async fn get(&self, project: &Tenant, path: &str) -> ApiResponse {
        self.send("GET", path, &project.secret, &[], "").await
    }

    pub async fn post(&self, project: &Tenant, path: &str, body: &Value) -> ApiResponse {
        self.send("POST", path, &project.secret, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, project: &Tenant, path: &str, body: &Value) -> ApiResponse {
        self.send("PUT", path, &project.secret, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn delete(&self, project: &Tenant, path: &str) -> ApiResponse {
        self.send("DELETE", path, &project.secret, &[], "").await
    }

    /// Reads a list to its end by cursor; returns the `field` of its items, page by page.
    pub async fn pages(&self, project: &Tenant, path: &str, list: &str, field: &str) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let joiner = if path.contains('?') { '&' } else { '?' };
            let suffix = cursor.map(|c| format!("{joiner}cursor={c}")).unwrap_or_default();
            let body = self.get(project, &format!("{path}{suffix}")).await.expect(200);
            pages.push(texts(&body[list], field));
            match body["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return pages,
            }
        }
    }
}

/// Acquires the project's whole share of the rendering permits.
pub async fn held_renderings(gateway: &Gateway, project: &Tenant) -> [Option<Permit>; 2] {
    let acquire = || gateway.app.renderings.acquire(project.id.into(), Duration::ZERO);
    let held = [acquire().await, acquire().await];
    assert!(held.iter().all(Option::is_some));
    held
}

/// Returns a field of every item of a list.
pub fn texts(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap_or("").to_owned()).collect()
}
