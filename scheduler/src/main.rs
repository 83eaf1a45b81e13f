//! `scheduler`: configuration, telemetry, wiring, work, timed drain.

use kernel::env::Env;
use kernel::shutdown;
use runtime::config::AdminConfig;
use runtime::startup::{self, StartError};
use runtime::{probe, telemetry};
use scheduler::config::SchedulerConfig;
use scheduler::{ADMIN_PORT, App, run};

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
    let config = SchedulerConfig::from_env(&env)?;
    let admin = AdminConfig::from_env(&env, ADMIN_PORT)?;
    let metrics = telemetry::start_metrics();
    trace::start(&env, "scheduler")?;
    let shutdown = shutdown::on_signal().map_err(anyhow::Error::from)?;

    let servers = startup::connect_probed(&env, "scheduler", (admin.addr, metrics), &shutdown).await?;

    tracing::info!(admin = %admin.addr, "watching what falls due");
    if !run(App::new(config, servers), shutdown).await {
        tracing::warn!("stopped while work was under way; it is repeated after the next start");
    }
    trace::stop().await;
    startup::outgrown()
}
