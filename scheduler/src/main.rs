//! The `scheduler` process.

use kernel::shutdown::Shutdown;
use runtime::startup::{Connected, StartError};
use runtime::worker::Worker;
use scheduler::config::SchedulerConfig;
use scheduler::{ADMIN_PORT, App, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORKER: Worker = Worker {
    name: "scheduler",
    admin_port: ADMIN_PORT,
    started_message: "scheduler is running",
    unfinished_message: "stopped before all work was finished; it is repeated after the next start",
};

#[tokio::main]
async fn main() {
    WORKER.run(async |env| Ok(SchedulerConfig::from_env(env)?), work).await;
}

async fn work(config: SchedulerConfig, connected: Connected, shutdown: Shutdown) -> Result<bool, StartError> {
    Ok(run(App::new(config, connected), shutdown).await)
}
