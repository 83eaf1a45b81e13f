//! `rekindle clock`

use clap::Subcommand;

use super::DatabaseArgs;

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show whether due work is held because the clock jumped ahead.
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Accept the clock as correct. Held work becomes due at once; campaigns stay paused until they are resumed.
    Accept {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
