//! `worker-delivery`: configuration, telemetry, wiring, work, timed drain.

use kernel::env::Env;
use kernel::metric_name::Metric;
use kernel::shutdown;
use runtime::config::AdminConfig;
use runtime::startup::{self, StartError};
use runtime::{probe, telemetry};
use worker_delivery::channels::Channels;
use worker_delivery::config::DeliveryConfig;
use worker_delivery::{ADMIN_PORT, App, run};

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
    let config = DeliveryConfig::from_env(&env)?;
    if let Some(mail) = &config.system_mail {
        mail.check_security(config.http.policy()).await?;
    }
    let admin = AdminConfig::from_env(&env, ADMIN_PORT)?;
    let metrics = telemetry::start_metrics();
    // Start at 0, so that `increase()` sees the first event.
    metrics::counter!(Metric::DeadLetters, "from" => "send").increment(0);
    metrics::counter!(Metric::MessagesAmbiguous).increment(0);
    trace::start(&env, "worker-delivery")?;
    let shutdown = shutdown::on_signal().map_err(anyhow::Error::from)?;

    let servers = startup::connect_probed(&env, "worker-delivery", (admin.addr, metrics), &shutdown).await?;

    tracing::info!(admin = %admin.addr, concurrency = config.concurrency, "delivering");
    if !run(App::new(config, servers, Channels::default(), shutdown)).await {
        tracing::warn!("stopped before all calls ended; their messages are taken over when the leases expire");
    }
    trace::stop().await;
    startup::outgrown()
}
