//! `make bench`: how fast events are accepted and recorded on this machine, and what each process spends on one.
//!
//! It reports and judges nothing. The load generator shares the machine with the product, so rates are lower than they
//! could be; the CPU spent per event is what to compare.

mod cpu;
mod load;
mod system;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, ValueEnum};

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Batches of 100 events of many people.
    Batch,
    /// One event a request.
    Single,
}

#[derive(Debug, Parser)]
#[command(about = "Measures the ingest path on this machine: from the request to the recorded event.")]
struct Args {
    /// What is sent; both in turn where it is left out.
    #[arg(long, env = "SCENARIO")]
    scenario: Option<Scenario>,
    /// How long each scenario sends.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connections that send at once.
    #[arg(long, default_value_t = 32)]
    connections: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    println!("starting a system of its own");
    let system = system::System::start().await?;
    let scenarios = args.scenario.map_or(vec![Scenario::Batch, Scenario::Single], |s| vec![s]);
    let mut outcome = Ok(());
    for scenario in scenarios {
        outcome = run(&system, scenario, &args).await;
        if outcome.is_err() {
            break;
        }
    }
    system.stop()?;
    outcome
}

async fn run(system: &system::System, scenario: Scenario, args: &Args) -> Result<()> {
    println!("\n{scenario:?}: {} s over {} connections", args.seconds, args.connections);
    // The first requests warm up connections, plans and caches.
    load::send(system, scenario, args.connections, Duration::from_secs(1)).await?;
    system.recorded_all().await?;
    let (before, started) = (system.cpu()?, Instant::now());
    let recorded_before = system.recorded().await?;
    let sent = load::send(system, scenario, args.connections, Duration::from_secs(args.seconds)).await?;
    let accepting = started.elapsed();
    let recorded_meanwhile = system.recorded().await? - recorded_before;
    system.recorded_all().await?;
    let draining = started.elapsed().saturating_sub(accepting);
    let spent = system.cpu()?.since(&before);

    let rate = |events: u64, time: Duration| events as f64 / time.as_secs_f64();
    println!(
        "  accepted   {:>9.0} events/s ({} requests, p50 {:.1} ms, p99 {:.1} ms)",
        rate(sent.events, accepting),
        sent.latencies.len(),
        sent.quantile(0.5),
        sent.quantile(0.99)
    );
    println!(
        "  recorded   {:>9.0} events/s meanwhile, the rest {:.1} s later",
        rate(recorded_meanwhile, accepting),
        draining.as_secs_f64()
    );
    println!("  CPU, in microseconds per event:");
    for (process, used) in &spent.by_process {
        println!("    {process:<18} {:>7.2}", used.as_secs_f64() * 1e6 / sent.events as f64);
    }
    Ok(())
}
