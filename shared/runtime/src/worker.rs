//! A worker process, from its configuration to its drain.

use kernel::env::Env;
use kernel::shutdown::{self, Shutdown};

use crate::config::AdminConfig;
use crate::startup::{self, Connected, StartError};
use crate::{probe, telemetry};

/// The properties in which workers differ.
pub struct Worker {
    pub name: &'static str,
    /// Port of the admin address, unless `ADMIN_ADDR` is set.
    pub admin_port: u16,
    /// Logged once it is connected.
    pub started_message: &'static str,
    /// Logged if it stops before its work has ended.
    pub unfinished_message: &'static str,
}

impl Worker {
    /// Handles the command-line argument, if there is one. Otherwise reads the configuration, connects, works until
    /// SIGTERM or SIGINT, and drains. `work` returns whether all work has ended. On failure, exits with the error's
    /// status.
    pub async fn run<C>(
        self,
        configure: impl AsyncFnOnce(&Env) -> Result<C, StartError>,
        work: impl AsyncFnOnce(C, Connected, Shutdown) -> Result<bool, StartError>,
    ) {
        probe::handle_arguments(self.admin_port);
        if let Err(error) = self.start(configure, work).await {
            tracing::error!("{error}");
            std::process::exit(error.exit_code());
        }
    }

    async fn start<C>(
        self,
        configure: impl AsyncFnOnce(&Env) -> Result<C, StartError>,
        work: impl AsyncFnOnce(C, Connected, Shutdown) -> Result<bool, StartError>,
    ) -> Result<(), StartError> {
        let env = Env::from_process();
        telemetry::start_logging(&env)?;
        let config = configure(&env).await?;
        let admin = AdminConfig::from_env(&env, self.admin_port)?;
        let metrics = telemetry::start_metrics();
        trace::start(&env, self.name)?;
        let shutdown = shutdown::on_signal().map_err(anyhow::Error::from)?;
        let connected = startup::connect_probed(&env, self.name, (admin.addr, metrics), &shutdown).await?;

        tracing::info!(admin = %admin.addr, "{}", self.started_message);
        let ended = work(config, connected, shutdown).await;
        trace::stop().await;
        // If the schema is too new for this program, that error replaces those that it caused.
        startup::check_schema_supported()?;
        if !ended? {
            tracing::warn!("{}", self.unfinished_message);
        }
        Ok(())
    }
}
