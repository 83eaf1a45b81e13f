//! `rekindle doctor`

use std::path::PathBuf;

use clap::Args;

const AFTER_HELP: &str = "\
The doctor reads the variables that the programs read (DATABASE_URL, NATS_URL, REDIS_URL, MASTER_KEY, PUBLIC_BASE_URL,
...). Run it with the environment of a program, for example with the same env file. It changes nothing. It publishes one
empty message to the ingest stream, as the gateway's readiness check does every second.

Checks:
  settings   variables of all programs: malformed, missing, misspelled, unfit for production
  database   connection, password, version, schema, extensions, durability, standbys, clock, number of connections
  secrets    whether MASTER_KEY decrypts the secrets in the database
  nats       connection, user and permissions, JetStream, each stream's settings, free space and replicas, sync_interval
  redis      connection, eviction policy
  work       partitions without a worker, overdue outbox rows, timers and messages, time partitions ahead
  disk       free space in the directories given with --disk

Marks: ✓ passed, ! works but needs attention, ✗ wrong, - not checked. The exit status is 1 if any is ✗, else 0.

Examples:
  rekindle doctor
  rekindle doctor --json | jq '.findings[] | select(.verdict == \"wrong\")'
  rekindle doctor --nats-monitor http://nats:8222 --disk /var/lib/postgresql --disk /data/nats";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct DoctorArgs {
    /// Print the findings as JSON: {healthy, findings: [{check, verdict, what, remedy}]}.
    #[arg(long)]
    pub json: bool,
    /// URL of the NATS monitoring port, the only source of the sync interval.
    #[arg(long, env = "NATS_MONITOR_URL", value_name = "URL")]
    pub nats_monitor: Option<String>,
    /// A directory whose disk must not become full. Can be repeated.
    #[arg(long = "disk", value_name = "DIR")]
    pub disks: Vec<PathBuf>,
    /// Minimum free space of each of these disks, in percent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "PERCENT")]
    pub disk_free: u8,
}
