//! `rekindle account`

use clap::{Subcommand, ValueEnum};
use uuid::Uuid;

use super::{DatabaseArgs, label};

#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account and print its password. It cannot be shown again: only its hash is stored.
    #[command(after_help = "Example:\n  rekindle account create --email ada@example.com --project <ID>")]
    Create {
        /// The account's email address.
        #[arg(long, value_parser = email)]
        email: String,
        /// The name of the account's owner.
        #[arg(long, default_value = "", value_parser = label)]
        name: String,
        /// A project to join.
        #[arg(long, value_name = "ID")]
        project: Option<Uuid>,
        /// The role in the project.
        #[arg(long, value_enum, default_value_t = RoleName::Admin)]
        role: RoleName,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Set a new password for an account and print it. This ends all sessions of the account.
    ResetPassword {
        /// The account's email address.
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Mark an account's email address as verified, for installations that cannot mail an invitation.
    Verify {
        /// The account's email address.
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Make a verified account a member of a project, or change its role there.
    Join {
        /// The account's email address.
        #[arg(long, value_parser = email)]
        email: String,
        /// The project's ID.
        #[arg(long, value_name = "ID")]
        project: Uuid,
        /// The role in the project.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    Admin,
    Member,
}

pub(super) fn email(text: &str) -> Result<String, String> {
    let text = text.trim();
    if domain::email::is_address(text) { Ok(text.to_owned()) } else { Err("an address such as ada@example.com".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_email_addresses_are_accepted() {
        assert_eq!(email(" ada@example.com "), Ok("ada@example.com".to_owned()));
        assert!(email("ada").is_err() && email("").is_err());
    }
}
