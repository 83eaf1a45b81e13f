//! `make chaos`: runs the whole product under faults of every kind, planned from a seed.
//!
//! `CHAOS_SEED` repeats a plan of faults, `CHAOS_MINUTES` (10) sets how long faults occur, and `CHAOS_LOAD` (1) scales the load. With
//! `CHAOS_CLUSTER=1`, NATS is a cluster of three servers. With `CHAOS_CLOCK=1`, the database's clock also jumps. With `CHAOS_DISK=1`, the
//! disks of PostgreSQL and NATS also fill up, which requires Linux and root. Each run writes a report to a new directory in
//! `CHAOS_REPORTS` (`target/chaos`). The exit code is 1 if a promise was broken; all logs and records are kept then.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::chaos::{Settings, run};

const MINUTES: f64 = 10.0;
const MAX_LOAD: u32 = 16;
const REPORTS: &str = "target/chaos";

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let minutes = variable("CHAOS_MINUTES")?.unwrap_or(MINUTES);
    ensure!((0.1..=10_000.0).contains(&minutes), "CHAOS_MINUTES={minutes}: from 0.1 to 10000");
    let load = variable("CHAOS_LOAD")?.unwrap_or(1);
    ensure!((1..=MAX_LOAD).contains(&load), "CHAOS_LOAD={load}: from 1 to {MAX_LOAD}");
    let reports = variable("CHAOS_REPORTS")?.unwrap_or_else(|| PathBuf::from(REPORTS));
    let settings = Settings {
        load,
        seed: variable("CHAOS_SEED")?.unwrap_or_else(|| rand::random::<u32>().into()),
        span: Duration::from_secs_f64(minutes * 60.0),
        cluster: variable::<u8>("CHAOS_CLUSTER")?.is_some_and(|on| on != 0),
        clock: variable::<u8>("CHAOS_CLOCK")?.is_some_and(|on| on != 0),
        disk: variable::<u8>("CHAOS_DISK")?.is_some_and(|on| on != 0),
    };
    if settings.disk {
        ensure!(!settings.cluster, "CHAOS_DISK=1 and CHAOS_CLUSTER=1 cannot be combined");
        testkit::disks_can_be_mounted().map_err(|why| anyhow::anyhow!("CHAOS_DISK=1: {why}"))?;
    }
    tokio::select! {
        report = Box::pin(run(settings)) => {
            println!("{report}");
            let kept = report.write(&reports).with_context(|| format!("writing a report to {}", reports.display()))?;
            println!("  report: {}", kept.display());
            Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("listening for the interrupt")?;
            eprintln!("interrupted; CHAOS_SEED={}", settings.seed);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns an environment variable; an empty one counts as unset.
fn variable<T: FromStr>(name: &str) -> anyhow::Result<Option<T>> {
    let Some(text) = std::env::var(name).ok().filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let value = text.trim().parse().ok().with_context(|| format!("{name}={text}: invalid value"))?;
    Ok(Some(value))
}
