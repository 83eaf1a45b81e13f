//! The gateway's process: configuration, connections, serving, and a drain with a deadline.

use std::sync::{Arc, OnceLock};

use kernel::env::{EXIT_CONFIG, Env, EnvError};
use kernel::shutdown::{self, Shutdown};
use runtime::admin::{self, Admin};
use runtime::startup::{self, NOT_CONNECTED, StartError};

use gateway::config::{ADMIN_PORT, ProcessConfig};
use gateway::{App, health, serve, start};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    runtime::probe::handle_arguments(ADMIN_PORT);
    let env = Env::from_process();
    let config = runtime::telemetry::start_logging(&env).and_then(|()| ProcessConfig::from_env(&env));
    match config {
        Ok(config) => {
            if let Err(error) = run(config).await {
                tracing::error!("{error}");
                std::process::exit(error.exit_code());
            }
        }
        Err(error) => exit_with_config_error(&error),
    }
}

fn exit_with_config_error(error: &EnvError) -> ! {
    eprintln!("gateway: {error}");
    std::process::exit(EXIT_CONFIG)
}

async fn run(config: ProcessConfig) -> Result<(), StartError> {
    let metrics = runtime::telemetry::start_metrics();
    trace::start(&Env::from_process(), "gateway")?;
    let shutdown = shutdown::on_signal().map_err(anyhow::Error::from)?;

    // Probes are served from before the first connection until the process exits. While the process waits for its dependencies or
    // drains, it is alive but not ready.
    let listening: Arc<OnceLock<Arc<App>>> = Arc::default();
    let for_probes = listening.clone();
    let admin = Admin::new(metrics, move || {
        let app = for_probes.get().cloned();
        async move {
            let app = app.ok_or(NOT_CONNECTED)?;
            health::ready(&app).await.map_err(str::to_owned)
        }
    });
    let admin_listener = startup::listen(config.admin.addr, "ADMIN_ADDR").await?;
    let admin_addr = start::address(&admin_listener)?;
    tokio::spawn(admin::serve(admin_listener, admin, Shutdown::new()));

    let app = start::app(&config, &shutdown).await?;
    let listener = startup::listen(config.gateway.addr, "GATEWAY_ADDR").await?;
    let addr = start::address(&listener)?;
    let app = listening.get_or_init(|| app).clone();
    tracing::info!("serving on {addr}, metrics on {admin_addr}");
    let serving = tokio::spawn(serve(listener, app, shutdown.clone()));
    shutdown.cancelled().await;
    match tokio::time::timeout(shutdown::DRAIN_TIMEOUT, serving).await {
        Ok(_) => tracing::info!("all requests completed"),
        Err(_) => tracing::warn!("some requests did not complete within {} s", shutdown::DRAIN_TIMEOUT.as_secs()),
    }
    trace::stop().await;
    startup::check_schema_supported()
}
