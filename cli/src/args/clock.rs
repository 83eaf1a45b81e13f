//! `rekindle clock`

use clap::Subcommand;

use super::DatabaseArgs;

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Whether the scheduler holds what became due, because the clock jumped ahead.
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Say that the clock is right as it is: what was held is due, all at once. Campaigns stay paused until they are resumed.
    Accept {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
