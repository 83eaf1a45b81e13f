//! `rekindle dead-letters`

use clap::{Args, Subcommand};
use domain::message::Channel;
use uuid::Uuid;

use super::DatabaseArgs;

#[derive(Debug, Subcommand)]
pub enum DeadLettersCommand {
    /// Show what failed, newest first.
    List {
        #[command(flatten)]
        which: Which,
        /// How many at most.
        #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000), value_name = "N")]
        limit: i64,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Give what failed another try: all of it, or what is named.
    #[command(after_help = "Example:\n  rekindle dead-letters replay --project <ID> --channel email --reason gave_up")]
    Replay {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Debug, Args)]
pub struct Which {
    /// The project's id.
    #[arg(long, value_name = "ID")]
    pub project: Uuid,
    /// Only these; may be given several times.
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<Uuid>,
    /// Only messages of this channel: email, push, sms or in_app.
    #[arg(long, value_parser = channel)]
    pub channel: Option<Channel>,
    /// Only those whose reason has this code, as `gave_up`.
    #[arg(long, value_name = "CODE")]
    pub reason: Option<String>,
}

fn channel(text: &str) -> Result<Channel, String> {
    Channel::parse(text).ok_or_else(|| format!("one of {}", Channel::ALL.map(Channel::slug).join(", ")))
}
