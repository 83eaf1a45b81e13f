//! `rekindle secrets`

use clap::Subcommand;

use super::DatabaseArgs;

const ROTATION: &str = "\
What is secret of a project (channels' passwords and keys, webhook and identity secrets, keys for web push) lies in the
database sealed under the master key. MASTER_KEY, or the file MASTER_KEY_FILE, may hold several keys, separated by commas:
the first one seals, all of them open. A sealed value names its key, so that both are readable during a change.

To change the master key without a pause:
  1. rekindle secrets new-key                  make a key
  2. put it BEHIND the present one (old,new) for every program, and restart them: now all of them can read both
  3. put it FIRST (new,old), and restart them: from now on they seal under it
  4. MASTER_KEY=new,old rekindle secrets rotate
     seals everything else anew; interrupted, it goes on where it stopped
  5. take the old key away and restart them, or leave it behind the new one for as long as links in messages that were
     sent before step 3 shall work: they are signed under it, and people must be able to unsubscribe by them
Without step 2, a program that is not restarted yet cannot read what another one has sealed.

A system of `rekindle up` keeps its keys in RUN_DIR/master.key; restart it by `rekindle down` and `rekindle up`.";

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Print a new master key.
    NewKey,
    /// Say how many secrets are sealed under an older key than the first one.
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Seal every secret under the first key of MASTER_KEY.
    #[command(after_help = ROTATION)]
    Rotate {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
