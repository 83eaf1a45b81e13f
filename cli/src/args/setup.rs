//! `rekindle setup`

use std::path::PathBuf;

use clap::Args;

use crate::provision::Mailbox;
use crate::run_dir::RunDirArg;

const AFTER_HELP: &str = "\
For deployments where something else runs the processes: docker compose, Kubernetes. It reads DATABASE_URL, NATS_URL and
PUBLIC_BASE_URL, waits for the servers, and may be run again and again:

  the master key     written to MASTER_KEY_FILE, where MASTER_KEY is not set and that file is not there
  the streams        made where they are missing, with INGEST_PARTITIONS and the other settings of the processes
  a first project    with a public and a secret key and an admin, where there is no project yet; they are printed this
                     once, and lie in credentials.json of RUN_DIR

The schema has to be there: `rekindle migrate` goes before it.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SetupArgs {
    /// What was made up is kept there.
    #[command(flatten)]
    pub place: RunDirArg,
    /// Where a `rekindle mailbox` takes mail: the first project's email channel is pointed at it, unless it is set already.
    #[arg(long, value_name = "HOST:PORT")]
    pub mailbox: Option<Mailbox>,
    /// Where that mailbox's folders `mail` and `push` lie, for `rekindle demo`. Without it in RUN_DIR.
    #[arg(long, value_name = "DIR")]
    pub mailbox_dir: Option<PathBuf>,
}
