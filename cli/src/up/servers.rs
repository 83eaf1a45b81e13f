//! The three servers of a run directory.

use std::path::PathBuf;

use anyhow::{Context, Result};
use shared::local::{
    Found, NatsOptions, NatsServer, PostgresOptions, PostgresServer, RedisOptions, RedisServer, Tools, tools,
};

use crate::args::RedisWish;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::state::Servers;

pub const POSTGRES: &str = "postgres";
pub const NATS: &str = "nats";
pub const REDIS: &str = "redis";
pub const DATABASE: &str = "rekindle";

/// The programs of the servers. What is missing is installed; Redis only where it is wanted.
pub async fn find_or_install(dir: &RunDir, redis: RedisWish, progress: &Progress) -> Result<Tools> {
    progress.step("looking for PostgreSQL, NATS and Redis");
    let (bin, shown) = (dir.bin(), progress.clone());
    let mut tools = tokio::task::spawn_blocking(move || find_blocking(bin, redis, &shown)).await??;
    if redis == RedisWish::Off {
        tools.redis = None;
    }
    Ok(tools)
}

fn find_blocking(bin: PathBuf, redis: RedisWish, progress: &Progress) -> Result<Tools> {
    match tools::find(&bin) {
        Found { postgres: Some(postgres), nats: Some(nats), redis: found, .. }
            if found.is_some() || redis == RedisWish::Off =>
        {
            Ok(Tools { postgres, nats, redis: found })
        }
        _ => Ok(tools::ensure(&bin, &|line| progress.step(line))?),
    }
}

/// Starts what is not running; all are ready when this returns. Redis may fail: the rest works without it.
pub async fn start(dir: &RunDir, tools: &Tools, progress: &Progress) -> Result<Servers> {
    let (postgres_dir, nats_dir) = (dir.server(POSTGRES), dir.server(NATS));
    let (postgres_options, nats_options) = (PostgresOptions::default(), NatsOptions::default());
    let (postgres, nats, redis) = tokio::join!(
        PostgresServer::start(&tools.postgres, &postgres_dir, &postgres_options),
        NatsServer::start(&tools.nats, &nats_dir, &nats_options),
        start_redis(dir, tools, progress),
    );
    let (postgres, nats) = (postgres?, nats?);
    postgres.create_database(DATABASE).await?;
    Ok(Servers {
        database: postgres.url(DATABASE),
        nats: nats.url(),
        redis: redis.map(|r| r.url()).unwrap_or_default(),
    })
}

async fn start_redis(dir: &RunDir, tools: &Tools, progress: &Progress) -> Option<RedisServer> {
    let without = "rate limits are then kept by each gateway for itself";
    let Some(tool) = &tools.redis else {
        stop_redis(dir).await;
        progress.warn(&format!("going on without Redis: {without}"));
        return None;
    };
    match RedisServer::start(tool, &dir.server(REDIS), &RedisOptions::default()).await {
        Ok(server) => Some(server),
        Err(error) => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            progress.warn(&format!("going on without Redis ({first}): {without}"));
            None
        }
    }
}

/// One that an earlier `up` started, when it is not wanted any more.
async fn stop_redis(dir: &RunDir) {
    if let Ok(Some(server)) = RedisServer::attach(&dir.server(REDIS)) {
        let _ = server.stop().await;
    }
}

/// The address of the database that runs in a directory.
pub fn attached_database(dir: &RunDir) -> Result<String> {
    let server = PostgresServer::attach(&dir.server(POSTGRES))?;
    let server = server.with_context(|| format!("nothing runs in {}", dir.path().display()))?;
    Ok(server.url(DATABASE))
}
