//! `rekindle doctor` against real servers, each with one fault.

mod broker;
mod database;
mod deployment;
mod work;

use std::process::Command;

use local_servers::PostgresOptions;
use serde_json::Value;
use testkit::{PrivatePostgres, PrivateRedis};

use self::deployment::Deployment;

/// Runs a command with `--json`. Returns the failed checks and the whole output.
fn examine(command: &mut Command) -> (Vec<String>, Value) {
    let output = command.arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["healthy"], output.status.success(), "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    let wrong = findings.iter().filter(|finding| finding["verdict"] == "wrong");
    (wrong.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect(), report)
}

/// Returns the finding of one check.
fn of<'a>(report: &'a Value, check: &str) -> &'a Value {
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no finding of {check} in {report:#}"))
}

/// Runs a command with one fault in the deployment, and checks that only this check fails. The check of PostgreSQL's
/// durability is ignored, because the test server does not sync to disk. Returns the finding's text.
#[track_caller]
fn finds(command: &mut Command, check: &str) -> String {
    let (wrong, report) = examine(command);
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).filter(|name| *name != "database.durability").collect();
    assert_eq!(wrong, [check], "{report:#}");
    let finding = of(&report, check);
    assert!(finding["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{finding}");
    finding["what"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn valid_deployment_has_no_wrong_findings() {
    let (postgres, redis) = tokio::join!(
        PrivatePostgres::start_with(PostgresOptions {
            max_connections: 60,
            shared_buffers_mb: 16,
            ..Default::default()
        }),
        PrivateRedis::start()
    );
    let deployment = Deployment::on(postgres.url()).await;
    let (wrong, report) = examine(deployment.doctor().env("REDIS_URL", redis.url()));
    assert_eq!(wrong, [""; 0], "{report:#}");
    assert_eq!(of(&report, "redis.eviction")["verdict"], "well");
    let output = deployment.doctor().env("REDIS_URL", redis.url()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("✓ database.schema") && text.ends_with("Nothing is wrong.\n"),
        "{text}"
    );
}

#[tokio::test]
async fn wrong_settings_are_reported_by_name() {
    let deployment = Deployment::make().await;
    let text = |name: &str, value: &str| finds(deployment.doctor().env(name, value), "settings");
    assert!(text("DELIVERY_CONCURRENCY", "many").contains("DELIVERY_CONCURRENCY"));
    assert!(text("PUBLIC_BASE_URL", "http://shop.example.com").contains("in the clear"));
    assert!(finds(deployment.doctor().env_remove("MASTER_KEY"), "settings").contains("MASTER_KEY"));
}

#[tokio::test]
async fn missing_redis_is_notable_and_write_rejection_is_wrong() {
    let (deployment, redis) = tokio::join!(Deployment::make(), PrivateRedis::start());
    let away = format!("redis://127.0.0.1:{}", local_servers::port::free());
    let (wrong, report) = examine(deployment.doctor().env("REDIS_URL", away));
    let connection = of(&report, "redis.connection");
    assert_eq!(
        (&*wrong, &connection["verdict"]),
        (&["database.durability".to_owned()][..], &"notable".into()),
        "{report:#}"
    );

    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory-policy").arg("noeviction").exec_async(&mut connection).await.unwrap();
    assert!(finds(deployment.doctor().env("REDIS_URL", redis.url()), "redis.eviction").contains("noeviction"));
}

#[tokio::test]
async fn disk_without_the_required_free_space_is_reported() {
    let deployment = Deployment::make().await;
    let folder = tempfile::tempdir().unwrap();
    let disk = |free: &str| {
        let mut command = deployment.doctor();
        command.arg("--disk").arg(folder.path()).args(["--disk-free", free]);
        command
    };
    // Only an empty disk is completely free.
    std::fs::write(folder.path().join("file"), vec![1; 1 << 20]).unwrap();
    assert!(finds(&mut disk("100"), "disk").contains("are free"));
}
