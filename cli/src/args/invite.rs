//! `rekindle invite`

use clap::Subcommand;
use uuid::Uuid;

use super::DatabaseArgs;
use super::account::email;

const LINK_HELP: &str = "\
The link replaces any link printed earlier; the mailed link stays valid. The account that it creates is unverified: it
belongs to this project alone, cannot create projects, and passes to the person who opens an invitation mailed to its
address. To make it a full account, run `rekindle account verify` once you know that the address belongs to its owner.

With DATABASE_URL, set PUBLIC_BASE_URL as well: the link points there.

Example:
  rekindle invite link --project <ID> --email grace@example.com";

#[derive(Debug, Subcommand)]
pub enum InviteCommand {
    /// Print a link that accepts a pending invitation, for installations that send no mail.
    #[command(after_help = LINK_HELP)]
    Link {
        /// The project's ID.
        #[arg(long, value_name = "ID")]
        project: Uuid,
        /// The invited address.
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
