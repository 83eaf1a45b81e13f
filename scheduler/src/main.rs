//! `scheduler`: configuration, telemetry, wiring, work, timed drain.

use std::sync::{Arc, OnceLock};

use scheduler::config::SchedulerConfig;
use scheduler::{ADMIN_PORT, App, run};
use shared::admin::{self, Admin};
use shared::config::AdminConfig;
use shared::env::Env;
use shared::startup::{self, Connected, StartError};
use shared::{probe, shutdown, telemetry, trace};
use tokio::net::TcpListener;

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

    let connected: Arc<OnceLock<Connected>> = Arc::default();
    let seen = connected.clone();
    let ready = move || {
        let connected = seen.get().cloned();
        async move {
            let Connected { store, bus, .. } = connected.ok_or("waiting for the servers")?;
            startup::ready(&store, &bus).await
        }
    };
    let listener = TcpListener::bind(admin.addr).await.map_err(anyhow::Error::from)?;
    tokio::spawn(admin::serve(listener, Admin::new(metrics, ready), shutdown.clone()));
    let servers = startup::connect(&env, "scheduler", &shutdown).await?;
    let servers = connected.get_or_init(|| servers).clone();

    tracing::info!(admin = %admin.addr, "watching what falls due");
    if !run(App::new(config, servers), shutdown).await {
        tracing::warn!("stopped in the middle of a hand-over; it is made again");
    }
    trace::stop().await;
    startup::outgrown()
}
