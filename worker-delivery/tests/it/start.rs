//! Configurations that the program rejects at startup.

use tokio::process::Command;

use crate::fixture::SOON;

#[tokio::test]
async fn mail_server_without_tls_outside_of_loopback_is_rejected_by_name() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker-delivery"));
    command.env_clear().env("ADMIN_ADDR", "127.0.0.1:0").env("MASTER_KEY", "42".repeat(32));
    command.env("SYSTEM_SMTP_URL", "smtp://192.0.2.1?security=none").env("SYSTEM_MAIL_FROM", "rekindle@example.com");
    let ended = tokio::time::timeout(SOON, command.kill_on_drop(true).output()).await.unwrap().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(64), "{stderr}");
    assert!(stderr.contains("SYSTEM_SMTP_URL") && stderr.contains("OUTBOUND_ALLOW"), "{stderr}");
}
