//! Startup errors: a schema that is too new, and an invalid setting.

use testkit::{TestDatabase, TestNats};
use tokio::process::Command;

async fn exit_code(env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
    command.env_clear().env("ADMIN_ADDR", "127.0.0.1:0").envs(env.iter().copied()).kill_on_drop(true);
    let ended = tokio::time::timeout(super::fixture::SOON, command.output()).await.unwrap().unwrap();
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[tokio::test]
async fn newer_schema_is_rejected_with_its_reason() {
    let (database, nats) = (TestDatabase::create().await, TestNats::create().await);
    let sql = "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES (1000, 'made_up', '', 1000)";
    database.client().await.execute(sql, &[]).await.unwrap();
    let (code, stderr) = exit_code(&[("DATABASE_URL", database.url()), ("NATS_URL", nats.url())]).await;
    assert_eq!(code, Some(78), "{stderr}");
    assert!(stderr.contains("upgrade the program"), "{stderr}");
}

#[tokio::test]
async fn invalid_setting_is_rejected_by_name() {
    let (code, stderr) = exit_code(&[("SCHEDULER_TICK_MS", "soon")]).await;
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("SCHEDULER_TICK_MS") && stderr.contains("10 to 10000"), "{stderr}");
}
