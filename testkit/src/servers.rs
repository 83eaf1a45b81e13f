//! The shared servers: the first test process starts them, all others find them.

use std::path::Path;

use local_servers::install;
use local_servers::{
    LocalError, NatsOptions, NatsServer, PostgresOptions, PostgresServer, RedisOptions, RedisServer, Tools,
};
use tokio::sync::OnceCell;

use crate::{must, test_dir};

static TOOLS: OnceCell<Tools> = OnceCell::const_new();
static POSTGRES: OnceCell<PostgresServer> = OnceCell::const_new();
static NATS: OnceCell<NatsServer> = OnceCell::const_new();
static REDIS: OnceCell<RedisServer> = OnceCell::const_new();

/// Databases in the shared Redis, used by tests round-robin.
pub(crate) const REDIS_DATABASES: u32 = 1024;

/// Returns the servers' programs; installs missing ones.
pub(crate) async fn tools() -> &'static Tools {
    TOOLS
        .get_or_init(|| async {
            let _lock = test_dir::lock("install").await;
            let install_dir = test_dir::root().join("bin");
            let found = tokio::task::spawn_blocking(move || {
                install::ensure(&install_dir, &|line| eprintln!("testkit: {line}"))
            });
            must("the test servers", must("finding the test servers", found.await))
        })
        .await
}

/// Returns the shared PostgreSQL, and starts it if necessary. Panics with the reason on failure.
pub async fn postgres() -> &'static PostgresServer {
    POSTGRES
        .get_or_init(|| async {
            let _lock = test_dir::lock("postgres").await;
            let dir = test_dir::root().join("postgres");
            if let Some(running) = must("the test PostgreSQL", PostgresServer::attach(&dir)) {
                return running;
            }
            let bin = &tools().await.postgres;
            let server =
                must("the test PostgreSQL", PostgresServer::start(bin, &dir, &PostgresOptions::for_tests()).await);
            must("clearing the test PostgreSQL", crate::session::drop_leftovers(&server).await);
            server
        })
        .await
}

/// Returns the shared NATS, and starts it if necessary. Panics with the reason on failure.
pub async fn nats() -> &'static NatsServer {
    NATS.get_or_init(|| async {
        let _lock = test_dir::lock("nats").await;
        let dir = test_dir::root().join("nats");
        if let Some(running) = must("the test NATS", NatsServer::attach(&dir)) {
            return running;
        }
        let tool = &tools().await.nats;
        // No server uses the directory now, so the data is left from an earlier run.
        let _ = std::fs::remove_dir_all(dir.join("data"));
        // Each test's streams reserve their maximum size, even if they are nearly empty.
        let options = NatsOptions { max_file_store: 1 << 50, ..NatsOptions::default() };
        must("the test NATS", NatsServer::start(tool, &dir, &options).await)
    })
    .await
}

/// Returns the shared Redis, and starts it if necessary. Panics with the reason on failure.
pub async fn redis() -> &'static RedisServer {
    REDIS
        .get_or_init(|| async {
            let _lock = test_dir::lock("redis").await;
            let dir = test_dir::root().join("redis");
            if let Some(running) = must("the test Redis", RedisServer::attach(&dir)) {
                return running;
            }
            let Some(tool) = &tools().await.redis else {
                panic!("the tests need Redis 6 or newer: install redis-server")
            };
            let options = RedisOptions { databases: REDIS_DATABASES, ..RedisOptions::default() };
            must("the test Redis", RedisServer::start(tool, &dir, &options).await)
        })
        .await
}

/// Starts all three.
pub async fn start() {
    tokio::join!(postgres(), nats(), redis());
}

/// Stops the shared servers, and private ones that a killed test left behind.
pub async fn stop() -> Result<(), LocalError> {
    let root = test_dir::root();
    if let Some(server) = RedisServer::attach(&root.join("redis"))? {
        server.kill().await;
    }
    if let Some(server) = NatsServer::attach(&root.join("nats"))? {
        server.stop().await?;
    }
    if let Some(server) = PostgresServer::attach(&root.join("postgres"))? {
        server.stop().await?;
    }
    for entry in std::fs::read_dir(root.join("private")).into_iter().flatten().flatten() {
        stop_private(&entry.path()).await?;
    }
    Ok(())
}

/// Kills the server in a private directory, and removes the directory and the disk with its data.
pub(crate) async fn stop_private(dir: &Path) -> Result<(), LocalError> {
    if let Some(process) = local_servers::Process::attach(&dir.join("pid"))? {
        // PostgreSQL takes this as an immediate shutdown of all its processes; the other servers end as well.
        process.stop_by(local_servers::process::Signal::QUIT, std::time::Duration::from_secs(5)).await;
    }
    if let Err(error) = crate::private::unmount(&dir.join("data")) {
        eprintln!("could not unmount the disk of {}: {error}", dir.display());
    }
    PostgresServer::remove(dir)
}
