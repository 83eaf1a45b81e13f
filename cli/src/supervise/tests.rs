//! Tests the supervisor with shell scripts as programs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use local_servers::Process;
use local_servers::process::Signal;

use super::*;
use crate::process_table::ProcessTable;
use crate::services::{GATEWAY, PROGRAMS};

const STAYS: &str = "#!/bin/sh\nexec sleep 600\n";

struct Place {
    folder: tempfile::TempDir,
    dir: RunDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("run")).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        (state.ports.gateway, state.ports.smtp, state.generation) = (Some(1), Some(2), 1);
        state.ports.admin = PROGRAMS.iter().map(|name| ((*name).to_owned(), 3)).collect();
        state.save(&dir).unwrap();
        let place = Self { folder, dir };
        for name in PROGRAMS.iter().chain(&["rekindle"]) {
            place.program(name, STAYS);
        }
        place
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
        supervisor.take_in().unwrap();
        supervisor
    }

    /// Waits until the table satisfies `holds`.
    async fn until(&self, what: &str, holds: impl Fn(&ProcessTable) -> bool) -> ProcessTable {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let table = ProcessTable::load(&self.dir).unwrap().unwrap();
            if holds(&table) {
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
async fn what_is_killed_is_started_again_and_all_stop_at_the_end() {
    let place = Place::new();
    let supervisor = place.supervisor();
    let before = place.until_all_run().await;
    place.process(GATEWAY).unwrap().signal(Signal::KILL);
    let after = place
        .until("restarted", |t| t.processes[GATEWAY].deaths == 1 && t.processes[GATEWAY].status == Status::Running)
        .await;
    assert_ne!(pid(&before, GATEWAY), pid(&after, GATEWAY));
    assert_eq!(pid(&before, "scheduler"), pid(&after, "scheduler"));
    assert!(after.processes[GATEWAY].last_end.as_deref().unwrap().contains("signal: 9"));
    supervisor.stop().await;
    let table = place.until("stopped", |t| t.processes.values().all(|e| e.status == Status::Stopped)).await;
    assert!(table.processes.keys().all(|name| place.process(name).is_none()));
}

#[tokio::test]
async fn only_what_was_built_anew_is_restarted() {
    let place = Place::new();
    let mut supervisor = place.supervisor();
    let before = place.until_all_run().await;
    place.program("scheduler", "#!/bin/sh\n# another build\nexec sleep 600\n");
    supervisor.take_in().unwrap();
    let after = place.until_all_run().await;
    for name in before.processes.keys() {
        assert_eq!(pid(&before, name) == pid(&after, name), name != "scheduler", "{name}");
    }
    supervisor.stop().await;
}

#[tokio::test]
async fn a_wrong_configuration_is_tried_slowly_until_it_is_mended() {
    let place = Place::new();
    place.program("gateway", "#!/bin/sh\necho NATS_URL: no address >&2\nexit 64\n");
    let mut supervisor = place.supervisor();
    let table = place.until("waiting", |t| t.processes[GATEWAY].status == Status::Waiting).await;
    assert_eq!((table.processes[GATEWAY].last_code, table.processes[GATEWAY].deaths), (Some(64), 1));
    let (lines, _) = log_file::last_lines(&place.dir.log(GATEWAY), 1).unwrap();
    assert_eq!(lines, ["NATS_URL: no address"]);
    // A fixed program starts without waiting for its delay.
    place.program("gateway", STAYS);
    supervisor.take_in().unwrap();
    place.until_all_run().await;
    supervisor.stop().await;
}

#[tokio::test]
async fn a_new_supervisor_leaves_no_two_of_one_kind() {
    let place = Place::new();
    let first = place.supervisor();
    let before = place.until_all_run().await;
    let orphan = place.process(GATEWAY).unwrap();
    // As if the supervisor had been killed: its processes are no longer kept running.
    first.abandon();
    let second = place.supervisor();
    let after = place.until_all_run().await;
    assert_ne!(pid(&before, GATEWAY), pid(&after, GATEWAY));
    assert!(!orphan.is_running());
    second.stop().await;
}

#[test]
fn a_state_without_ports_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path()).unwrap();
    State::load_or_create(&dir, 1).unwrap();
    std::fs::write(folder.path().join("rekindle"), STAYS).unwrap();
    let mut supervisor = Supervisor::new(dir, Path::new(folder.path()).to_owned()).unwrap();
    assert!(supervisor.take_in().unwrap_err().to_string().contains("rekindle up"));
}

impl Supervisor {
    fn abandon(self) {
        for keeper in self.keepers.into_values() {
            keeper.abort();
        }
    }
}
