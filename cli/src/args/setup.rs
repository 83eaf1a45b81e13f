//! `rekindle setup`

use std::path::PathBuf;

use clap::Args;

use crate::provision::Mailbox;
use crate::run_dir::RunDirArg;

const AFTER_HELP: &str = "\
For deployments whose processes are run by docker compose or Kubernetes. It reads DATABASE_URL, NATS_URL and
PUBLIC_BASE_URL, waits for the servers, and can be repeated safely. It creates what is missing:

  the master key     written to MASTER_KEY_FILE, if MASTER_KEY is not set and the file does not exist
  the streams        with INGEST_PARTITIONS and the other settings of the processes
  a first project    with a public key, a secret key and an admin, if there is no project yet; they are printed once and
                     stored in RUN_DIR/credentials.json

The schema must exist: run `rekindle migrate` first.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SetupArgs {
    /// The generated keys and credentials are stored there.
    #[command(flatten)]
    pub dir: RunDirArg,
    /// Address of a `rekindle mailbox`. The first project's email channel sends to it, unless it is already configured.
    #[arg(long, value_name = "HOST:PORT")]
    pub mailbox: Option<Mailbox>,
    /// The mailbox's directory, which holds `mail` and `push`, for `rekindle demo`. The default is RUN_DIR.
    #[arg(long, value_name = "DIR")]
    pub mailbox_dir: Option<PathBuf>,
}
