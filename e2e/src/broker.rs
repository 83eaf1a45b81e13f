//! NATS with the configuration files of `deploy/nats`, and a user for each program.

use std::path::PathBuf;

use bus::config::BusConfig;
use bus::{Bus, topology};
use kernel::env::Env;
use testkit::ConfiguredNats;

use crate::Options;

/// The programs, which are users with the same names, and the variables from which the files read their passwords.
pub const USERS: [(&str, &str); 4] = [
    ("gateway", "NATS_GATEWAY_PASSWORD"),
    ("worker-automation", "NATS_WORKER_AUTOMATION_PASSWORD"),
    ("worker-delivery", "NATS_WORKER_DELIVERY_PASSWORD"),
    ("scheduler", "NATS_SCHEDULER_PASSWORD"),
];
/// All different, so that a mix-up fails.
const PASSWORDS: [&str; 4] = ["gatewaypw", "automationpw", "deliverypw", "schedulerpw"];
const ROUTE: (&str, &str) = ("route", "routepw");

/// Returns the variables that the files read.
fn env() -> Vec<(&'static str, &'static str)> {
    let mut env: Vec<_> = USERS.into_iter().zip(PASSWORDS).map(|((_, name), password)| (name, password)).collect();
    env.extend([
        ("NATS_OPERATOR_PASSWORD", "operatorpw"),
        ("NATS_ROUTE_PASSWORD", ROUTE.1),
        ("NATS_SERVER_NAME", "nats-0"),
        ("NATS_SYNC_INTERVAL", "1s"),
        ("NATS_MAX_FILE_STORE", "20GB"),
    ]);
    env
}

fn config(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/nats").join(file)
}

/// Starts one server with `nats.conf`.
pub async fn single() -> ConfiguredNats {
    ConfiguredNats::start(&config("nats.conf"), &env()).await
}

/// Starts three servers with `cluster.conf`.
pub async fn cluster() -> [ConfiguredNats; 3] {
    let mut env = env();
    env.retain(|(name, _)| *name != "NATS_SERVER_NAME");
    ConfiguredNats::start_cluster(&config("cluster.conf"), &env, ROUTE).await
}

/// Returns the `NATS_URL` of a program.
///
/// Panics if there is no such program.
pub fn url(servers: &[ConfiguredNats], program: &str) -> String {
    let place = USERS.iter().position(|(user, _)| *user == program).expect("the name of a program");
    servers.iter().map(|server| server.url(program, PASSWORDS[place])).collect::<Vec<_>>().join(",")
}

/// Returns options with which every program connects as its own user.
pub fn options(servers: &[ConfiguredNats]) -> Options {
    let base = Options::default().env("STREAM_REPLICAS", servers.len());
    USERS.iter().fold(base, |options, (program, _)| options.program_env(program, "NATS_URL", url(servers, program)))
}

/// Connects as a program does.
pub async fn connect(servers: &[ConfiguredNats], program: &str) -> anyhow::Result<Bus> {
    let pairs = [("NATS_URL", url(servers, program)), ("STREAM_REPLICAS", servers.len().to_string())];
    Bus::connect(&BusConfig::from_env(&Env::from_pairs(pairs))?, program).await
}

/// Creates the streams, as the scheduler would; the other programs wait for them.
pub async fn create_streams(servers: &[ConfiguredNats]) -> anyhow::Result<()> {
    topology::ensure(&connect(servers, "scheduler").await?).await?;
    Ok(())
}
