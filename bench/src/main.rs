//! `make bench`: measures the product on this machine, in alternation with the machine's ceilings, and the CPU that
//! each process spends per event.
//!
//! It reports figures and does not judge them. Load, product and servers share the machine, so rates are lower than on
//! several machines. Compare CPU per event, and the ratio to a ceiling measured within the same minute.

mod alone;
mod api;
mod ceiling;
mod child;
mod copy;
mod dice;
mod fill;
mod load;
mod machine;
mod measure;
mod plot;
mod provision;
mod report;
mod scenario;
mod sink;
mod system;
mod tenants;
mod usage;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use ceiling::http::ServeArgs;
use fill::FillArgs;
use progress::Steps;
use report::Report;
use scenario::{Lab, Scenario, Settings};
use sink::SinkArgs;
use system::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(about = "Measures the product on this machine, and compares it with the machine's limits.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fills a database with months of data.
    Fill(FillArgs),
    /// Runs the bare server that the product is compared with.
    #[command(hide = true)]
    Serve(ServeArgs),
    /// Runs a provider that accepts every message.
    #[command(hide = true)]
    Sink(SinkArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Scenario to measure. Default: all, one after the other.
    #[arg(long, env = "SCENARIO")]
    scenario: Option<Scenario>,
    /// Seconds of each sustained load. Default: 60; 600 for memory; 5 with --quick.
    #[arg(long)]
    seconds: Option<u64>,
    /// Items per second of each sustained load. Default: 36,000 single events; 82,000 in batches.
    #[arg(long)]
    offered: Option<f64>,
    /// Runs small, short loads, to check that the benchmark works.
    #[arg(long)]
    quick: bool,
    /// Events in the database on which reads are measured.
    #[arg(long)]
    events: Option<u64>,
    /// Users in the database on which reads are measured.
    #[arg(long)]
    users: Option<u64>,
    /// Messages in the worker's queue. Default: 1,000,000.
    #[arg(long)]
    queued: Option<u32>,
    /// Active automations per project.
    #[arg(long, default_value_t = 50)]
    automations: u32,
    /// Writes the tables to this file, between its markers, and the charts to the directory of the same name.
    #[arg(long)]
    write_docs: Option<PathBuf>,
    /// Directory of the four programs. Default: this program's.
    #[arg(long)]
    programs: Option<PathBuf>,
}

impl RunArgs {
    fn settings(&self) -> Settings {
        let long = if self.scenario == Some(Scenario::Memory) { 600 } else { 60 };
        let (events, users) = if self.quick { (100_000, 20_000) } else { (10_000_000, 1_000_000) };
        Settings {
            quick: self.quick,
            offered: self.offered,
            sustain: Duration::from_secs(self.seconds.unwrap_or(if self.quick { 5 } else { long })),
            round: Duration::from_secs(if self.quick { 2 } else { 4 }),
            rounds: if self.quick { 1 } else { 3 },
            automations: self.automations,
            queued: self.queued.unwrap_or(if self.quick { 20_000 } else { 1_000_000 }),
            filled: (self.events.unwrap_or(events), self.users.unwrap_or(users)),
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let progress = Steps::start_timed();
    let outcome = match &cli.command {
        Some(Command::Serve(args)) => ceiling::http::serve(*args).await,
        Some(Command::Sink(args)) => sink::serve(args).await,
        Some(Command::Fill(args)) => fill::run(args, &progress).await,
        None => measure_all(&cli.run, &progress).await,
    };
    progress.end();
    outcome
}

async fn measure_all(args: &RunArgs, progress: &Steps) -> Result<()> {
    let mut options = Options::new()?;
    if let Some(programs) = &args.programs {
        options.programs.clone_from(programs);
    }
    let data_dir = system::data_dir(&options.programs);
    let mut lab = Lab::new(args.settings(), options, progress.clone());
    let scenarios = args.scenario.map_or_else(Scenario::usual, |one| vec![one]);
    let shutdown = kernel::shutdown::on_signal()?;
    let mut sections = Vec::new();
    for scenario in scenarios {
        tokio::select! {
            section = lab.run(scenario) => sections.push(section),
            () = shutdown.cancelled() => {
                progress.warn("interrupted; the results so far follow");
                break;
            }
        }
    }
    lab.close().await?;
    let report = Report {
        machine: machine::description(),
        date: machine::date(),
        commit: machine::commit(),
        quick: args.quick,
        sections,
    };
    progress.end();
    print!("{}", report::table::render(&report));
    write_json(&report, &data_dir.join("latest.json"))?;
    let drawn = plot::draw(&report, &data_dir.join("drawings"))?;
    if !drawn.is_empty() {
        println!("Charts: {}", data_dir.join("drawings").display());
    }
    if let Some(path) = &args.write_docs {
        let drawn = plot::draw(&report, &path.with_extension(""))?;
        report::docs::write(&report, &drawn, path)?;
        println!("Written: {}", path.display());
    }
    Ok(())
}

fn write_json(report: &Report, path: &Path) -> Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::write(path, serde_json::to_vec_pretty(report)?).with_context(|| path.display().to_string())?;
    println!("\nJSON: {}", path.display());
    Ok(())
}
