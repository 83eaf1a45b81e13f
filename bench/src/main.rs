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
#[command(about = "Measures the product on this machine, beside what the machine allows at most.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fills a database as months of use would.
    Fill(FillArgs),
    /// The bare server that the product is compared with.
    #[command(hide = true)]
    Serve(ServeArgs),
    /// A provider that takes every message.
    #[command(hide = true)]
    Sink(SinkArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// What is measured; everything in turn where it is left out.
    #[arg(long, env = "SCENARIO")]
    scenario: Option<Scenario>,
    /// Seconds of each sustained load (60; 600 for memory; 5 with --quick).
    #[arg(long)]
    seconds: Option<u64>,
    /// Items a second of each sustained load (36,000 single events; 82,000 in batches).
    #[arg(long)]
    offered: Option<f64>,
    /// Small and short, to see that it works.
    #[arg(long)]
    quick: bool,
    /// Events and people of the database that reads are measured on.
    #[arg(long)]
    events: Option<u64>,
    #[arg(long)]
    users: Option<u64>,
    /// Messages that wait in front of a worker (1,000,000).
    #[arg(long)]
    queued: Option<u32>,
    /// Active automations of each project.
    #[arg(long, default_value_t = 50)]
    automations: u32,
    /// Puts the tables into this file, between its markers, and the drawings into the folder of the same name.
    #[arg(long)]
    write_docs: Option<PathBuf>,
    /// The folder with the four programs, where it is not this one's.
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
    let place = system::place(&options.programs);
    let mut lab = Lab::new(args.settings(), options, progress.clone());
    let scenarios = args.scenario.map_or_else(Scenario::usual, |one| vec![one]);
    let shutdown = kernel::shutdown::on_signal()?;
    let mut sections = Vec::new();
    for scenario in scenarios {
        tokio::select! {
            section = lab.run(scenario) => sections.push(section),
            () = shutdown.cancelled() => {
                progress.warn("interrupted; what was measured so far follows");
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
    write_json(&report, &place.join("latest.json"))?;
    let drawn = plot::draw(&report, &place.join("drawings"))?;
    if !drawn.is_empty() {
        println!("Drawings: {}", place.join("drawings").display());
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
    println!("\nThe same as JSON: {}", path.display());
    Ok(())
}
