//! Dashboard accounts.

use anyhow::{Context, Result, bail};
use database::{Connection, Transaction};
use kernel::ids::{self, ProjectId};
use serde_json::json;
use store_projects::accounts::{self, Account};
use store_projects::audit::{self, Actor, Change};
use store_projects::members::{self, Role};
use store_projects::{invites, login_attempts, projects, sessions};
use uuid::Uuid;

use super::{Provision, hash_password};

impl Provision {
    /// Creates an account and, if a project is given, its membership. Returns the password.
    pub async fn create_account(&self, email: &str, name: &str, joins: Option<(Uuid, Role)>) -> Result<String> {
        let password = random_password();
        let hash = hash_password(&password).await?;
        let now = self.clock.now();
        let account = Account {
            id: ids::fresh(now.as_millisecond()),
            email: email.to_owned(),
            name: name.to_owned(),
            is_verified: true,
        };
        let mut connection = self.connection().await?;
        if let Some((project, _)) = joins {
            check_project(&connection, project).await?;
        }
        let tx = connection.transaction().await?;
        if !accounts::insert(&tx, &account, &hash, now).await? {
            bail!("the account {email} already exists: set a new password with `rekindle account reset-password`");
        }
        if let Some((project, role)) = joins {
            self.add(&tx, ProjectId(project), &account, role).await?;
        }
        tx.commit().await?;
        Ok(password)
    }

    /// Sets a new password and ends the account's sessions. Returns the password.
    pub async fn reset_password(&self, email: &str) -> Result<String> {
        let password = random_password();
        let hash = hash_password(&password).await?;
        let mut connection = self.connection().await?;
        let account = find_account(&connection, email).await?;
        let tx = connection.transaction().await?;
        accounts::set_password(&tx, account.id, &hash, self.clock.now()).await?;
        sessions::end_others(&tx, account.id, None).await?;
        login_attempts::clear(&tx, email).await?;
        tx.commit().await?;
        Ok(password)
    }

    /// Marks an account's email address as verified, on the operator's authority.
    pub async fn verify(&self, email: &str) -> Result<()> {
        let mut connection = self.connection().await?;
        let account = find_account(&connection, email).await?;
        let tx = connection.transaction().await?;
        accounts::set_verified(&tx, account.id, self.clock.now()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Returns a new link that accepts the pending invitation of an address. The previous link becomes invalid.
    pub async fn invite_link(&self, project: Uuid, email: &str, public_base_url: &str) -> Result<String> {
        let (project, now) = (ProjectId(project), self.clock.now());
        let mut connection = self.connection().await?;
        check_project(&connection, project.0).await?;
        let tx = connection.transaction().await?;
        let invite = invites::pending_for_update(&tx, project, email, now).await?;
        let invite = invite.with_context(|| {
            format!(
                "project {project} has no pending invitation for {email}: a project ADMIN can create one in the dashboard"
            )
        })?;
        let (token, hash) = invites::new_token();
        invites::set_operator_token(&tx, &invite, &hash).await?;
        let change = Change {
            action: "invite.link_printed",
            resource_id: Some(invite.id.to_string()),
            resource_name: Some(&invite.email),
            details: json!({}),
            request_id: None,
        };
        audit::insert(&tx, project, ids::fresh(now.as_millisecond()), &Actor::Operator, &change, now).await?;
        tx.commit().await?;
        Ok(invites::accept_url(public_base_url, &token))
    }

    /// Makes a verified account a member of a project, or changes its role.
    pub async fn join(&self, email: &str, project: Uuid, role: Role) -> Result<()> {
        let mut connection = self.connection().await?;
        check_project(&connection, project).await?;
        let account = find_account(&connection, email).await?;
        if !account.is_verified {
            bail!(
                "{email} is not verified: the account was created through a link that was not mailed, so it may belong to another person. \
                 Invite the address by mail, or run `rekindle account verify` once you know who holds the account"
            );
        }
        let tx = connection.transaction().await?;
        self.add(&tx, ProjectId(project), &account, role).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn add(&self, tx: &Transaction<'_>, project: ProjectId, account: &Account, role: Role) -> Result<()> {
        let now = self.clock.now();
        members::join(tx, project, account.id, role, now).await?;
        let change = Change {
            action: "member.joined",
            resource_id: Some(account.id.to_string()),
            resource_name: Some(&account.email),
            details: json!({ "role": role.as_str() }),
            request_id: None,
        };
        audit::insert(tx, project, ids::fresh(now.as_millisecond()), &Actor::Operator, &change, now).await?;
        Ok(())
    }
}

pub(super) async fn check_project(connection: &Connection, project: Uuid) -> Result<()> {
    let project_found = projects::get(connection, ProjectId(project)).await?;
    project_found.map(|_| ()).with_context(|| format!("there is no project {project}"))
}

async fn find_account(connection: &Connection, email: &str) -> Result<Account> {
    let known = accounts::find(connection, email).await?;
    Ok(known
        .with_context(|| format!("there is no account {email}: create one with `rekindle account create`"))?
        .account)
}

/// Returns 128 random bits in hexadecimal.
fn random_password() -> String {
    format!("{:032x}", rand::random::<u128>())
}
