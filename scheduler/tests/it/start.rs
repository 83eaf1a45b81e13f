//! How the program starts, and how it does not.

use testkit::{TestDatabase, TestNats};
use tokio::process::Command;

async fn exit_code(env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
    command.env_clear().env("ADMIN_ADDR", "127.0.0.1:0").envs(env.iter().copied()).kill_on_drop(true);
    let ended = tokio::time::timeout(super::place::SOON, command.output()).await.unwrap().unwrap();
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[tokio::test]
async fn a_schema_that_it_does_not_know_is_refused_by_name() {
    let (database, nats) = (TestDatabase::create_empty().await, TestNats::create().await);
    let (code, said) = exit_code(&[("DATABASE_URL", database.url()), ("NATS_URL", nats.url())]).await;
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("rekindle migrate"), "{said}");
}

#[tokio::test]
async fn a_wrong_value_is_refused_by_name() {
    let (code, said) = exit_code(&[("SCHEDULER_TICK_MS", "soon")]).await;
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("SCHEDULER_TICK_MS") && said.contains("10 to 10000"), "{said}");
}
