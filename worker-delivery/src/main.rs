//! `worker-delivery`: the process.

use kernel::env::Env;
use kernel::metric_name::Metric;
use kernel::shutdown::Shutdown;
use runtime::startup::{Connected, StartError};
use runtime::worker::Worker;
use worker_delivery::channels::Channels;
use worker_delivery::config::DeliveryConfig;
use worker_delivery::{ADMIN_PORT, App, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORKER: Worker = Worker {
    name: "worker-delivery",
    admin_port: ADMIN_PORT,
    started_message: "delivering",
    unfinished_message: "stopped before all calls ended; their messages are taken over when the leases expire",
};

#[tokio::main]
async fn main() {
    WORKER.run(configure, work).await;
}

async fn configure(env: &Env) -> Result<DeliveryConfig, StartError> {
    let config = DeliveryConfig::from_env(env)?;
    if let Some(mail) = &config.system_mail {
        mail.check_security(config.http.policy()).await?;
    }
    Ok(config)
}

async fn work(config: DeliveryConfig, connected: Connected, shutdown: Shutdown) -> Result<bool, StartError> {
    // Start at 0, so that `increase()` sees the first event.
    metrics::counter!(Metric::DeadLetters, "from" => "send").increment(0);
    metrics::counter!(Metric::MessagesAmbiguous).increment(0);
    Ok(run(App::new(config, connected, Channels::default(), shutdown)).await)
}
