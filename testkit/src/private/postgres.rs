//! A private PostgreSQL, and its standby.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::Duration;

use local_servers::{PostgresOptions, PostgresServer};

use super::PrivateDir;
use super::disk::Disk;
use crate::certificate::Certificate;
use crate::session::{connect, described};
use crate::{eventually, must, random_name, servers};

/// Time limit for reloading settings.
const SOON: Duration = Duration::from_secs(20);

/// A PostgreSQL for one test, with an empty database `test`.
#[derive(Debug)]
pub struct PrivatePostgres {
    server: PostgresServer,
    options: PostgresOptions,
    disk: Option<Disk>,
    dir: PrivateDir,
}

impl PrivatePostgres {
    /// Panics with the reason if it cannot be started.
    pub async fn start() -> Self {
        Self::start_with(PostgresOptions { max_connections: 60, shared_buffers_mb: 16, ..PostgresOptions::for_tests() })
            .await
    }

    pub async fn start_with(mut options: PostgresOptions) -> Self {
        let dir = PrivateDir::create("postgres");
        let server = launch(&dir, &options).await;
        // The address stays the same from now on.
        options.port = Some(server.port());
        Self { server, options, disk: None, dir }
    }

    /// Starts a server with its data on a separate disk of `bytes` bytes, which requires Linux and root.
    pub async fn start_on_disk(options: PostgresOptions, bytes: u64) -> Self {
        let mut started = Self::start_with(options).await;
        started.stop().await;
        started.disk = Some(Disk::create(&started.dir.path().join("data"), bytes));
        started.start_again().await;
        started
    }

    /// Fills the server's disk. Panics if it has no disk of its own.
    pub async fn fill_disk(&self) {
        self.disk.as_ref().expect("the server has no disk of its own").fill().await;
    }

    /// Frees the space that [`PrivatePostgres::fill_disk`] took.
    pub fn free_disk(&self) {
        self.disk.as_ref().expect("the server has no disk of its own").free();
    }

    /// Waits until the server responds again, and restarts it if it has ended by itself. Returns whether it had.
    pub async fn recover(&mut self) -> bool {
        let bin = &servers::tools().await.postgres;
        // It may be about to end.
        let mut ended = !self.server.is_running();
        while let Err(error) = PostgresServer::start(bin, self.dir.path(), &self.options).await.map(|s| self.server = s)
        {
            assert!(!ended, "a private PostgreSQL: {error}");
            ended = true;
        }
        ended
    }

    /// Starts a standby that streams this server's WAL and answers reads. From then on, commits wait until the standby has flushed them to
    /// disk.
    pub async fn standby(&self) -> Self {
        // `pg_basebackup` writes files that the server's own user must be able to read.
        let dir = PrivateDir::in_temp_dir("postgres");
        must("copying a private PostgreSQL", copy(&self.server, self.dir.path(), dir.path()).await);
        let mut options = PostgresOptions { port: None, ..self.options.clone() };
        let bin = &servers::tools().await.postgres;
        let server = must("a standby", PostgresServer::start(bin, dir.path(), &options).await);
        options.port = Some(server.port());
        let client = must("PostgreSQL", connect(&self.url()).await);
        for sql in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
            must("a synchronous standby", client.batch_execute(sql).await.map_err(described));
        }
        let sql = "SELECT count(*) AS standbys FROM pg_stat_replication \
                   WHERE state = 'streaming' AND sync_state = 'sync'";
        eventually(SOON, async || {
            let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
            if row.get::<_, i64>("standbys") == 1 {
                Ok(())
            } else {
                Err("commits do not wait for the standby".to_owned())
            }
        })
        .await;
        Self { server, options, disk: None, dir }
    }

    /// Promotes a standby, and waits until it accepts writes.
    pub async fn promote(&self) {
        let client = must("a standby", connect(&self.url()).await);
        let row = client.query_one("SELECT pg_promote(true, 60) AS is_promoted", &[]).await.map_err(described);
        assert!(must("promoting a standby", row).get::<_, bool>("is_promoted"), "the standby was not promoted in time");
    }

    /// Returns the URL of the database `test`.
    pub fn url(&self) -> String {
        self.server.url("test")
    }

    /// Opens a plain connection.
    pub async fn client(&self) -> tokio_postgres::Client {
        must("connecting to a private PostgreSQL", connect(&self.url()).await)
    }

    /// Recreates the database `test`, empty, and disconnects its clients.
    pub async fn empty(&self) {
        let client = must("connecting to a private PostgreSQL", connect(&self.server.url("postgres")).await);
        let dropped = client.batch_execute("DROP DATABASE test WITH (FORCE)").await;
        must("dropping a private PostgreSQL's database", dropped);
        must("a private PostgreSQL", self.server.create_database("test").await);
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Enables TLS with this certificate. Connections without TLS remain possible.
    pub async fn enable_tls(&self, certificate: &Certificate) {
        let file = format!("server-{}.pem", random_name());
        let client = must("PostgreSQL", connect(&self.url()).await);
        // The server writes the file itself: it refuses keys that other users can read, and may run as another user.
        let lines = certificate.chain().trim_end();
        let write =
            format!("COPY (SELECT unnest(string_to_array('{lines}', E'\n'))) TO PROGRAM 'umask 077; cat > {file}'");
        let set = |name: &str, value: &str| format!("ALTER SYSTEM SET {name} = '{value}'");
        let settings = [set("ssl_cert_file", &file), set("ssl_key_file", &file), set("ssl", "on")];
        let reload = "SELECT pg_reload_conf()".to_owned();
        for sql in std::iter::once(write).chain(settings).chain([reload]) {
            must("TLS for a private PostgreSQL", client.batch_execute(&sql).await.map_err(described));
        }
        let read = "SELECT current_setting('ssl') = 'on' AND current_setting('ssl_cert_file') = $1 AS are_read";
        eventually(SOON, async || {
            let client = connect(&self.url()).await.map_err(|e| e.to_string())?;
            let row = client.query_one(read, &[&file]).await.map_err(|e| e.to_string())?;
            if row.get("are_read") { Ok(()) } else { Err("the settings are not active yet".to_owned()) }
        })
        .await;
    }

    /// Fast shutdown; waits until the server has ended.
    pub async fn stop(&self) {
        must("stopping a private PostgreSQL", self.server.stop().await);
    }

    /// Immediate shutdown, as in a crash; waits until the server has ended.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Sends SIGKILL to the postmaster and waits until it has ended. The other processes then end by themselves.
    pub async fn kill_hard(&self) {
        self.server.process().kill().await;
    }

    /// Restarts the server after [`PrivatePostgres::stop`] or [`PrivatePostgres::kill`], at the same address and with its data.
    pub async fn start_again(&mut self) {
        self.server = launch(&self.dir, &self.options).await;
    }
}

/// Copies a running server's data to the directory of a standby, with the server's password.
async fn copy(server: &PostgresServer, from: &Path, to: &Path) -> anyhow::Result<()> {
    let data = to.join("data");
    let program = servers::tools().await.postgres.dir.join("pg_basebackup");
    let mut command = tokio::process::Command::new(program);
    command.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync", "--write-recovery-conf"]);
    command.arg("--pgdata").arg(&data).arg("--dbname").arg(server.url("postgres"));
    let output = command.kill_on_drop(true).output().await?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::copy(from.join("password"), to.join("password"))?;
    // The server does not run as root, and its user owns the data.
    let owner = std::fs::metadata(from.join("data"))?;
    give(&data, owner.uid(), owner.gid())?;
    Ok(())
}

fn give(path: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    chown(path, Some(uid), Some(gid))?;
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}

async fn launch(dir: &PrivateDir, options: &PostgresOptions) -> PostgresServer {
    let bin = &servers::tools().await.postgres;
    let server = must("a private PostgreSQL", PostgresServer::start(bin, dir.path(), options).await);
    must("a private PostgreSQL", server.create_database("test").await);
    server
}
