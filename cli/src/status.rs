//! `rekindle status`: prints the processes of a run directory and whether they are ready.

use anyhow::Result;
use local_servers::{NatsServer, PostgresServer, Process, RedisServer};

use crate::process_table::{Entry, ProcessTable, Status};
use crate::readiness::{self, ReadinessClient};
use crate::run_dir::RunDir;
use crate::run_dir::RunDirArg;
use crate::services::SUPERVISOR;
use crate::state::State;
use crate::supervise::log_file;
use crate::up::{NATS, POSTGRES, REDIS};

/// Prints the status. Returns `true` if everything that should run is running and ready.
pub async fn run(args: &RunDirArg) -> Result<bool> {
    let Some(dir) = RunDir::existing(&args.run_dir)? else {
        println!("Nothing is running: {} does not exist.", args.run_dir.display());
        return Ok(false);
    };
    let mut rows = servers(&dir)?;
    let supervised = Process::attach(&dir.pid_file(SUPERVISOR))?;
    match &supervised {
        Some(process) => {
            rows.push(Row::new(SUPERVISOR, &process.pid().to_string(), "", "running"));
            rows.extend(processes(&dir).await?);
        }
        None if rows.is_empty() => {
            println!("Nothing is running in {}.", dir.path().display());
            return Ok(false);
        }
        None => rows.push(Row::new(SUPERVISOR, "-", "", "not running: start it with `rekindle up`")),
    }
    print!("{}", table(&rows));
    Ok(supervised.is_some() && rows.iter().all(|r| ["ready", "running"].contains(&r.ready.as_str())))
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    pid: String,
    since: String,
    ready: String,
}

impl Row {
    fn new(name: &str, pid: &str, since: &str, ready: &str) -> Self {
        Self { name: name.into(), pid: pid.into(), since: since.into(), ready: ready.into() }
    }
}

fn servers(dir: &RunDir) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |name: &str, port: Option<u16>| {
        if let Some(port) = port {
            rows.push(Row::new(name, "", &format!("port {port}"), "running"));
        }
    };
    add(POSTGRES, PostgresServer::attach(&dir.server(POSTGRES))?.map(|s| s.port()));
    add(NATS, NatsServer::attach(&dir.server(NATS))?.map(|s| s.port()));
    add(REDIS, RedisServer::attach(&dir.server(REDIS))?.map(|s| s.port()));
    Ok(rows)
}

async fn processes(dir: &RunDir) -> Result<Vec<Row>> {
    let client = ReadinessClient::new()?;
    let ports = State::load(dir)?.map(|s| s.ports).unwrap_or_default();
    let mut rows = Vec::new();
    for (name, entry) in ProcessTable::load(dir)?.unwrap_or_default().processes {
        let ready = if entry.status == Status::Waiting {
            let (lines, _) = log_file::last_lines(&dir.log(&name), 1).unwrap_or_default();
            waiting_reason(&entry, lines.last().map(String::as_str))
        } else {
            readiness::of(&client, &name, &entry, &ports).await.map_or_else(|why| why, |()| "ready".into())
        };
        let pid = entry.pid.map_or("-".into(), |p| p.to_string());
        rows.push(Row::new(&name, &pid, &format!("{:.0}", entry.since), &ready));
    }
    Ok(rows)
}

fn waiting_reason(entry: &Entry, last_line: Option<&str>) -> String {
    let end = entry.last_end.as_deref().unwrap_or("ended");
    let last_log_line = last_line.map(|l| format!(", last log line: {}", l.trim())).unwrap_or_default();
    format!("{end} ({} times), waiting for its restart{last_log_line}", entry.deaths)
}

/// Formats the rows in columns as wide as their widest cells.
fn table(rows: &[Row]) -> String {
    let head = Row::new("PROCESS", "PID", "SINCE", "STATE");
    let all = || std::iter::once(&head).chain(rows);
    let width = |cell: fn(&Row) -> &String| all().map(|r| cell(r).chars().count()).max().unwrap_or(0);
    let (name, pid, since) = (width(|r| &r.name), width(|r| &r.pid), width(|r| &r.since));
    let line = |r: &Row| format!("{:name$}  {:pid$}  {:since$}  {}", r.name, r.pid, r.since, r.ready);
    all().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [Row::new("gateway", "12", "", "ready"), Row::new("worker-automation", "-", "x", "starting")];
        assert_eq!(
            table(&rows),
            "PROCESS            PID  SINCE  STATE\n\
             gateway            12          ready\n\
             worker-automation  -    x      starting\n"
        );
    }

    #[test]
    fn waiting_process_shows_its_reason() {
        let entry = Entry {
            status: Status::Waiting,
            pid: None,
            since: jiff::Timestamp::UNIX_EPOCH,
            deaths: 3,
            last_end: Some("exit status: 64".into()),
            last_code: Some(64),
            admin: None,
        };
        let text = waiting_reason(&entry, Some(" NATS_URL: no address "));
        assert_eq!(text, "exit status: 64 (3 times), waiting for its restart, last log line: NATS_URL: no address");
    }
}
