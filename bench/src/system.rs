//! A system for the bench alone, started and stopped as an operator does it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio_postgres::NoTls;

use crate::cpu::{self, Used};

pub struct System {
    dir: PathBuf,
    rekindle: PathBuf,
    pub base_url: String,
    pub public_key: String,
    database: tokio_postgres::Client,
}

impl System {
    /// Starts it with the programs beside this one, in a folder of its own.
    pub async fn start() -> Result<Self> {
        let rekindle = std::env::current_exe()?.with_file_name("rekindle");
        let dir = std::env::temp_dir().join(format!("rekindle-bench-{}", std::process::id()));
        let up = Command::new(&rekindle).arg("up").env("RUN_DIR", &dir).env_remove("PORT").output();
        let up = up.with_context(|| format!("cannot run {}", rekindle.display()))?;
        if !up.status.success() {
            bail!("the system does not start:\n{}", String::from_utf8_lossy(&up.stderr));
        }
        let read = |name: &str| -> Result<Value> { Ok(serde_json::from_slice(&std::fs::read(dir.join(name))?)?) };
        let (credentials, state) = (read("credentials.json")?, read("state.json")?);
        let text = |value: &Value, what: &str| value.as_str().map(str::to_owned).with_context(|| format!("no {what}"));
        let url = text(&state["servers"]["database"], "database address in state.json")?;
        let (database, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let system = Self {
            base_url: text(&credentials["baseUrl"], "baseUrl")?,
            public_key: text(&credentials["publicKey"], "publicKey")?,
            dir,
            rekindle,
            database,
        };
        system.lift_limit().await?;
        Ok(system)
    }

    /// The limit is there, and far away.
    async fn lift_limit(&self) -> Result<()> {
        let sql = "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'project'; \
                   UPDATE project SET rate_limit = 10000000, changed_seq = (SELECT seq FROM change WHERE topic = 'project'); COMMIT";
        self.database.batch_execute(sql).await?;
        // Gateways look for changes every half second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Events in the database.
    pub async fn recorded(&self) -> Result<u64> {
        let row = self.database.query_one("SELECT coalesce(sum(count), 0)::bigint FROM event_count", &[]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }

    /// Waits until the number of events stands still for half a second.
    pub async fn recorded_all(&self) -> Result<()> {
        let mut last = self.recorded().await?;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.recorded().await?;
            if now == last {
                return Ok(());
            }
            last = now;
        }
    }

    /// CPU used so far by each process of the system, and by this one.
    pub fn cpu(&self) -> Result<Used> {
        let table: Value = serde_json::from_slice(&std::fs::read(self.dir.join("processes.json"))?)?;
        let pid = |name: &str| table["processes"][name]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let mut used = Used::default();
        for name in ["gateway", "worker-automation", "worker-delivery", "scheduler"] {
            let pid = pid(name).with_context(|| format!("{name} has no pid in processes.json"))?;
            used.by_process.push((name.to_owned(), cpu::of_family(pid)?));
        }
        for name in ["nats", "postgres"] {
            let text = std::fs::read_to_string(self.dir.join(name).join("pid"))?;
            let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            used.by_process.push((name.to_owned(), cpu::of_family(pid.with_context(|| format!("{name}: no pid"))?)?));
        }
        used.by_process.push(("load generator".to_owned(), cpu::of_family(std::process::id())?));
        Ok(used)
    }

    pub fn stop(self) -> Result<()> {
        Command::new(&self.rekindle).arg("down").env("RUN_DIR", &self.dir).output()?;
        std::fs::remove_dir_all(&self.dir)?;
        Ok(())
    }
}
