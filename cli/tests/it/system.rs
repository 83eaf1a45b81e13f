//! A whole system with `up` and `down`, using the programs built next to `rekindle` (`cargo build --workspace --bins`).

use std::path::Path;
use std::time::{Duration, Instant};

use cli::Credentials;
use cli::process_table::{ProcessTable, Status};
use testkit::eventually;

use crate::program::{fail, rekindle, succeed};

/// A run directory that is stopped and removed on drop.
struct System(tempfile::TempDir);

impl System {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Reuses the downloaded servers of the shared test installation, if there is one.
        let installed = Path::new(env!("CARGO_BIN_EXE_rekindle")).with_file_name("../testkit/bin");
        if let Ok(installed) = installed.canonicalize() {
            std::os::unix::fs::symlink(installed, folder.path().join("bin")).unwrap();
        }
        let passable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), passable).unwrap();
        Self(folder)
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) -> String {
        succeed(&mut rekindle(self.dir(), args))
    }

    fn credentials(&self) -> Credentials {
        serde_json::from_str(&std::fs::read_to_string(self.dir().join("credentials.json")).unwrap()).unwrap()
    }

    fn table(&self) -> ProcessTable {
        serde_json::from_str(&std::fs::read_to_string(self.dir().join("processes.json")).unwrap()).unwrap()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = rekindle(self.dir(), &["down"]).output();
    }
}

fn pids(table: &ProcessTable) -> Vec<(String, Option<u32>)> {
    table.processes.iter().map(|(name, entry)| (name.clone(), entry.pid)).collect()
}

#[tokio::test]
async fn system_starts_keeps_running_and_stops() {
    let system = System::new();
    let printed = system.run(&["up"]);
    let credentials = system.credentials();
    assert!(printed.contains(&credentials.public_key) && printed.contains(&credentials.base_url), "{printed}");
    system.run(&["status"]);

    // The printed commands work unchanged.
    let commands: Vec<&str> = printed.lines().map(str::trim).filter(|l| l.starts_with("curl ")).collect();
    assert_eq!(commands.len(), 2, "{printed}");
    let answers = commands.iter().map(|c| succeed(std::process::Command::new("sh").args(["-c", c])));
    let answers: Vec<String> = answers.collect();
    assert!(answers[0].contains("accepted") && answers[1].contains("hello"), "{answers:?}");

    // A second `up` finds everything running.
    let before = pids(&system.table());
    let began = Instant::now();
    system.run(&["up"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(system.credentials(), credentials);
    assert_eq!(pids(&system.table()), before);

    // A killed process is restarted.
    let killed = system.table().processes["gateway"].pid.unwrap();
    succeed(std::process::Command::new("kill").args(["-9", &killed.to_string()]));
    eventually(Duration::from_secs(20), async || {
        let table = system.table();
        let gateway = &table.processes["gateway"];
        let back = gateway.status == Status::Running && gateway.pid != Some(killed);
        if back { Ok(()) } else { Err(table) }
    })
    .await;

    let log = system.run(&["logs", "gateway"]);
    assert!(!log.is_empty());
    assert!(fail(&mut rekindle(system.dir(), &["logs", "missing"])).contains("gateway"));

    let project = system.run(&["project", "create", "--name", "Another"]);
    let key = system.run(&["key", "create", "--project", project.trim(), "--name", "backend"]);
    assert!(key.contains("sk_live_"), "{key}");

    let down = system.run(&["down"]);
    assert!(down.contains("gateway") && down.contains("postgres"), "{down}");
    assert!(system.run(&["down"]).contains("Nothing is running"));

    // A third `up` keeps the data and keys of the first.
    system.run(&["up"]);
    assert_eq!(system.credentials(), credentials);
}

#[test]
fn requested_port_that_is_taken_is_rejected() {
    let system = System::new();
    let held = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let error_output = fail(&mut rekindle(system.dir(), &["up", "--port", &port]));
    assert!(error_output.contains(&port) && error_output.contains("taken"), "{error_output}");
    assert!(system.run(&["down"]).contains("Nothing is running"));
}
