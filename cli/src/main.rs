//! The `rekindle` program. See `rekindle --help`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cli::args::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("rekindle: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(cli::run(cli));
    // Do not wait for interrupted blocking work.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome.unwrap_or_else(|error| {
        eprintln!("rekindle: {error:#}");
        ExitCode::FAILURE
    })
}
