//! The three servers of a run directory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bus::config::BusConfig;
use bus::{Bus, Publisher};
use bytes::Bytes;
use kernel::env::Env;
use local_servers::{
    FoundTools, NatsOptions, NatsServer, PostgresOptions, PostgresServer, RedisOptions, RedisServer, Tools, install,
    tools,
};

use crate::args::RedisMode;
use crate::run_dir::RunDir;
use crate::state::Servers;
use progress::Steps;

pub const POSTGRES: &str = "postgres";
pub const NATS: &str = "nats";
pub const REDIS: &str = "redis";
pub const DATABASE: &str = "rekindle";

/// Finds the server programs and installs missing ones. Redis is included only if it is wanted.
pub async fn find_or_install(dir: &RunDir, redis: RedisMode, progress: &Steps) -> Result<Tools> {
    progress.step("finding PostgreSQL, NATS and Redis");
    let (bin, shown) = (dir.bin(), progress.clone());
    let mut tools = tokio::task::spawn_blocking(move || find_blocking(bin, redis, &shown)).await??;
    if redis == RedisMode::Off {
        tools.redis = None;
    }
    Ok(tools)
}

fn find_blocking(bin: PathBuf, redis: RedisMode, progress: &Steps) -> Result<Tools> {
    match tools::find(&bin) {
        FoundTools { postgres: Some(postgres), nats: Some(nats), redis: found, .. }
            if found.is_some() || redis == RedisMode::Off =>
        {
            Ok(Tools { postgres, nats, redis: found })
        }
        _ => Ok(install::ensure(&bin, &|line| progress.step(line))?),
    }
}

/// Starts the servers that do not run, and returns once all are ready. Redis may fail: the system works without it.
pub async fn start(dir: &RunDir, tools: &Tools, progress: &Steps) -> Result<Servers> {
    let (postgres_dir, nats_dir) = (dir.server(POSTGRES), dir.server(NATS));
    let (postgres_options, nats_options) = (PostgresOptions::default(), NatsOptions::default());
    let (postgres, nats, redis) = tokio::join!(
        PostgresServer::start(&tools.postgres, &postgres_dir, &postgres_options),
        NatsServer::start(&tools.nats, &nats_dir, &nats_options),
        start_redis(dir, tools, progress),
    );
    let (postgres, mut nats) = (postgres?, nats?);
    if !Box::pin(accepts_writes(&nats)).await {
        // A server whose disk was full refuses writes until it is restarted.
        progress.warn("NATS accepts no writes; restarting it");
        nats.stop().await?;
        nats = NatsServer::start(&tools.nats, &nats_dir, &nats_options).await?;
    }
    postgres.create_database(DATABASE).await?;
    Ok(Servers {
        database: postgres.url(DATABASE),
        nats: nats.url(),
        redis: redis.map(|r| r.url()).unwrap_or_default(),
    })
}

/// Returns whether the ingest stream, if it exists, accepts a message.
async fn accepts_writes(nats: &NatsServer) -> bool {
    let tried = async {
        let (url, prefix) = (nats.url(), Env::from_process().text("STREAM_PREFIX", ""));
        let env = Env::from_pairs([("NATS_URL", url.as_str()), ("STREAM_PREFIX", prefix.as_str())]);
        let bus = Bus::connect(&BusConfig::from_env(&env)?, "rekindle-up").await?;
        if bus.jetstream.get_stream(bus.names.ingest_stream()).await.is_err() {
            return Ok(());
        }
        Publisher::new(bus.clone()).publish(bus.names.ingest_canary(), Bytes::new()).await?;
        anyhow::Ok(())
    };
    matches!(tokio::time::timeout(Duration::from_secs(8), tried).await, Ok(Ok(())))
}

async fn start_redis(dir: &RunDir, tools: &Tools, progress: &Steps) -> Option<RedisServer> {
    let without = "each gateway then enforces rate limits by itself";
    let Some(tool) = &tools.redis else {
        stop_redis(dir).await;
        progress.warn(&format!("continuing without Redis: {without}"));
        return None;
    };
    match RedisServer::start(tool, &dir.server(REDIS), &RedisOptions::default()).await {
        Ok(server) => Some(server),
        Err(error) => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            progress.warn(&format!("continuing without Redis ({first}): {without}"));
            None
        }
    }
}

/// Stops the Redis server of an earlier `up` when it is no longer wanted.
async fn stop_redis(dir: &RunDir) {
    if let Ok(Some(server)) = RedisServer::attach(&dir.server(REDIS)) {
        let _ = server.stop().await;
    }
}

/// Returns the URL of the database that runs in a directory.
pub fn attached_database(dir: &RunDir) -> Result<String> {
    let server = PostgresServer::attach(&dir.server(POSTGRES))?;
    let server = server.with_context(|| format!("nothing is running in {}", dir.path().display()))?;
    Ok(server.url(DATABASE))
}
