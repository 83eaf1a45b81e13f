//! `processes.json`: the processes that the supervisor runs, for `up`, `status` and external tools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::private_file;
use crate::run_dir::RunDir;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessTable {
    /// PID and build of the supervisor.
    pub supervisor: u32,
    pub build: String,
    /// The `generation` of the state that the supervisor has applied.
    pub generation: u64,
    pub processes: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub status: Status,
    /// Set while the process runs.
    pub pid: Option<u32>,
    /// When the process entered its current status.
    pub since: Timestamp,
    /// How often the process ended by itself since its service was first started or last changed.
    pub deaths: u32,
    /// How it last ended by itself, as text.
    pub last_end: Option<String>,
    /// Exit code of that end, or `None` if a signal ended it.
    pub last_code: Option<i32>,
    pub admin: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// About to start, or stopping in order to restart.
    Starting,
    Running,
    /// It ended by itself and waits for its restart.
    Waiting,
    Stopped,
}

impl ProcessTable {
    /// Loads the last written table, or returns `None` if there is none.
    pub fn load(dir: &RunDir) -> Result<Option<Self>> {
        let path = dir.processes_file();
        let text = private_file::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.map(|t| serde_json::from_str(&t).with_context(|| format!("{} is damaged", path.display()))).transpose()
    }
}

/// The supervisor's table. Every change is written at once.
pub struct Published {
    dir: RunDir,
    table: Mutex<ProcessTable>,
}

impl Published {
    pub fn new(dir: RunDir, build: String) -> Self {
        let table = ProcessTable { supervisor: std::process::id(), build, ..ProcessTable::default() };
        Self { dir, table: Mutex::new(table) }
    }

    /// Changes the table and writes it. A failed write is only logged: a full disk must not stop the supervisor.
    pub fn update(&self, change: impl FnOnce(&mut ProcessTable)) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut table);
        let written = serde_json::to_vec_pretty(&*table)
            .map_err(std::io::Error::from)
            .and_then(|text| private_file::write(&self.dir.processes_file(), &text));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot write processes.json");
        }
    }

    /// Changes one entry, if it exists.
    pub fn update_entry(&self, name: &str, change: impl FnOnce(&mut Entry)) {
        self.update(|table| {
            if let Some(entry) = table.processes.get_mut(name) {
                change(entry);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_back_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        assert!(ProcessTable::load(&dir).unwrap().is_none());
        let published = Published::new(dir.clone(), "1-2".into());
        let entry = Entry {
            status: Status::Running,
            pid: Some(7),
            since: Timestamp::UNIX_EPOCH,
            deaths: 0,
            last_end: None,
            last_code: None,
            admin: None,
        };
        published.update(|t| {
            t.processes.insert("gateway".into(), entry);
        });
        published.update_entry("gateway", |e| e.deaths += 1);
        published.update_entry("missing", |e| e.deaths += 1);
        let read = ProcessTable::load(&dir).unwrap().unwrap();
        assert_eq!((read.processes.len(), read.processes["gateway"].deaths), (1, 1));
        assert_eq!(read.supervisor, std::process::id());
        let json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(dir.processes_file()).unwrap()).unwrap();
        assert_eq!(json["processes"]["gateway"]["pid"], 7);
    }
}
