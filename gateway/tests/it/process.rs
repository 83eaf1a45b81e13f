//! The process as a whole: failures at startup, waiting for dependencies, and shutdown.

use std::process::Stdio;

use bus::{Bus, topology};
use database::migrate;
use kernel::clock::Clock;
use testkit::{PrivateNats, TestDatabase, TestNats};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::http::Call;
use crate::setup::{MB, bus_config, secs, tenant};

/// A gateway in its own process, killed on drop.
pub struct Process {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    seen: String,
}

impl Process {
    /// Starts it with only these variables, a master key and free ports.
    pub fn start(env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gateway"))
            .env_clear()
            .env("MASTER_KEY", "42".repeat(32))
            .env("GATEWAY_ADDR", "127.0.0.1:0")
            .env("ADMIN_ADDR", "127.0.0.1:0")
            .envs(env.iter().copied())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log, seen: String::new() }
    }

    /// Reads the log until a line contains `text`; returns the line.
    pub async fn says(&mut self, text: &str) -> String {
        let found = async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                self.seen.push_str(&line);
                self.seen.push('\n');
                if line.contains(text) {
                    return line;
                }
            }
            panic!("ended without logging {text:?}:\n{}", self.seen)
        };
        tokio::time::timeout(secs(20), found).await.unwrap_or_else(|_| panic!("did not log {text:?}"))
    }

    /// Returns its peak memory, in KiB.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    async fn exit_status(mut self) -> i32 {
        let status = tokio::time::timeout(secs(20), self.child.wait()).await.expect("did not end").unwrap();
        status.code().unwrap_or_else(|| panic!("{status}"))
    }
}

/// Returns the addresses in a line such as `serving on A, metrics on B`.
pub fn addresses(line: &str) -> Vec<std::net::SocketAddr> {
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[tokio::test]
async fn invalid_configuration_is_reported() {
    let mut process = Process::start(&[("GATEWAY_MAX_CONNECTIONS", "many")]);
    let line = process.says("GATEWAY_MAX_CONNECTIONS").await;
    assert!(line.contains("allowed: 1 to 1000000"), "{line}");
    assert_eq!(process.exit_status().await, 64);
}

#[tokio::test]
async fn gateway_waits_for_the_schema_and_then_starts() {
    let (database, nats) = tokio::join!(TestDatabase::create_empty(), TestNats::create());
    let env = [("DATABASE_URL", database.url()), ("NATS_URL", nats.url()), ("STREAM_PREFIX", nats.prefix())];
    let mut process = Process::start(&env);
    let line = process.says("waiting for the schema").await;
    assert!(line.contains("run `rekindle migrate`"), "{line}");
    migrate::run(&database.config(), &Clock::system()).await.unwrap();
    process.says("serving on").await;
}

#[tokio::test]
async fn gateway_exits_if_the_schema_is_too_new() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let env = [("DATABASE_URL", database.url()), ("NATS_URL", nats.url()), ("STREAM_PREFIX", nats.prefix())];
    let mut running = Process::start(&env);
    running.says("serving on").await;
    // As a migrator that did not know of this program.
    let next = migrate::known_version() + 1;
    let sql = "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES ($1, 'made_up', '', $1)";
    database.client().await.execute(sql, &[&next]).await.unwrap();
    let mut late = Process::start(&env);
    for process in [&mut running, &mut late] {
        let line = process.says("needs programs of schema version").await;
        assert!(line.contains("upgrade the program"), "{line}");
    }
    assert_eq!((running.exit_status().await, late.exit_status().await), (78, 78));
}

#[tokio::test]
async fn partition_count_must_match_the_stream() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let bus = Bus::connect(&bus_config(nats.url(), nats.prefix(), 64 * MB), "test").await.unwrap();
    topology::ensure(&bus).await.unwrap();
    let mut process = Process::start(&[
        ("DATABASE_URL", database.url()),
        ("NATS_URL", nats.url()),
        ("STREAM_PREFIX", nats.prefix()),
        ("INGEST_PARTITIONS", "8"),
    ]);
    let line = process.says("INGEST_PARTITIONS").await;
    assert!(line.contains("which has 4"), "{line}");
    assert_eq!(process.exit_status().await, 64);
}

#[tokio::test]
async fn gateway_waits_for_servers_serves_and_shuts_down_cleanly() {
    let (database, mut nats) = tokio::join!(TestDatabase::create(), PrivateNats::start());
    let tenant = tenant(&database.store(), 1_000).await;
    nats.stop().await;
    let mut process = Process::start(&[("DATABASE_URL", database.url()), ("NATS_URL", &nats.url())]);
    process.says("waiting for the broker").await;
    nats.start_again().await;
    let serving = process.says("serving on").await;
    let [main, admin] = addresses(&serving)[..] else { panic!("{serving}") };

    let call = Call::new(main, "POST", "/api/v1/events").header("x-api-key", &tenant.public);
    assert_eq!(call.send(r#"{"event":"e","user_id":"u"}"#).await.status, 202);
    for addr in [main, admin] {
        assert_eq!(Call::new(addr, "GET", "/readyz").send("").await.status, 200);
    }
    let metrics = Call::new(admin, "GET", "/metrics").send("").await.text;
    for expected in [
        r#"rekindle_http_requests_total{route="/events",status="2xx"} 1"#,
        r#"rekindle_http_request_seconds_bucket{route="/events",le="10"} 1"#,
        "rekindle_events_accepted_total 1",
    ] {
        assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
    }

    let pid = process.child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
    process.says("all requests completed").await;
    assert_eq!(process.exit_status().await, 0);
}
