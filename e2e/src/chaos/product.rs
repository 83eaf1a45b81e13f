//! The whole product: two processes of each program, and a separate link from each process to each server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use local_servers::PostgresOptions;
use tempfile::TempDir;
use testkit::{
    ConfiguredNats, MailService, PrivateNats, PrivatePostgres, PrivateRedis, ProviderServer, SmsService, SmtpService,
};
use tokio::sync::{Mutex, SemaphorePermit};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::clock;
use super::plan::{CLUSTER_SIZE, Endpoint, Link, Process};
use super::provider::{self, FaultInjector, WithFaults};
use super::proxy::Proxy;
use super::settings::Settings;
use super::shops::{LIMIT, LIMITED, UNKNOWN_RETRIES};
use crate::program::{Env, Program, unused_address};
use crate::system::{MASTER_KEY, Provisioned, SYSTEM_PERMIT, provision};
use crate::{Api, broker};

/// Time limit for a process to become ready once all faults are healed.
const READY: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// NATS, as a single server or a cluster.
#[derive(Debug)]
pub enum Broker {
    Single(Box<PrivateNats>),
    Cluster(Box<[ConfiguredNats; CLUSTER_SIZE]>),
}

impl Broker {
    /// Starts NATS. `disk`: size in bytes of its own disk, if it has one.
    async fn start(cluster: bool, disk: Option<u64>) -> Self {
        if !cluster {
            let single = match disk {
                Some(bytes) => PrivateNats::start_on_disk(bytes).await,
                None => PrivateNats::start().await,
            };
            return Self::Single(Box::new(single));
        }
        let nodes = broker::cluster().await;
        testkit::eventually(READY, async || broker::create_streams(&nodes).await.map_err(|e| format!("{e:#}"))).await;
        Self::Cluster(Box::new(nodes))
    }

    /// Returns the monitoring URL of a server that knows all streams.
    pub fn monitor_url(&self) -> String {
        match self {
            Self::Single(server) => server.monitor_url(),
            Self::Cluster(nodes) => nodes[0].monitor_url(),
        }
    }

    /// Kills the server with a number from [`super::plan::FaultKind::NatsKilled`].
    pub async fn kill(&self, number: usize) {
        match self {
            Self::Single(server) => server.kill().await,
            Self::Cluster(nodes) => {
                for (_, node) in nodes.iter().enumerate().filter(|(n, _)| number >= CLUSTER_SIZE || *n == number) {
                    node.kill().await;
                }
            }
        }
    }

    /// Restarts the killed servers. A cluster has caught up on return.
    pub async fn start_again(&mut self, number: usize) {
        match self {
            Self::Single(server) => server.start_again().await,
            Self::Cluster(nodes) => {
                let gone = nodes.iter_mut().enumerate().filter(|(n, _)| number >= CLUSTER_SIZE || *n == number);
                for (_, node) in gone {
                    node.start_again().await;
                }
                for node in &**nodes {
                    node.healthy().await;
                }
            }
        }
    }
}

/// The product; all processes are ready once it is created, and end with it.
pub struct Product {
    // First, so that they end before their servers.
    pub processes: BTreeMap<Process, Mutex<Program>>,
    /// Processes that are expected to die by themselves.
    pub armed: StdMutex<BTreeSet<Process>>,
    pub links: BTreeMap<Link, Proxy>,
    pub postgres: Mutex<PrivatePostgres>,
    pub nats: Mutex<Broker>,
    pub redis: Mutex<PrivateRedis>,
    pub mail: ProviderServer<WithFaults<MailService>>,
    pub sms: ProviderServer<WithFaults<SmsService>>,
    /// The mail server of the second project.
    pub smtp: SmtpService,
    pub fault_injector: Arc<FaultInjector>,
    /// The clients of each project, one per gateway.
    pub shops: Vec<Vec<Api>>,
    pub projects: Vec<Uuid>,
    pub began: Instant,
    /// The direct URL, without a link.
    pub database_url: String,
    pub redis_url: String,
    dir: Option<TempDir>,
    _permit: SemaphorePermit<'static>,
}

impl Product {
    /// Panics with the reason if a process does not start.
    pub async fn start(settings: Settings) -> Self {
        let disk = settings.disk_bytes();
        let permit = SYSTEM_PERMIT.acquire().await.expect("the semaphore is never closed");
        let (postgres, nats, redis) =
            tokio::join!(database(disk), Broker::start(settings.cluster, disk), PrivateRedis::start());
        let fault_injector = Arc::new(FaultInjector::default());
        let (mail, sms, smtp) = tokio::join!(
            ProviderServer::start(provider::mail_service(&fault_injector)),
            ProviderServer::start(provider::sms_service(&fault_injector)),
            provider::smtp_service(&fault_injector),
        );
        let dir = tempfile::Builder::new().prefix("rekindle-chaos-").tempdir().expect("creating the log directory");
        let ports = [
            (Endpoint::Postgres, postgres.port()),
            (Endpoint::Redis, redis.port()),
            (Endpoint::Mail, mail.port()),
            (Endpoint::Sms, sms.port()),
            (Endpoint::Smtp, smtp.port()),
        ];
        let nats_port = if let Broker::Single(server) = &nats { Some((Endpoint::Nats, server.port())) } else { None };
        let ports: BTreeMap<Endpoint, u16> = ports.into_iter().chain(nats_port).collect();
        let gateways: BTreeMap<Process, SocketAddr> =
            Process::all().filter(|p| p.program == "gateway").map(|process| (process, unused_address())).collect();
        let mut links = BTreeMap::new();
        for link in Link::all() {
            let port = ports.get(&link.to).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
            let own = gateways.get(&link.process).filter(|_| link.to == Endpoint::Clients);
            if let Some(to) = own.copied().or(port) {
                links.insert(link, Proxy::start(to).await.expect("starting a proxy"));
            }
        }
        let (mut shops, mut projects) = (Vec::new(), Vec::new());
        for shop in 0..=LIMITED {
            let made = provision(&postgres.url(), &format!("Shop {shop}")).await;
            let Provisioned { project, public_key, secret_key } =
                made.unwrap_or_else(|error| panic!("provisioning: {error:#}"));
            let api = |process: &Process| {
                let address = links[&Link { process: *process, to: Endpoint::Clients }].address();
                Api::new(&format!("http://{address}"), &public_key, &secret_key)
            };
            shops.push(gateways.keys().map(api).collect());
            projects.push(project);
        }
        let (db, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.expect("the database");
        tokio::spawn(connection);
        let limit = i32::try_from(LIMIT).expect("a small number");
        let limited = "UPDATE project SET rate_limit = $2 WHERE project_id = $1";
        db.execute(limited, &[&projects[LIMITED], &limit]).await.expect("setting the rate limit");
        if settings.clock {
            clock::install(&db).await;
        }
        let mut processes = BTreeMap::new();
        for process in Process::all() {
            let mut env = Env::from([
                (
                    "DATABASE_URL".to_owned(),
                    url_through_link(&links, process, Endpoint::Postgres, &postgres.url(), postgres.port()),
                ),
                (
                    "REDIS_URL".to_owned(),
                    url_through_link(&links, process, Endpoint::Redis, &redis.url(), redis.port()),
                ),
                (
                    "MAIL_BASE_URL".to_owned(),
                    url_through_link(&links, process, Endpoint::Mail, &mail.url(), mail.port()),
                ),
                ("SMS_BASE_URL".to_owned(), url_through_link(&links, process, Endpoint::Sms, &sms.url(), sms.port())),
            ]);
            match &nats {
                Broker::Single(server) => {
                    env.insert(
                        "NATS_URL".to_owned(),
                        url_through_link(&links, process, Endpoint::Nats, &server.url(), server.port()),
                    );
                }
                Broker::Cluster(nodes) => {
                    env.insert("NATS_URL".to_owned(), broker::url(&nodes[..], process.program));
                    env.insert("STREAM_REPLICAS".to_owned(), CLUSTER_SIZE.to_string());
                }
            }
            env.extend(variables().map(|(name, value)| (name.to_owned(), value)));
            if let Some(address) = gateways.get(&process) {
                env.insert("GATEWAY_ADDR".to_owned(), address.to_string());
            }
            let logs = dir.path().join(process.to_string().replace(' ', "-"));
            std::fs::create_dir_all(&logs).expect("creating the log directory");
            processes.insert(process, Mutex::new(Program::new(process.program, &logs, env)));
        }
        let mut product = Self {
            processes,
            armed: StdMutex::default(),
            links,
            database_url: postgres.url(),
            redis_url: redis.url(),
            postgres: Mutex::new(postgres),
            nats: Mutex::new(nats),
            redis: Mutex::new(redis),
            mail,
            sms,
            smtp,
            fault_injector,
            shops,
            projects,
            began: Instant::now(),
            dir: Some(dir),
            _permit: permit,
        };
        for program in product.processes.values() {
            program.lock().await.launch();
        }
        product.wait_until_all_ready().await.unwrap_or_else(|problem| panic!("{problem}"));
        product.began = Instant::now();
        product
    }

    /// Waits until every process is ready; at the timeout, the error names one that is not.
    pub async fn wait_until_all_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READY;
        for (process, program) in &self.processes {
            while !program.lock().await.is_ready().await {
                if Instant::now() >= deadline {
                    let end = program.lock().await.log_tail();
                    return Err(format!("{process} is not ready; the end of its log:\n{end}"));
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Connects to the database directly; it may be unavailable.
    pub async fn database(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.database_url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Returns the port at which the programs reach the mail server.
    pub fn smtp_port(&self) -> u16 {
        let link = Link::all().find(|link| link.to == Endpoint::Smtp).expect("a link to the mail server");
        self.links[&link].address().port()
    }

    /// Sets whether a process is expected to die by itself, and returns whether it was before.
    pub fn arm(&self, process: Process, armed: bool) -> bool {
        let mut all = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.contains(&process);
        if armed {
            all.insert(process);
        } else {
            all.remove(&process);
        }
        before
    }

    /// Returns the directory of the logs and records.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("the directory is only taken on drop").path()
    }

    /// Keeps the directory when the product is dropped, and returns its path.
    pub fn keep(&mut self) -> String {
        self.dir.take().map(TempDir::keep).unwrap_or_default().display().to_string()
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        if std::thread::panicking() && self.dir.is_some() {
            eprintln!("\nLogs and records: {}", self.keep());
        }
    }
}

/// Starts PostgreSQL. `disk`: size in bytes of its own disk, if it has one.
async fn database(disk: Option<u64>) -> PrivatePostgres {
    let mut options = PostgresOptions { max_connections: 200, shared_buffers_mb: 64, ..PostgresOptions::for_tests() };
    let Some(bytes) = disk else { return PrivatePostgres::start_with(options).await };
    // Keeps no spare WAL segments, so that writing WAL fails too when the disk is full.
    let log = [("wal_recycle", "off"), ("min_wal_size", "32MB"), ("max_wal_size", "128MB")];
    options.settings.extend(log.map(|(name, value)| (name.to_owned(), value.to_owned())));
    PrivatePostgres::start_on_disk(options, bytes).await
}

/// Returns the URL of a server, through the process's own link if there is one.
fn url_through_link(links: &BTreeMap<Link, Proxy>, process: Process, to: Endpoint, url: &str, port: u16) -> String {
    let Some(link) = links.get(&Link { process, to }) else { return url.to_owned() };
    url.replace(&format!("127.0.0.1:{port}"), &link.address().to_string())
}

/// Returns the variables of every process. Leases are short, so that work of killed processes is soon taken over. Calls with an unknown
/// outcome are repeated more often than usual, because here several faults may hit one message.
fn variables() -> [(&'static str, String); 12] {
    [
        ("DATABASE_POOL_SIZE", "8".to_owned()),
        ("STREAM_PREFIX", String::new()),
        ("MASTER_KEY", MASTER_KEY.to_owned()),
        ("PUBLIC_BASE_URL", "http://shop.localhost".to_owned()),
        ("OUTBOUND_ALLOW", "127.0.0.0/8".to_owned()),
        ("GATEWAY_REPLICAS", super::plan::PROCESSES_PER_PROGRAM.to_string()),
        ("DELIVERY_REPLICAS", super::plan::PROCESSES_PER_PROGRAM.to_string()),
        ("PARTITION_LEASE_MS", "1500".to_owned()),
        ("DELIVERY_LEASE_MS", "5000".to_owned()),
        // Campaigns that pause themselves are tested elsewhere.
        ("CAMPAIGN_FAILURES_IN_ROW", "1000000".to_owned()),
        ("DELIVERY_UNKNOWN_RETRIES", UNKNOWN_RETRIES.to_string()),
        ("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned())),
    ]
}
