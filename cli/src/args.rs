//! The command line: commands, flags and help texts.

mod account;
mod clock;
mod dead_letters;
mod doctor;
mod invite;
mod secrets;
mod setup;

use std::path::PathBuf;
use std::str::FromStr;

use crate::run_dir::RunDirArg;
use clap::{Args, Parser, Subcommand, ValueEnum};
use uuid::Uuid;

pub use account::{AccountCommand, RoleName};
pub use clock::ClockCommand;
pub use dead_letters::{DeadLetterFilter, DeadLettersCommand};
pub use doctor::DoctorArgs;
pub use invite::InviteCommand;
pub use secrets::SecretsCommand;
pub use setup::SetupArgs;

const EXAMPLES: &str = "\
Examples:
  rekindle up                                     start everything under .run, gateway on port 8080
  RUN_DIR=/srv/rk PORT=9090 rekindle up           start a second system
  REDIS=off rekindle up                           without Redis
  rekindle status                                 show what is running and whether it is ready
  rekindle logs --follow gateway                  follow one process's log
  rekindle demo                                   replay a shop's day and reconcile the results
  rekindle project create --name \"My shop\"        create a project and print its ID
  rekindle key create --project <ID> --type secret --name backend
  rekindle account create --email ada@example.com --project <ID>
  rekindle invite link --project <ID> --email grace@example.com
  rekindle dead-letters replay --project <ID>     retry failed messages and items
  rekindle doctor                                 check a deployment and suggest fixes
  rekindle secrets rotate --help                  how to change the master key
  rekindle down                                   stop what `up` started; the data is kept";

#[derive(Debug, Parser)]
#[command(name = "rekindle", version, about = "Runs and administers Rekindle.", after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything on this machine: PostgreSQL, NATS, Redis, the four processes and a local mailbox.
    ///
    /// Finds the servers or installs them, keeps all data under RUN_DIR, creates a first project with keys and an
    /// admin, waits until everything is ready and prints how to reach it. If run again, it starts only what is not
    /// running, and restarts the processes whose programs were rebuilt.
    Up(UpArgs),
    /// Stop everything that `up` started in RUN_DIR, and nothing else. The data is kept.
    Down(RunDirArg),
    /// Show the logs of all processes, or of one.
    Logs(LogsArgs),
    /// Show what is running, since when, and whether it is ready.
    Status(RunDirArg),
    /// Replay a shop's day against the running system, and reconcile the results from outside.
    Demo(crate::demo::Options),
    /// Bring the database's schema up to date.
    Migrate(MigrateArgs),
    /// Create what a deployment needs before its processes start: a master key, the streams, a first project.
    Setup(SetupArgs),
    /// Manage projects, the tenants of an installation.
    Project {
        #[command(subcommand)]
        command: ProjectCommand,
    },
    /// Manage a project's API keys.
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Manage dashboard accounts.
    Account {
        #[command(subcommand)]
        command: AccountCommand,
    },
    /// Manage invitations to a project's team.
    Invite {
        #[command(subcommand)]
        command: InviteCommand,
    },
    /// List or replay dead letters: messages and items that failed.
    DeadLetters {
        #[command(subcommand)]
        command: DeadLettersCommand,
    },
    /// Show or accept a jump of the database's clock.
    Clock {
        #[command(subcommand)]
        command: ClockCommand,
    },
    /// Manage the master key that encrypts the projects' secrets.
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Check a deployment by its environment variables, report problems and suggest fixes.
    Doctor(DoctorArgs),
    /// Keep the processes of RUN_DIR running. `up` starts this in the background.
    #[command(hide = true)]
    Supervise(RunDirArg),
    /// Accept mail for testing, and store each message as a file.
    #[command(hide = true)]
    Mailbox(MailboxArgs),
}

#[derive(Debug, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub dir: RunDirArg,
    /// The gateway's port. The default is 8080, or the next free port.
    #[arg(long, env = "PORT", default_value = "", hide_default_value = true, value_name = "PORT")]
    pub port: RequestedPort,
    /// Whether to use Redis if it is available.
    #[arg(long, env = "REDIS", default_value = "on", value_name = "on|off")]
    pub redis: RedisMode,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    pub dir: RunDirArg,
    /// Follow the logs as they grow.
    #[arg(short, long)]
    pub follow: bool,
    /// Number of lines of each log to show first.
    #[arg(short = 'n', long, default_value_t = 40, value_name = "N")]
    pub lines: usize,
    /// Show only the log with this name (gateway, worker-automation, postgres, ...).
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct MailboxArgs {
    /// The address to listen on.
    #[arg(long)]
    pub listen: std::net::SocketAddr,
    /// The directory for the mail files.
    #[arg(long, value_name = "DIR")]
    pub mail_dir: PathBuf,
}

/// Which database a command works on.
#[derive(Debug, Args)]
pub struct DatabaseArgs {
    /// The database's URL. The default is the database of the system that runs in RUN_DIR.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    #[command(flatten)]
    pub dir: RunDirArg,
}

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Also distribute the tables over the Citus workers, by project. Connect to the coordinator, and restart the
    /// programs afterwards.
    #[arg(long)]
    pub citus: bool,
    /// Number of shards, on the first run. The default is Citus' own setting (32).
    #[arg(long, requires = "citus", value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1024))]
    pub shards: Option<i32>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Create a project and print its ID.
    #[command(after_help = "Example:\n  rekindle project create --name \"My shop\"")]
    Create {
        /// The project's name.
        #[arg(long, value_parser = name)]
        name: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it. It cannot be shown again: only its hash is stored.
    #[command(after_help = "Example:\n  rekindle key create --project <ID> --type public --name website")]
    Create {
        /// The project's ID.
        #[arg(long, value_name = "ID")]
        project: Uuid,
        /// `public` for browsers and apps, `secret` for servers.
        #[arg(long = "type", value_enum, default_value_t = KeyKind::Secret)]
        kind: KeyKind,
        /// A name for the key, such as its purpose.
        #[arg(long, default_value = "", value_parser = label)]
        name: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Revoke a key: it stops working on every gateway within a second.
    #[command(after_help = "Example:\n  rekindle key revoke --project <ID> <KEY-ID>")]
    Revoke {
        /// The project's ID.
        #[arg(long, value_name = "ID")]
        project: Uuid,
        /// The key's ID, as printed by `key create`.
        #[arg(value_name = "KEY-ID")]
        key: Uuid,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyKind {
    Secret,
    Public,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedisMode {
    On,
    Off,
}

/// The requested port, if any. A blank value counts as none, so that `PORT=` in a makefile has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPort {
    Any,
    Exactly(u16),
}

impl FromStr for RequestedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self::Any),
            digits => match digits.parse::<u16>() {
                Ok(port) if port > 0 => Ok(Self::Exactly(port)),
                _ => Err("a port is a number from 1 to 65535".into()),
            },
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let text = label(text)?;
    if text.is_empty() { Err("the name must not be empty".into()) } else { Ok(text) }
}

fn label(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() > 200 || text.chars().any(char::is_control) {
        return Err("at most 200 characters, no control characters".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn command_line_definition_is_valid() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn port_is_any_or_exact() {
        assert_eq!("".parse(), Ok(RequestedPort::Any));
        assert_eq!(" 8080 ".parse(), Ok(RequestedPort::Exactly(8080)));
        for bad in ["0", "65536", "http", "-1"] {
            assert!(bad.parse::<RequestedPort>().is_err(), "{bad}");
        }
    }

    #[test]
    fn key_is_secret_by_default() {
        let id = Uuid::nil();
        let kind = |line: String| match parse(&line).unwrap().command {
            Command::Key { command: KeyCommand::Create { kind, .. } } => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(format!("rekindle key create --project {id}")), KeyKind::Secret);
        assert_eq!(kind(format!("rekindle key create --project {id} --type public")), KeyKind::Public);
        assert!(parse(&format!("rekindle key create --project {id} --type other")).is_err());
        assert!(parse("rekindle key create --project not-an-id").is_err());
    }

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(name(" Shop "), Ok("Shop".into()));
        assert!(name("  ").is_err() && name("a\nb").is_err() && name(&"x".repeat(201)).is_err());
        assert_eq!(label(""), Ok(String::new()));
    }

    #[test]
    fn up_reads_run_dir_and_port_from_flags() {
        let Command::Up(up) = parse("rekindle up --run-dir /tmp/x --port 9000 --redis off").unwrap().command else {
            panic!("not up");
        };
        assert_eq!(up.dir.run_dir, PathBuf::from("/tmp/x"));
        assert_eq!((up.port, up.redis), (RequestedPort::Exactly(9000), RedisMode::Off));
    }
}
