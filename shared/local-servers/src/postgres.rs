//! A private PostgreSQL server.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use super::process::Signal;
use super::server_dir::ServerDir;
use super::{LocalError, PgBin, RunningServer, tools};

mod data_dir;
mod owner;

const USER: &str = "rekindle";
/// Crash recovery can take this long.
const START_TIMEOUT: Duration = Duration::from_mins(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// A fixed port. `None`: the port stored in the directory, or a free one.
    pub port: Option<u16>,
    pub max_connections: u32,
    pub shared_buffers_mb: u32,
    /// False only if losing the data at a power failure is acceptable: in tests.
    pub fsync: bool,
    /// Further settings: name and value as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            port: None,
            max_connections: 200,
            shared_buffers_mb: eighth_of_memory(),
            fsync: true,
            settings: Vec::new(),
        }
    }
}

impl PostgresOptions {
    /// Returns options for a small server without fsync.
    pub fn for_tests() -> Self {
        Self { max_connections: 300, shared_buffers_mb: 64, fsync: false, ..Self::default() }
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let set = |name: &str, value: String| format!("{name}={value}");
        let mut settings = vec![
            set("listen_addresses", "127.0.0.1".into()),
            set("port", port.to_string()),
            set("unix_socket_directories", String::new()),
            set("max_connections", self.max_connections.to_string()),
            set("shared_buffers", format!("{}MB", self.shared_buffers_mb)),
            set("fsync", if self.fsync { "on" } else { "off" }.into()),
            set("synchronous_commit", "on".into()),
            set("full_page_writes", if self.fsync { "on" } else { "off" }.into()),
            set("logging_collector", "off".into()),
            set("jit", "off".into()),
            set("timezone", "UTC".into()),
            set("log_timezone", "UTC".into()),
        ];
        if self.fsync {
            // After each checkpoint the first change of a page writes the whole page to the WAL. With smaller limits,
            // checkpoints would follow every few seconds under load. These settings still bound the WAL's size and the
            // recovery time.
            settings.extend([set("max_wal_size", "4GB".into()), set("checkpoint_timeout", "15min".into())]);
        }
        settings.extend(self.settings.iter().map(|(name, value)| set(name, value.clone())));
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }
}

/// Returns the size of the buffer cache in MiB: an eighth of the memory, at most 2 GiB. Memory is only used as the
/// cache fills.
fn eighth_of_memory() -> u32 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    total.map_or(256, |kb: u64| (kb / 1024 / 8).clamp(128, 2_048) as u32)
}

/// A server that was running when it was started or attached.
#[derive(Clone, Debug)]
pub struct PostgresServer(RunningServer);

impl Deref for PostgresServer {
    type Target = RunningServer;

    fn deref(&self) -> &RunningServer {
        &self.0
    }
}

impl PostgresServer {
    /// Starts the server of `dir`, or attaches to the one that runs there (with its original options). It answers
    /// queries when this returns.
    pub async fn start(bin: &PgBin, dir: &Path, options: &PostgresOptions) -> Result<Self, LocalError> {
        let dir = ServerDir::at(dir, "PostgreSQL")?;
        let _lock = dir.lock().await?;
        if let Some(server) = RunningServer::attach(&dir)?.map(Self) {
            server.wait_ready().await?;
            return Ok(server);
        }
        let runs_as = owner::Owner::choose()?;
        let data = data_dir::prepare(bin, &dir, &runs_as, options.fsync).await?;
        let bin = matching(bin, &data)?;
        let (mut ports, mut reaped) = (0, 0);
        loop {
            let port = dir.choose_port("port", options.port)?;
            let mut command = Command::new(bin.dir.join("postgres"));
            command.arg("-D").arg(&data).args(options.arguments(port)).current_dir(&data);
            runs_as.drop_privileges(&mut command);
            let server = Self(RunningServer::spawn(&dir, command)?);
            match server.wait_ready().await {
                Ok(()) => return Ok(server),
                // Another process took the port first.
                Err(_) if ports < 2 && server.lost_port() => ports += 1,
                // PostgreSQL still considers a server running that was just killed and is not reaped yet.
                Err(error) if reaped < 40 && !server.is_running() && error.to_string().contains("postmaster.pid") => {
                    reaped += 1;
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the server that runs in `dir`, if there is one.
    pub fn attach(dir: &Path) -> Result<Option<Self>, LocalError> {
        Ok(RunningServer::attach(&ServerDir::at(dir, "PostgreSQL")?)?.map(Self))
    }

    async fn wait_ready(&self) -> Result<(), LocalError> {
        let url = self.url("postgres");
        self.0.wait_ready(START_TIMEOUT, "runs, but does not answer", || answers(&url)).await
    }

    /// Returns `postgres://rekindle:…@127.0.0.1:port/database`.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{database}", self.password(), self.port())
    }

    /// Creates a database unless it exists. Returns true if it was created.
    pub async fn create_database(&self, name: &str) -> Result<bool, LocalError> {
        let failed = |error: tokio_postgres::Error| {
            let problem = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
            self.error(format!("could not create the database {name}: {problem}"))
        };
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls).await.map_err(failed)?;
        let connection = tokio::spawn(connection);
        let quoted = name.replace('"', "\"\"");
        let created = client.batch_execute(&format!("CREATE DATABASE \"{quoted}\"")).await;
        connection.abort();
        match created {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_DATABASE) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes a stopped server's directory, and its data if they are elsewhere.
    pub fn remove(dir: &Path) -> Result<(), LocalError> {
        if let Some(running) = Self::attach(dir).ok().flatten() {
            return Err(running.error("still runs; stop it before its data is removed"));
        }
        data_dir::remove(dir)
    }

    /// Fast shutdown: ends the sessions, writes a checkpoint, and waits.
    pub async fn stop(&self) -> Result<(), LocalError> {
        self.stop_by(Signal::INT, STOP_TIMEOUT, "did not stop and was killed; its next start recovers from that").await
    }

    /// Immediate shutdown: like a crash of the machine, but without leaving processes behind.
    pub async fn kill(&self) {
        self.process().stop_by(Signal::QUIT, Duration::from_secs(10)).await;
    }
}

async fn answers(url: &str) -> bool {
    match tokio_postgres::connect(url, NoTls).await {
        Ok((client, connection)) => {
            let connection = tokio::spawn(connection);
            let answers = client.simple_query("SELECT 1").await.is_ok();
            connection.abort();
            answers
        }
        // The server is full but healthy.
        Err(error) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
    }
}

/// Returns the installation that can read the data: `bin`, or another one of the data's major version.
fn matching(bin: &PgBin, data: &Path) -> Result<PgBin, LocalError> {
    let file = data.join("PG_VERSION");
    let text = std::fs::read_to_string(&file).map_err(LocalError::io("read", &file))?;
    let major = text.trim().parse().unwrap_or(bin.version.major);
    if major == bin.version.major {
        return Ok(bin.clone());
    }
    tools::postgres_of_major(major).ok_or_else(|| {
        let (data, newer) = (data.display(), bin.version.major);
        LocalError::Refused(format!(
            "the data in {data} was created by PostgreSQL {major}, but only {newer} is installed; \
             install {major}, or remove that directory to start over"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_settings_override_defaults() {
        let options = PostgresOptions { settings: vec![("jit".into(), "on".into())], ..PostgresOptions::for_tests() };
        let arguments = options.arguments(5555);
        assert!(arguments.contains(&"port=5555".into()) && arguments.contains(&"fsync=off".into()));
        assert_eq!(arguments.last().map(String::as_str), Some("jit=on"));
        assert_eq!(arguments.iter().filter(|a| *a == "-c").count() * 2, arguments.len());
    }
}
