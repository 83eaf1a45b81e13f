//! `rekindle doctor`

use std::path::PathBuf;

use clap::Args;

const WHAT: &str = "\
It reads the variables that the programs read (DATABASE_URL, NATS_URL, REDIS_URL, MASTER_KEY, PUBLIC_BASE_URL, ...), so run it
with the environment of a program, for example the same env file. It changes nothing; it publishes one empty
message to the ingest stream, as the gateway's readiness does every second.

What it looks at:
  settings   every variable of every program by name: malformed, missing, misspelled, not fit for production
  database   reachable, password, version, schema, extensions, what is not written to the disk, clock, connections
  secrets    whether MASTER_KEY opens what is sealed in the database
  nats       reachable, user and rights, JetStream, each stream's settings, room and replicas, sync_interval
  redis      reachable, what it does when it is full
  work       partitions without a worker, what waits in the outbox, messages and timers overdue, time partitions ahead
  disk       room in the directories that --disk names

Marks: ✓ well, ! works but should be known, ✗ wrong, - not looked at. The exit status is 1 if there is any ✗, else 0.

Examples:
  rekindle doctor
  rekindle doctor --json | jq '.findings[] | select(.verdict == \"wrong\")'
  rekindle doctor --nats-monitor http://nats:8222 --disk /var/lib/postgresql --disk /data/nats";

#[derive(Debug, Args)]
#[command(after_help = WHAT)]
pub struct DoctorArgs {
    /// Print the findings as JSON: {healthy, findings: [{check, verdict, what, remedy}]}.
    #[arg(long)]
    pub json: bool,
    /// NATS's monitoring address, which alone tells how often it syncs to the disk.
    #[arg(long, env = "NATS_MONITOR_URL", value_name = "URL")]
    pub nats_monitor: Option<String>,
    /// A directory on a disk that must not become full; may be given several times.
    #[arg(long = "disk", value_name = "DIR")]
    pub disks: Vec<PathBuf>,
    /// How much of each such disk has to be free, in percent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "PERCENT")]
    pub disk_free: u8,
}
