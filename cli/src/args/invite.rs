//! `rekindle invite`

use clap::Subcommand;
use uuid::Uuid;

use super::DatabaseArgs;
use super::account::email;

const LINK_HELP: &str = "\
The link replaces one that was printed before; the mailed link stays valid. The account that it creates is unverified: it
belongs to this project alone, cannot create projects, and passes to whoever opens an invitation mailed to its address.
`rekindle account verify` makes it a full account, once you know that the address is theirs.

With DATABASE_URL, set PUBLIC_BASE_URL as well: the link leads there.

Example:
  rekindle invite link --project <ID> --email grace@example.com";

#[derive(Debug, Subcommand)]
pub enum InviteCommand {
    /// Print a link that accepts a pending invitation, where the installation sends no mail.
    #[command(after_help = LINK_HELP)]
    Link {
        /// The project that invites.
        #[arg(long, value_name = "ID")]
        project: Uuid,
        /// The invited address.
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}
