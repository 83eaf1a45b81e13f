//! `rekindle dead-letters`

use clap::{Args, Subcommand};
use domain::message::Channel;
use uuid::Uuid;

use super::DatabaseArgs;

#[derive(Debug, Subcommand)]
pub enum DeadLettersCommand {
    /// List dead letters, newest first.
    List {
        #[command(flatten)]
        filter: DeadLetterFilter,
        /// Maximum number of dead letters to list.
        #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000), value_name = "N")]
        limit: i64,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Retry dead letters: all of the project, or those that match.
    #[command(after_help = "Example:\n  rekindle dead-letters replay --project <ID> --channel email --reason gave_up")]
    Replay {
        #[command(flatten)]
        filter: DeadLetterFilter,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Debug, Args)]
pub struct DeadLetterFilter {
    /// The project's ID.
    #[arg(long, value_name = "ID")]
    pub project: Uuid,
    /// Only the dead letter with this ID. Can be repeated.
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<Uuid>,
    /// Only messages on this channel: email, push, sms or in_app.
    #[arg(long, value_parser = channel)]
    pub channel: Option<Channel>,
    /// Only those with this reason code, such as `gave_up`.
    #[arg(long, value_name = "CODE")]
    pub reason: Option<String>,
}

fn channel(text: &str) -> Result<Channel, String> {
    Channel::parse(text).ok_or_else(|| format!("one of {}", Channel::ALL.map(Channel::slug).join(", ")))
}
