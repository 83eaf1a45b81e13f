//! The `worker-automation` process.

use kernel::metric_name::Metric;
use kernel::shutdown::{DRAIN_TIMEOUT, Shutdown};
use runtime::startup::{Connected, StartError};
use runtime::worker::Worker;
use worker_automation::config::{ADMIN_PORT, Config};
use worker_automation::{App, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORKER: Worker = Worker {
    name: "worker-automation",
    admin_port: ADMIN_PORT,
    started_message: "worker-automation is running",
    unfinished_message: "stopped before all work was finished; it resumes at the next start",
};

#[tokio::main]
async fn main() {
    WORKER.run(async |env| Ok(Config::from_env(env)?), work).await;
}

async fn work(config: Config, connected: Connected, shutdown: Shutdown) -> Result<bool, StartError> {
    // Starts at 0, so that `increase()` sees the first event.
    metrics::counter!(Metric::DeadLetters, "from" => "ingest").increment(0);
    let mut work = tokio::spawn(run(App { config, connected }, shutdown.clone()));
    let ended = tokio::select! {
        // Ends on its own if a part of it fails, or right at the shutdown.
        ended = &mut work => ended,
        () = shutdown.cancelled() => match tokio::time::timeout(DRAIN_TIMEOUT, work).await {
            Ok(ended) => ended,
            Err(_) => return Ok(false),
        },
    };
    ended.map_err(anyhow::Error::from)??;
    Ok(true)
}
