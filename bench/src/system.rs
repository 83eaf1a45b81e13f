//! A system for benchmarks: three servers with the options of `rekindle up`, and the four programs.

mod metrics;
mod program;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bus::Bus;
use bus::config::BusConfig;
use database::config::DatabaseConfig;
use database::migrate;
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::metric_name::Metric;
use local_servers::{
    NatsOptions, NatsServer, PostgresOptions, PostgresServer, RedisOptions, RedisServer, Tools, install, port,
};
use tokio_postgres::NoTls;

use crate::provision;
use crate::usage::Watched;
use program::Program;
use progress::Steps;

const DATABASE: &str = "rekindle";
pub const GATEWAY: &str = "gateway";
pub const AUTOMATION: &str = "worker-automation";
pub const SECOND_AUTOMATION: &str = "worker-automation 2";
pub const DELIVERY: &str = "worker-delivery";
pub const SCHEDULER: &str = "scheduler";
/// The four programs.
pub const PROGRAMS: [&str; 4] = [GATEWAY, AUTOMATION, DELIVERY, SCHEDULER];
/// Maximum time for two workers to share the partitions.
const SHARED: Duration = Duration::from_secs(40);

/// Options that differ between systems.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often NATS syncs to disk.
    pub sync_interval: String,
    /// Directory of the four programs.
    pub programs: PathBuf,
}

impl Options {
    /// Returns the options of `rekindle up`, with the programs from this program's directory.
    pub fn new() -> Result<Self> {
        let own = std::env::current_exe()?;
        let programs = own.parent().context("this program has no parent directory")?.to_owned();
        Ok(Self { sync_interval: NatsOptions::default().sync_interval, programs })
    }
}

/// A running system. `stop` ends it and removes its data.
pub struct System {
    dir: PathBuf,
    postgres: PostgresServer,
    nats: NatsServer,
    redis: Option<RedisServer>,
    programs: BTreeMap<&'static str, Program>,
    env: BTreeMap<&'static str, String>,
    options: Options,
    pub gateway: SocketAddr,
    pub database: tokio_postgres::Client,
    pub bus: Bus,
}

impl System {
    /// Starts the servers, migrates the database and creates the projects. The programs are started by name with `run`.
    pub async fn start(options: Options, progress: &Steps) -> Result<Self> {
        progress.step("starting PostgreSQL, NATS and Redis");
        let data_dir = data_dir(&options.programs);
        let tools = tools(&data_dir, progress).await?;
        let dir = run_dir(&options);
        let nats_options = NatsOptions { sync_interval: options.sync_interval.clone(), ..NatsOptions::default() };
        let (postgres_dir, nats_dir) = (dir.join("postgres"), dir.join("nats"));
        let postgres_options = PostgresOptions::default();
        let (postgres, nats, redis) = tokio::join!(
            PostgresServer::start(&tools.postgres, &postgres_dir, &postgres_options),
            NatsServer::start(&tools.nats, &nats_dir, &nats_options),
            start_redis(&tools, &dir),
        );
        let (postgres, nats, redis) = (postgres?, nats?, redis?);
        postgres.create_database(DATABASE).await?;
        let url = postgres.url(DATABASE);
        migrate::run(&DatabaseConfig { url: url.clone(), pool_size: 2 }, &Clock::system()).await?;
        let (database, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let bus_env = Env::from_pairs([("NATS_URL", nats.url())]);
        let bus = Bus::connect(&BusConfig::from_env(&bus_env)?, "bench").await?;
        let gateway = SocketAddr::from(([127, 0, 0, 1], port::free()));
        let env = BTreeMap::from([
            ("DATABASE_URL", url),
            ("NATS_URL", nats.url()),
            ("REDIS_URL", redis.as_ref().map(RedisServer::url).unwrap_or_default()),
            ("STREAM_PREFIX", String::new()),
            ("MASTER_KEY", provision::MASTER_KEY.to_owned()),
            ("GATEWAY_ADDR", gateway.to_string()),
            ("PUBLIC_BASE_URL", format!("http://{gateway}")),
        ]);
        Ok(Self { dir, postgres, nats, redis, programs: BTreeMap::new(), env, options, gateway, database, bus })
    }

    /// Points the programs, from their next start, at another database on the same server. Returns its URL.
    pub async fn use_database(&mut self, name: &str) -> Result<String> {
        self.run(&[]).await?;
        self.postgres.create_database(name).await?;
        let url = self.postgres.url(name);
        let (database, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        self.database = database;
        self.env.insert("DATABASE_URL", url.clone());
        Ok(url)
    }

    /// Sets an environment variable of the programs, from their next start.
    pub fn set_env(&mut self, name: &'static str, value: String) {
        self.env.insert(name, value);
    }

    /// Removes a variable set with [`System::set_env`].
    pub fn remove_env(&mut self, name: &str) {
        self.env.remove(name);
    }

    /// Returns one metric of a running program, summed over its labels, or 0 if the program does not run.
    pub async fn metric(&self, program: &str, name: &str) -> Result<u64> {
        match self.programs.get(program) {
            Some(program) => metrics::value(program.admin, name).await,
            None => Ok(0),
        }
    }

    /// Returns the URL of the database in use.
    pub fn database_url(&self) -> &str {
        self.env.get("DATABASE_URL").map_or("", String::as_str)
    }

    /// Suspends (SIGSTOP) or resumes (SIGCONT) the recording workers, which cannot notice it.
    pub async fn suspend(&self, suspended: bool) -> Result<()> {
        for name in [AUTOMATION, SECOND_AUTOMATION] {
            if let Some(program) = self.programs.get(name) {
                program.signal(if suspended { "STOP" } else { "CONT" }).await?;
            }
        }
        Ok(())
    }

    /// Waits until both recording workers own the same number of partitions.
    pub async fn shared_evenly(&self) -> Result<()> {
        let running = [AUTOMATION, SECOND_AUTOMATION].map(|name| self.programs.get(name));
        let running: Vec<&Program> = running.into_iter().flatten().collect();
        let share = u64::from(self.bus.config.partitions) / running.len().max(1) as u64;
        let deadline = tokio::time::Instant::now() + SHARED;
        loop {
            let mut even = true;
            for program in &running {
                even &= metrics::value(program.admin, Metric::PartitionsOwned.name()).await? == share;
            }
            if even {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("the workers do not share the partitions evenly");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts the wanted programs that do not run, and stops all others.
    pub async fn run(&mut self, wanted: &[&'static str]) -> Result<()> {
        let unwanted: Vec<&str> = self.programs.keys().copied().filter(|name| !wanted.contains(name)).collect();
        for name in unwanted {
            if let Some(program) = self.programs.remove(name) {
                program.stop().await?;
            }
        }
        for name in wanted {
            if !self.programs.contains_key(name) {
                let executable = self.options.programs.join(if *name == SECOND_AUTOMATION { AUTOMATION } else { name });
                let program = Program::start(name, &executable, &self.dir, &self.env).await?;
                self.programs.insert(name, program);
            }
        }
        Ok(())
    }

    /// Runs all four programs.
    pub async fn run_all(&mut self) -> Result<()> {
        self.run(&PROGRAMS).await
    }

    /// Runs the gateway alone, so that nothing is recorded.
    pub async fn run_accepting(&mut self) -> Result<()> {
        self.run(&[GATEWAY]).await
    }

    /// Returns the processes to watch, with their process IDs.
    pub fn watched(&self) -> Vec<Watched> {
        let program = |(name, program): (&&'static str, &Program)| Some(Watched::process(name, program.pid()?));
        let mut all: Vec<Watched> = self.programs.iter().filter_map(program).collect();
        all.push(Watched::process("nats", self.nats.process().pid()));
        all.push(Watched::family("postgres", self.postgres.process().pid()));
        all.extend(self.redis.as_ref().map(|redis| Watched::process("redis", redis.process().pid())));
        all
    }

    /// Returns the items that the running workers have applied since they were started, repeats included.
    pub async fn applied(&self) -> Result<u64> {
        let mut all = 0;
        for name in [AUTOMATION, SECOND_AUTOMATION] {
            if let Some(program) = self.programs.get(name) {
                all += metrics::value(program.admin, Metric::IngestApplied.name()).await?;
            }
        }
        Ok(all)
    }

    /// Returns the number of events in the database, from its exact counters.
    pub async fn recorded(&self) -> Result<u64> {
        let sql = "SELECT coalesce(sum(count), 0)::bigint AS total FROM event_count";
        let row = self.database.query_one(sql, &[]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>("total")?)?)
    }

    /// Purges the ingest stream. Call it only while no worker runs.
    pub async fn purge(&self) -> Result<()> {
        let stream = self.bus.jetstream.get_stream(self.bus.names.ingest_stream()).await?;
        stream.purge().await?;
        Ok(())
    }

    /// Deletes all messages from the ledger, the queue and the stream. Call it only while no worker delivers.
    pub async fn delete_messages(&self) -> Result<()> {
        self.database
            .batch_execute("TRUNCATE message, message_count, send_chunk, campaign_count, capped_send, outbox")
            .await?;
        // The stream does not exist before the programs first run.
        if let Ok(stream) = self.bus.jetstream.get_stream(self.bus.names.send_stream()).await {
            stream.purge().await?;
        }
        Ok(())
    }

    pub async fn stop(mut self) -> Result<()> {
        for (_, program) in std::mem::take(&mut self.programs) {
            program.stop().await?;
        }
        clear(&self.options).await
    }
}

/// Kills the servers that this process started, even those of a system that failed to start, and removes their data.
pub async fn clear(options: &Options) -> Result<()> {
    let dir = run_dir(options);
    if !dir.exists() {
        return Ok(());
    }
    if let Some(nats) = NatsServer::attach(&dir.join("nats"))? {
        nats.kill().await;
    }
    if let Some(redis) = RedisServer::attach(&dir.join("redis"))? {
        redis.kill().await;
    }
    if let Some(postgres) = PostgresServer::attach(&dir.join("postgres"))? {
        postgres.kill().await;
    }
    PostgresServer::remove(&dir.join("postgres"))?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn run_dir(options: &Options) -> PathBuf {
    data_dir(&options.programs).join(format!("run-{}", std::process::id()))
}

/// Returns the data directory of the benchmarks, a sibling of the programs' directory.
pub fn data_dir(programs: &Path) -> PathBuf {
    programs.parent().unwrap_or(programs).join("bench")
}

async fn start_redis(tools: &Tools, dir: &Path) -> Result<Option<RedisServer>> {
    match &tools.redis {
        Some(tool) => Ok(Some(RedisServer::start(tool, &dir.join("redis"), &RedisOptions::default()).await?)),
        None => Ok(None),
    }
}

async fn tools(data_dir: &Path, progress: &Steps) -> Result<Tools> {
    let (bin, shown) = (data_dir.join("bin"), progress.clone());
    let found = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&bin)?;
        anyhow::Ok(install::ensure(&bin, &|line| shown.step(line))?)
    });
    let tools = found.await??;
    if tools.redis.is_none() {
        bail!("the benchmark needs Redis, because rate limits are shared between gateways: install redis-server");
    }
    Ok(tools)
}
