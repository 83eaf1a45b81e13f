//! Tests the supervisor with shell scripts as programs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use local_servers::Process;
use local_servers::process::Signal;

use super::*;
use crate::process_table::ProcessTable;
use crate::services::{GATEWAY, PROGRAMS};

const SLEEPING_PROGRAM: &str = "#!/bin/sh\nexec sleep 600\n";

struct Fixture {
    folder: tempfile::TempDir,
    dir: RunDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("run")).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        (state.ports.gateway, state.ports.smtp, state.generation) = (Some(1), Some(2), 1);
        state.ports.admin = PROGRAMS.iter().map(|name| ((*name).to_owned(), 3)).collect();
        state.save(&dir).unwrap();
        let fixture = Self { folder, dir };
        for name in PROGRAMS.iter().chain(&["rekindle"]) {
            fixture.program(name, SLEEPING_PROGRAM);
        }
        fixture
    }

    /// Installs a program by a rename, as a build does.
    fn program(&self, name: &str, script: &str) {
        let draft = self.folder.path().join("draft");
        // Write from a separate process: a file that this process holds open for writing, even in a child that another
        // thread is just starting, cannot be executed.
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let written = Command::new("sh").args(["-c", write, "sh", script]).arg(&draft).status().unwrap();
        assert!(written.success());
        std::fs::rename(draft, self.folder.path().join(name)).unwrap();
    }

    fn supervisor(&self) -> Supervisor {
        let mut supervisor = Supervisor::new(self.dir.clone(), self.folder.path().to_owned()).unwrap();
        supervisor.apply_state().unwrap();
        supervisor
    }

    /// Waits until the table satisfies `condition`.
    async fn until(&self, what: &str, condition: impl Fn(&ProcessTable) -> bool) -> ProcessTable {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let table = ProcessTable::load(&self.dir).unwrap().unwrap();
            if condition(&table) {
                return table;
            }
            assert!(Instant::now() < deadline, "not {what}: {table:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until_all_run(&self) -> ProcessTable {
        let runs = |t: &ProcessTable| t.processes.values().all(|e| e.status == Status::Running);
        self.until("all running", |t| t.processes.len() == 5 && runs(t)).await
    }

    fn process(&self, name: &str) -> Option<Process> {
        Process::attach(&self.dir.pid_file(name)).unwrap()
    }
}

fn pid(table: &ProcessTable, name: &str) -> u32 {
    table.processes[name].pid.unwrap()
}

#[tokio::test]
async fn killed_process_is_restarted_and_all_stop_at_the_end() {
    let fixture = Fixture::new();
    let supervisor = fixture.supervisor();
    let before = fixture.until_all_run().await;
    fixture.process(GATEWAY).unwrap().signal(Signal::KILL);
    let after = fixture
        .until("restarted", |t| t.processes[GATEWAY].deaths == 1 && t.processes[GATEWAY].status == Status::Running)
        .await;
    assert_ne!(pid(&before, GATEWAY), pid(&after, GATEWAY));
    assert_eq!(pid(&before, "scheduler"), pid(&after, "scheduler"));
    assert!(after.processes[GATEWAY].last_end.as_deref().unwrap().contains("signal: 9"));
    supervisor.stop().await;
    let table = fixture.until("stopped", |t| t.processes.values().all(|e| e.status == Status::Stopped)).await;
    assert!(table.processes.keys().all(|name| fixture.process(name).is_none()));
}

#[tokio::test]
async fn only_rebuilt_program_is_restarted() {
    let fixture = Fixture::new();
    let mut supervisor = fixture.supervisor();
    let before = fixture.until_all_run().await;
    fixture.program("scheduler", "#!/bin/sh\n# another build\nexec sleep 600\n");
    supervisor.apply_state().unwrap();
    let after = fixture.until_all_run().await;
    for name in before.processes.keys() {
        assert_eq!(pid(&before, name) == pid(&after, name), name != "scheduler", "{name}");
    }
    supervisor.stop().await;
}

#[tokio::test]
async fn invalid_configuration_is_retried_slowly_until_fixed() {
    let fixture = Fixture::new();
    fixture.program("gateway", "#!/bin/sh\necho NATS_URL: no address >&2\nexit 64\n");
    let mut supervisor = fixture.supervisor();
    let table = fixture.until("waiting", |t| t.processes[GATEWAY].status == Status::Waiting).await;
    assert_eq!((table.processes[GATEWAY].last_code, table.processes[GATEWAY].deaths), (Some(64), 1));
    let (lines, _) = log_file::last_lines(&fixture.dir.log(GATEWAY), 1).unwrap();
    assert_eq!(lines, ["NATS_URL: no address"]);
    // A fixed program starts without waiting for its delay.
    fixture.program("gateway", SLEEPING_PROGRAM);
    supervisor.apply_state().unwrap();
    fixture.until_all_run().await;
    supervisor.stop().await;
}

#[tokio::test]
async fn new_supervisor_replaces_leftover_processes() {
    let fixture = Fixture::new();
    let first = fixture.supervisor();
    let before = fixture.until_all_run().await;
    let orphan = fixture.process(GATEWAY).unwrap();
    // As if the supervisor had been killed: its processes are no longer kept running.
    first.abandon();
    let second = fixture.supervisor();
    let after = fixture.until_all_run().await;
    assert_ne!(pid(&before, GATEWAY), pid(&after, GATEWAY));
    assert!(!orphan.is_running());
    second.stop().await;
}

#[test]
fn state_without_ports_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path()).unwrap();
    State::load_or_create(&dir, 1).unwrap();
    std::fs::write(folder.path().join("rekindle"), SLEEPING_PROGRAM).unwrap();
    let mut supervisor = Supervisor::new(dir, Path::new(folder.path()).to_owned()).unwrap();
    assert!(supervisor.apply_state().unwrap_err().to_string().contains("rekindle up"));
}

impl Supervisor {
    fn abandon(self) {
        for keeper in self.keepers.into_values() {
            keeper.abort();
        }
    }
}
