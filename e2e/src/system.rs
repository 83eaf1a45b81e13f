//! A whole system: three servers of its own, the four programs, a project with keys, and a mailbox that its email channel uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::provision::Provision;
use database::by_project;
use local_servers::PostgresOptions;
use secrets::MasterKeys;
use serde_json::json;
use store_projects::api_keys::KeyType;
use tempfile::TempDir;
use testkit::{CitusDatabase, PrivateNats, PrivatePostgres, PrivateRedis, TestMailbox};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::program::{Env, Program, unused_address};
use crate::{Api, mails};

/// Fixed, so that a channel's secrets in the database of a failed test can be decrypted.
pub const MASTER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Subdirectory for pushes to made-up devices, next to the logs.
const PUSH: &str = "push";

/// One system at a time per test process, so that time limits measure the product alone.
pub(crate) static SYSTEM_PERMIT: Semaphore = Semaphore::const_new(1);

/// The database of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Database {
    #[default]
    Postgres,
    /// One PostgreSQL, used as if it were distributed by project.
    ByProject,
    /// The configured Citus cluster (docs/operate/citus.md).
    Citus,
}

/// Differences between tests.
#[derive(Debug, Default)]
pub struct Options {
    /// Environment variables of all programs.
    pub env: Vec<(&'static str, String)>,
    /// Environment variables of one program, by its name.
    pub program_env: Vec<(&'static str, &'static str, String)>,
    pub database: Database,
    /// User and password that the mailbox requires; the channel is configured with them.
    pub mail_login: Option<(&'static str, &'static str)>,
    /// With a synchronous standby of PostgreSQL, which the programs know.
    pub standby: bool,
}

impl Options {
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl ToString) -> Self {
        self.env.push((name, value.to_string()));
        self
    }

    #[must_use]
    pub fn program_env(mut self, program: &'static str, name: &'static str, value: impl ToString) -> Self {
        self.program_env.push((program, name, value.to_string()));
        self
    }
}

/// A system; all programs are ready once it is created, and everything ends with it.
#[derive(Debug)]
pub struct System {
    // First, so that the programs end before their servers.
    pub gateway: Program,
    pub automation: Program,
    pub delivery: Program,
    pub scheduler: Program,
    /// Unused with Citus.
    pub postgres: PrivatePostgres,
    pub database_url: String,
    pub standby: Option<PrivatePostgres>,
    pub nats: PrivateNats,
    pub redis: PrivateRedis,
    pub mailbox: TestMailbox,
    pub api: Api,
    pub project: Uuid,
    /// Origin of the gateway, without a path.
    pub origin: String,
    env: Env,
    dir: Option<TempDir>,
    _citus: Option<CitusDatabase>,
    _permit: SemaphorePermit<'static>,
}

impl System {
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// Panics with the reason if a part does not start.
    pub async fn start_with(options: Options) -> Self {
        let permit = SYSTEM_PERMIT.acquire().await.expect("the semaphore is never closed");
        let small = PostgresOptions { max_connections: 120, shared_buffers_mb: 32, ..PostgresOptions::for_tests() };
        let mailbox = async {
            match options.mail_login {
                Some((user, password)) => TestMailbox::start_with_auth(user, password).await,
                None => TestMailbox::start().await,
            }
        };
        let (postgres, nats, redis, mailbox) =
            tokio::join!(PrivatePostgres::start_with(small), PrivateNats::start(), PrivateRedis::start(), mailbox);
        let citus = match options.database {
            Database::Citus => Some(CitusDatabase::create().await),
            Database::Postgres | Database::ByProject => None,
        };
        let mut database_url = citus.as_ref().map_or_else(|| postgres.url(), CitusDatabase::url);
        if options.database == Database::ByProject {
            let set = format!("ALTER DATABASE test SET {} = 'on'", by_project::SETTING);
            connect(&database_url).await.batch_execute(&set).await.expect("enabling distribution by project");
        }
        let Provisioned { project, public_key, secret_key } =
            provision(&database_url, "The Shop").await.unwrap_or_else(|error| panic!("provisioning: {error:#}"));
        let standby = if options.standby { Some(postgres.standby().await) } else { None };
        if let Some(standby) = &standby {
            let host = |port: u16| format!("127.0.0.1:{port}");
            let both = format!("{},{}", host(postgres.port()), host(standby.port()));
            database_url = database_url.replace(&host(postgres.port()), &both);
        }

        let dir = tempfile::Builder::new().prefix("rekindle-e2e-").tempdir().expect("creating the log directory");
        let address = unused_address();
        let origin = format!("http://{address}");
        let mut env: Env = [
            ("DATABASE_URL", database_url.clone()),
            ("DATABASE_POOL_SIZE", "10".to_owned()),
            ("NATS_URL", nats.url()),
            ("REDIS_URL", redis.url()),
            ("STREAM_PREFIX", String::new()),
            ("MASTER_KEY", MASTER_KEY.to_owned()),
            ("GATEWAY_ADDR", address.to_string()),
            ("PUBLIC_BASE_URL", origin.clone()),
            ("OUTBOUND_ALLOW", "127.0.0.0/8".to_owned()),
            ("SYSTEM_SMTP_URL", system_smtp_url(&mailbox, options.mail_login)),
            ("SYSTEM_MAIL_FROM", "Rekindle <rekindle@example.com>".to_owned()),
            ("PUSH_MAILBOX_DIR", dir.path().join(PUSH).display().to_string()),
            ("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        env.extend(options.env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let program = |name| {
            let own = options.program_env.iter().filter(|(program, ..)| *program == name);
            let own = own.map(|(_, name, value)| ((*name).to_owned(), value.clone()));
            Program::new(name, dir.path(), env.clone().into_iter().chain(own).collect())
        };
        let mut system = Self {
            gateway: program("gateway"),
            automation: program("worker-automation"),
            delivery: program("worker-delivery"),
            scheduler: program("scheduler"),
            api: Api::new(&origin, &public_key, &secret_key),
            postgres,
            database_url,
            standby,
            nats,
            redis,
            mailbox,
            project,
            origin,
            env,
            dir: Some(dir),
            _citus: citus,
            _permit: permit,
        };
        system.start_programs().await;
        system.configure_mail_channel(&system.api, options.mail_login).await;
        system
    }

    /// Starts the four programs and waits until they are ready.
    pub async fn start_programs(&mut self) {
        let Self { gateway, automation, delivery, scheduler, .. } = self;
        tokio::join!(gateway.start(), automation.start(), delivery.start(), scheduler.start());
    }

    /// Stops the four programs in order.
    pub async fn stop_programs(&mut self) {
        let Self { gateway, automation, delivery, scheduler, .. } = self;
        tokio::join!(gateway.stop(), automation.stop(), delivery.stop(), scheduler.stop());
    }

    /// Creates another project, without any channel.
    pub async fn new_project(&self, name: &str) -> Api {
        let made = provision(&self.database_url, name).await;
        let Provisioned { public_key, secret_key, .. } = made.unwrap_or_else(|error| panic!("provisioning: {error:#}"));
        Api::new(&self.origin, &public_key, &secret_key)
    }

    /// Creates another process of a program, not started; `log` names its log.
    pub fn new_program(&self, program: &'static str, log: &str) -> Program {
        let dir = self.dir().join(log);
        std::fs::create_dir_all(&dir).expect("creating the log directory");
        Program::new(program, &dir, self.env.clone())
    }

    /// Creates another gateway, not started, with an address of its own, and a client for it.
    pub fn new_gateway(&self, log: &str) -> (Program, Api) {
        let address = unused_address();
        let mut gateway = self.new_program("gateway", log);
        gateway.set("GATEWAY_ADDR", address.to_string());
        (gateway, Api::new(&format!("http://{address}"), &self.api.public_key, &self.api.secret_key))
    }

    /// Makes another project's mail go to the mailbox too.
    pub async fn send_mail_to_mailbox(&self, api: &Api) {
        self.configure_mail_channel(api, None).await;
    }

    async fn configure_mail_channel(&self, api: &Api, login: Option<(&str, &str)>) {
        let mut channel = json!({
            "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": self.mailbox.port(), "smtpSecurity": "none",
            "mailproviderFromEmail": "shop@rekindle.localhost", "emailFromName": "The Shop",
        });
        if let Some((user, password)) = login {
            channel["smtpUsername"] = json!(user);
            channel["smtpPassword"] = json!(password);
        }
        api.put("/channels", &channel).await.expect(200);
    }

    /// Returns the directory of the logs, in which tests also store files.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("the directory is only taken on drop").path()
    }

    /// Returns the directory with the pushes to devices whose tokens begin with `mailbox:`.
    pub fn push_dir(&self) -> PathBuf {
        self.dir().join(PUSH)
    }

    /// Waits for a mail to this address; panics at the timeout.
    pub async fn mail_to(&self, address: &str, within: Duration) -> testkit::Mail {
        let probe =
            async || mails::to(&self.mailbox, address).into_iter().next().ok_or_else(|| format!("to {address}"));
        testkit::eventually(within, probe).await
    }

    fn programs(&self) -> [&Program; 4] {
        [&self.gateway, &self.automation, &self.delivery, &self.scheduler]
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for program in self.programs() {
                eprintln!("\n--- the end of the log of {}:\n{}", program.name(), program.log_tail());
            }
            let kept: Option<PathBuf> = self.dir.take().map(TempDir::keep);
            eprintln!("\nLogs: {}", kept.unwrap_or_default().display());
        }
    }
}

/// A project that was created by the command line's code.
pub(crate) struct Provisioned {
    pub project: Uuid,
    pub public_key: String,
    pub secret_key: String,
}

/// Migrates the schema and creates a project with its keys.
pub(crate) async fn provision(database_url: &str, name: &str) -> anyhow::Result<Provisioned> {
    let provision = Provision::new(database_url)?;
    provision.migrate().await?;
    let keys = MasterKeys::parse(MASTER_KEY).expect("64 hexadecimal digits");
    let project = provision.create_project(&keys, name).await?;
    let public = provision.create_key(project, KeyType::Public, "website").await?;
    let secret = provision.create_key(project, KeyType::Secret, "backend").await?;
    Ok(Provisioned { project, public_key: public.key, secret_key: secret.key })
}

/// Opens a plain connection to the database.
pub(crate) async fn connect(url: &str) -> Client {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.unwrap_or_else(|error| panic!("PostgreSQL: {error}"));
    tokio::spawn(connection);
    client
}

/// Returns the mailbox as the operator's mail server.
fn system_smtp_url(mailbox: &TestMailbox, login: Option<(&str, &str)>) -> String {
    let login = login.map_or(String::new(), |(name, password)| format!("{name}:{password}@"));
    format!("smtp://{login}127.0.0.1:{}?security=none", mailbox.port())
}
