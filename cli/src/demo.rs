//! `rekindle demo`: replays a shop's day against a running system and reconciles the results from outside.

mod api;
mod generator;
mod pace;
mod reconcile;
mod report;
mod retry;
mod run_state;
mod send;
mod setup;
mod target;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use kernel::clock::Clock;
use tokio::time::Instant;

use crate::run_dir::RunDirArg;
use api::Api;
use generator::{Day, Recipe};
pub use pace::UnlimitedFlag;
use reconcile::settle::stable_totals;
use reconcile::{CheckInput, check};
pub use report::{Line, Report};
use run_state::{CartTimes, RunState};
use send::Replay;
use target::{Target, TargetOptions};

const AFTER_HELP: &str = "\
The day ends now: its events happened within the last 24 hours, and are replayed as fast as the service accepts them (or
at --events-per-second). Users arrive anonymously and sign up later; some batches are sent twice, some timestamps run
backwards, and two clients have wrong clocks. Three automations respond: a welcome at sign-up, by mail and in the user's
inbox; a push to phones that allow it; and a reminder by mail 5 s after checkout_started.

Calls that fail because the service is unavailable (429, 5xx, no response) are retried with the same IDs, for up to
5 minutes each. Any other error ends the demo.

The run's ID is part of every user ID, address and event ID, so runs do not collide. Repeating a --run-id sends the same
day again: the service must reject all of it as duplicates. Use this to continue an interrupted run, too.

Exit status: 0 if all counts match, 1 if they do not or the demo failed.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Options {
    /// Credentials are read there, and the state of each run is stored under demo/.
    #[command(flatten)]
    dir: RunDirArg,
    /// The service's URL, instead of the one in credentials.json.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// A public key, instead of the one in credentials.json.
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// A secret key of the same project, instead of the one in credentials.json.
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,
    /// The local mailbox's directory of .eml files, instead of the one in credentials.json.
    #[arg(long, value_name = "DIR")]
    mail_dir: Option<PathBuf>,
    /// Directory of the pushes to test devices (PUSH_MAILBOX_DIR), instead of the one in credentials.json.
    #[arg(long, value_name = "DIR")]
    push_dir: Option<PathBuf>,
    /// Seed of the generated day. The same seed generates the same day.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of users. 2,000 users send about 50,000 events.
    #[arg(long = "people", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(20..=9_000))]
    users: u32,
    /// The run's ID: 3 to 24 characters of a-z and 0-9. The default is a new ID.
    #[arg(long, value_name = "ID", value_parser = run_id)]
    run_id: Option<String>,
    /// Number of connections to the gateway. Each user's requests are sent in order on one of them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Maximum events per second. The default is as fast as the service accepts them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    events_per_second: Option<u32>,
    /// How long to wait, after the last request, for everything to be stored and sent.
    #[arg(long, default_value_t = 180, value_name = "SECONDS")]
    timeout: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// For programs that slow the replay down until they set this to true.
    #[arg(skip)]
    pub unlimited: UnlimitedFlag,
}

/// Runs the demo and prints the reconciliation to standard output. Returns `false` if it does not balance.
pub async fn run(options: Options) -> anyhow::Result<bool> {
    let report = execute(&options).await?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.table());
    }
    Ok(report.balanced)
}

/// Runs the demo and returns the reconciliation.
pub async fn execute(options: &Options) -> anyhow::Result<Report> {
    // Any TLS provider that was installed earlier works too.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let clock = Clock::system();
    let run = options.run_id.clone().unwrap_or_else(|| new_run_id(&clock));
    let target = options.target()?;
    let connections = usize::from(options.connections);
    let api = Api::new(&target.base_url, target.public_key, target.secret_key, connections)?;
    setup::check_email(&api).await?;
    setup::prepare(&api, &run).await?;
    let report = replay_and_check(options, &run, &clock, &api, [target.mail_dir, target.push_dir]).await;
    // In any case, the next run must not trigger this run's automations. It also checks for leftovers itself.
    let deactivated = setup::finish(&api, &run).await.context("deactivating the automations");
    let report = report?;
    deactivated?;
    Ok(report)
}

async fn replay_and_check(
    options: &Options,
    run: &str,
    clock: &Clock,
    api: &Api,
    [mail_dir, push_dir]: [PathBuf; 2],
) -> anyhow::Result<Report> {
    let (dir, users) = (options.dir.run_dir.join("demo"), options.users as usize);
    let deadline = Duration::from_secs(options.timeout);
    let saved = RunState::load(&dir, run, options.seed, users)?;
    let start_ms = saved.as_ref().map_or_else(|| clock.now_ms(), |run_state| run_state.start_ms);
    let recipe = Recipe { seed: options.seed, run: run.to_owned(), users, start_ms };
    let day = Day::generate(&recipe);
    eprintln!("Run {run}: {users} users, {} events and {} repeats.", day.events(), day.repeats());

    let names: Vec<_> = day.events_by_name().into_keys().collect();
    let before_replay = stable_totals(api, &names, deadline).await?;
    let mut run_state = match saved {
        Some(run_state) => run_state,
        None => RunState { seed: options.seed, users, start_ms, before: before_replay.clone(), gained: None },
    };
    if let Some(other) = run_state.conflicting_run(&dir, run) {
        bail!("run {run} never settled, and run {other} started after it: their events cannot be separated");
    }
    run_state.save(&dir, run)?;
    let before_run = run_state.totals_without(&before_replay);
    let carts = CartTimes::open(&dir, run)?;

    let replay = Replay {
        api,
        clock,
        carts: &carts,
        pace: pace::Pace::new(options.events_per_second, options.unlimited.clone()),
        progress: progress::Bar::new("replaying", day.events() + day.repeats()),
        counts: send::ReplayCounts::new(users),
    };
    let began = Instant::now();
    replay.run(&day, usize::from(options.connections)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let slowest_ms = replay.counts.slowest_ms.iter().map(|ms| ms.load(Ordering::Relaxed)).collect();
    let taken = replay.counts.events.load(Ordering::Relaxed);
    let repeated = replay.counts.repeats.load(Ordering::Relaxed);

    let input = CheckInput {
        day: &day,
        recipe: &recipe,
        mail_dir,
        push_dir,
        before_run: &before_run,
        before_replay: &before_replay,
        taken,
        repeated,
        slowest_ms,
        carts: carts.all(),
        deadline,
    };
    let checked = check(api, input).await?;
    if !checked.timed_out {
        run_state.gained = Some(checked.gained);
        run_state.save(&dir, run)?;
    }
    let lines = checked.lines;
    Ok(Report {
        run: run.to_owned(),
        seed: options.seed,
        users,
        balanced: lines.iter().all(|line| line.ok),
        timed_out: checked.timed_out,
        replay_seconds: seconds,
        events_per_second: (taken + repeated) as f64 / seconds.max(0.001),
        retries: api.retries(),
        lines,
    })
}

impl Options {
    fn target(&self) -> anyhow::Result<Target> {
        let flags = TargetOptions {
            base_url: self.base_url.clone(),
            public_key: self.public_key.clone(),
            secret_key: self.secret_key.clone(),
            mail_dir: self.mail_dir.clone(),
            push_dir: self.push_dir.clone(),
        };
        flags.or_from_file(&self.dir.run_dir)
    }
}

/// Validates a run ID, which becomes part of addresses, IDs and file names.
fn run_id(text: &str) -> Result<String, String> {
    let fits = (3..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if fits { Ok(text.to_owned()) } else { Err("use 3 to 24 characters of a-z and 0-9".to_owned()) }
}

/// Returns a new run ID: `d`, the time in seconds and a 16-bit random number, both in hexadecimal.
fn new_run_id(clock: &Clock) -> String {
    format!("d{:x}{:04x}", clock.now_ms() / 1000 % 0x00ff_ffff, rand::random::<u16>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_are_safe_in_addresses_and_file_names() {
        assert_eq!(run_id("run1"), Ok("run1".to_owned()));
        for bad in ["", "ab", "Run1", "a/b", "../x", "a b c", &"a".repeat(25)] {
            assert!(run_id(bad).is_err(), "{bad}");
        }
        let new = new_run_id(&Clock::system());
        assert_eq!(run_id(&new), Ok(new.clone()));
    }
}
