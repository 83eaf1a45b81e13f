//! `rekindle secrets`

use clap::Subcommand;

use super::DatabaseArgs;

const ROTATE_HELP: &str = "\
The secrets of a project (passwords and keys of channels, webhook and identity secrets, keys for web push) are stored in
the database, encrypted under the master key. MASTER_KEY, or the file MASTER_KEY_FILE, may hold several keys, separated
by commas: the first one encrypts, and all of them decrypt. Each encrypted value names its key.

To change the master key without downtime:
  1. rekindle secrets new-key                  create a key
  2. add it AFTER the current key (old,new) for every program, and restart them: now all of them can decrypt both
  3. move it to the FRONT (new,old), and restart them: from now on they encrypt under it
  4. MASTER_KEY=new,old rekindle secrets rotate
     re-encrypts everything else; if interrupted, run it again to continue
  5. remove the old key and restart the programs, or keep it after the new one as long as links in messages sent before
     step 3 must work: these links, including those to unsubscribe, are signed under the old key
Without step 2, a program that is not yet restarted cannot decrypt what another one has encrypted.

A system of `rekindle up` keeps its keys in RUN_DIR/master.key. Restart it with `rekindle down` and `rekindle up`.";

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Print a new master key.
    NewKey,
    /// Count the secrets that are not encrypted under the first key.
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Re-encrypt every secret under the first key of MASTER_KEY.
    #[command(after_help = ROTATE_HELP)]
    Rotate {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
