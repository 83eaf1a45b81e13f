//! `worker-automation`: configuration, telemetry, wiring, work, timed drain.

use kernel::env::Env;
use kernel::metric_name::Metric;
use kernel::shutdown::{self, DRAIN};
use runtime::startup::{self, StartError};
use runtime::{probe, telemetry};
use worker_automation::config::{ADMIN_PORT, Config};
use worker_automation::{App, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    probe::exit_if_asked(ADMIN_PORT);
    if let Err(error) = start().await {
        tracing::error!("{error}");
        std::process::exit(error.exit_code());
    }
}

async fn start() -> Result<(), StartError> {
    let env = Env::from_process();
    telemetry::start_logging(&env)?;
    let config = Config::from_env(&env)?;
    let metrics = telemetry::start_metrics();
    // From nothing, or the first one would not be seen to come.
    metrics::counter!(Metric::DeadLetters, "from" => "ingest").increment(0);
    trace::start(&env, "worker-automation")?;
    let shutdown = shutdown::on_signal().map_err(anyhow::Error::from)?;
    let probed = (config.admin.addr, metrics);
    let connected = startup::connect_probed(&env, "worker-automation", probed, &shutdown).await?;

    tracing::info!(admin = %config.admin.addr, "working");
    let mut work = tokio::spawn(run(App { config, connected }, shutdown.clone()));
    tokio::select! {
        // It ends by itself when something in it fails, and in the moment of the shutdown.
        ended = &mut work => {
            trace::stop().await;
            // What fails because the schema left it behind is no failure of its own.
            startup::outgrown()?;
            return Ok(ended.map_err(anyhow::Error::from)??);
        }
        () = shutdown.cancelled() => {}
    }
    let ended = tokio::time::timeout(DRAIN, work).await;
    trace::stop().await;
    match ended {
        Ok(ended) => ended.map_err(anyhow::Error::from)??,
        Err(_) => tracing::warn!("stopped before everything was settled; it is taken up again at the next start"),
    }
    startup::outgrown()
}
