//! Runs `rekindle` as a user does.

use std::path::Path;
use std::process::{Command, Output};

/// Returns a `rekindle` command without those variables of this process's environment that would configure it.
pub fn rekindle(run_dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rekindle"));
    let deployment =
        ["DATABASE_URL", "MASTER_KEY", "MASTER_KEY_FILE", "PUBLIC_BASE_URL", "SYSTEM_SMTP_URL", "SYSTEM_MAIL_FROM"];
    for name in deployment.into_iter().chain(["PORT", "REDIS", "OUTBOUND_ALLOW"]) {
        command.env_remove(name);
    }
    command.args(args).env("RUN_DIR", run_dir);
    command
}

/// Returns the standard output of a command that must succeed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, error_output(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the standard error of a command that must fail.
pub fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?} succeeded: {}", String::from_utf8_lossy(&output.stdout));
    error_output(&output)
}

fn error_output(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
