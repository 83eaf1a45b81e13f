//! `rekindle logs`: prints the logs of a run directory, merged by time, and optionally follows them.

mod follow;
mod merge;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use local_servers::{NatsServer, PostgresServer, RedisServer};

use crate::args::LogsArgs;
use crate::run_dir::RunDir;
use crate::supervise::log_file;
use crate::up::{NATS, POSTGRES, REDIS};
use follow::Follower;

/// Poll interval for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub async fn run(args: &LogsArgs) -> Result<()> {
    let Some(dir) = RunDir::existing(&args.dir.run_dir)? else {
        bail!("there are no logs: {} does not exist", args.dir.run_dir.display());
    };
    let logs = chosen(all(&dir)?, args.name.as_deref())?;
    let width = logs.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let prefixed = logs.len() > 1;
    let show = |lines: &[merge::Line]| -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        for merge::Line { log, text, .. } in lines {
            if prefixed {
                write!(out, "{log:width$} | ")?;
            }
            writeln!(out, "{text}")?;
        }
        out.flush()
    };
    let mut followers = Vec::new();
    let mut last = Vec::new();
    for (name, path) in logs {
        let (lines, length) = log_file::last_lines(&path, args.lines)?;
        last.push((name.clone(), lines));
        followers.push((name, Follower::new(path, length)));
    }
    // A closed output (`| head`) ends the command without an error.
    if show(&merge::by_time(last)).is_err() || !args.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let mut added = Vec::new();
        for (name, follower) in &mut followers {
            added.push((name.clone(), follower.read()?));
        }
        if show(&merge::by_time(added)).is_err() {
            return Ok(());
        }
    }
}

/// Returns every log: of all processes that ever ran, and of the running servers.
fn all(dir: &RunDir) -> Result<Vec<(String, PathBuf)>> {
    let mut logs = Vec::new();
    if dir.logs().is_dir() {
        for entry in std::fs::read_dir(dir.logs())? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "log")
                && let Some(name) = path.file_stem().and_then(|n| n.to_str())
            {
                logs.push((name.to_owned(), path.clone()));
            }
        }
    }
    logs.sort();
    let mut add = |name: &str, log: Option<PathBuf>| logs.extend(log.map(|l| (name.to_owned(), l)));
    add(POSTGRES, PostgresServer::attach(&dir.server(POSTGRES))?.map(|s| s.log_file().to_owned()));
    add(NATS, NatsServer::attach(&dir.server(NATS))?.map(|s| s.log_file().to_owned()));
    add(REDIS, RedisServer::attach(&dir.server(REDIS))?.map(|s| s.log_file().to_owned()));
    Ok(logs)
}

fn chosen(logs: Vec<(String, PathBuf)>, name: Option<&str>) -> Result<Vec<(String, PathBuf)>> {
    let Some(name) = name else {
        if logs.is_empty() {
            bail!("there are no logs yet: start the processes with `rekindle up`");
        }
        return Ok(logs);
    };
    let names: Vec<String> = logs.iter().map(|l| l.0.clone()).collect();
    let found: Vec<_> = logs.into_iter().filter(|l| l.0 == name).collect();
    if found.is_empty() {
        bail!("there is no log named {name:?}; the logs are: {}", names.join(", "));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_or_all_of_them() {
        let logs = || vec![("gateway".to_owned(), PathBuf::from("g")), ("nats".to_owned(), PathBuf::from("n"))];
        assert_eq!(chosen(logs(), None).unwrap().len(), 2);
        assert_eq!(chosen(logs(), Some("nats")).unwrap().len(), 1);
        let error = chosen(logs(), Some("x")).unwrap_err().to_string();
        assert!(error.contains("gateway, nats"), "{error}");
        assert!(chosen(vec![], None).is_err());
    }
}
