//! Provisions the database: schema, projects, keys, the admin, and the mailbox as the first project's email channel.
//!
//! Every step is idempotent.

mod accounts;
mod clock;
mod dead_letters;
mod secrets;

use std::str::FromStr;

use ::secrets::MasterKeys;
use anyhow::{Context, Result, bail};
use database::config::DatabaseConfig;
use database::{Connection, Store, Transaction, citus, migrate};
use domain::message::Channel;
use kernel::clock::Clock;
use kernel::ids::{self, ProjectId};
use serde_json::{Map, Value, json};
use store_projects::accounts as stored_accounts;
use store_projects::api_keys::{self, KeyType, NewKey};
use store_projects::channels::{self, ChannelSettings};
use store_projects::members::{self, Role};
use store_projects::project_removals;
use store_projects::projects::{self, ProjectSecrets};
use uuid::Uuid;

use crate::state::FirstProject;

/// Sender of the default setup's mail. The dashboard distinguishes the mailbox from a real mail server by this domain.
pub const FROM: &str = "hello@rekindle.localhost";

/// SMTP address of the local mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub host: String,
    pub port: u16,
}

impl Mailbox {
    pub fn on_loopback(port: u16) -> Self {
        Self { host: "127.0.0.1".to_owned(), port }
    }
}

impl FromStr for Mailbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        match port.parse() {
            Ok(port) if port > 0 && !host.is_empty() => Ok(Self { host: host.to_owned(), port }),
            _ => Err("use a host and a port, such as mailbox:2525".into()),
        }
    }
}

/// A database and the means to change it.
pub struct Provision {
    config: DatabaseConfig,
    store: Store,
    clock: Clock,
}

impl Provision {
    pub fn new(database_url: &str) -> Result<Self> {
        let config = DatabaseConfig { url: database_url.to_owned(), pool_size: 2 };
        let store = Store::new(&config, "cli")?;
        Ok(Self { config, store, clock: Clock::system() })
    }

    /// Migrates the schema. Returns the names of the applied migrations.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        let applied = migrate::run(&self.config, &self.clock).await?;
        Ok(applied.iter().map(|m| format!("{:04} {}", m.version, m.name)).collect())
    }

    /// Distributes the migrated database over the Citus workers. Reports each table to `progress`, and returns how many
    /// were distributed.
    pub async fn distribute(&self, shards: Option<i32>, progress: impl FnMut(&str)) -> Result<usize> {
        // Moving existing rows takes a long time.
        let store = Store::with_timeout(&self.config, "migrate", std::time::Duration::from_hours(6))?;
        let mut connection = store.connection().await.context("cannot reach Postgres (DATABASE_URL)")?;
        citus::distribute(&mut connection, shards, progress).await
    }

    /// Returns a connection to a database whose schema this program supports.
    async fn connection(&self) -> Result<Connection> {
        let connection = self.store.connection().await.context("cannot reach Postgres (DATABASE_URL)")?;
        migrate::check(&connection).await??;
        Ok(connection)
    }

    /// Returns whether any project exists.
    pub async fn has_projects(&self) -> Result<bool> {
        Ok(!projects::list(&self.connection().await?).await?.is_empty())
    }

    /// Creates the first project with its keys, its admin and, if there is a mailbox, its email channel, unless they
    /// exist.
    ///
    /// `mail_before` is the mailbox that this program last wrote into the channel, if known. Returns whether the
    /// channel holds `mail_now`.
    pub async fn first_project(
        &self,
        keys: &MasterKeys,
        first: &FirstProject,
        mail_before: Option<&Mailbox>,
        mail_now: Option<&Mailbox>,
    ) -> Result<bool> {
        let id = ProjectId(first.id);
        let now = self.clock.now();
        let mut connection = self.connection().await?;
        // The project was deleted deliberately, so it is not recreated.
        if !project_removals::among(&connection, &[id]).await?.is_empty() {
            return Ok(false);
        }
        if projects::get(&connection, id).await?.is_none() {
            let hash = hash_password(&first.admin_password).await?;
            let secrets = ProjectSecrets::new(first.webhook_secret.clone(), first.identity_secret.clone());
            // One transaction, so that an existing project is always complete.
            let tx = connection.transaction().await?;
            projects::insert(&tx, keys, id, "First project", &secrets, now).await?;
            let public = (KeyType::Public, first.public_key_id, &first.public_key);
            let secret = (KeyType::Secret, first.secret_key_id, &first.secret_key);
            for (key_type, key_id, key) in [public, secret] {
                api_keys::insert(&tx, id, key_id, key_type, "First key", key, now).await?;
            }
            let account = stored_accounts::upsert(&tx, first.admin_id, &first.admin_email, &hash, now).await?;
            members::join(&tx, id, account, Role::Admin, now).await?;
            if let Some(mailbox) = mail_now {
                point_at_mailbox(&tx, keys, id, &ChannelSettings::default(), mailbox, now).await?;
            }
            tx.commit().await?;
            return Ok(mail_now.is_some());
        }
        let Some(mail_now) = mail_now else { return Ok(false) };
        // Read without a lock first: a second `up` usually changes nothing.
        let current = channels::get(&connection, keys, id, Channel::Email).await?.unwrap_or_default();
        match mail_plan(&current.settings, mail_before, mail_now) {
            MailPlan::UserConfigured => Ok(false),
            MailPlan::UpToDate => Ok(true),
            MailPlan::Set => {
                let tx = connection.transaction().await?;
                let current = channels::get_for_update(&tx, keys, id, Channel::Email).await?.unwrap_or_default();
                point_at_mailbox(&tx, keys, id, &current, mail_now, now).await?;
                tx.commit().await?;
                Ok(true)
            }
        }
    }

    pub async fn create_project(&self, keys: &MasterKeys, name: &str) -> Result<Uuid> {
        let id = ids::fresh(self.clock.now_ms());
        let mut connection = self.connection().await?;
        let tx = connection.transaction().await?;
        projects::insert(&tx, keys, ProjectId(id), name, &ProjectSecrets::random(), self.clock.now()).await?;
        tx.commit().await?;
        Ok(id)
    }

    pub async fn create_key(&self, project: Uuid, key_type: KeyType, name: &str) -> Result<NewKey> {
        let mut connection = self.connection().await?;
        if projects::get(&connection, ProjectId(project)).await?.is_none() {
            bail!("there is no project {project}: create one with `rekindle project create`");
        }
        let new = NewKey { id: ids::fresh(self.clock.now_ms()), key: api_keys::random_key(key_type) };
        let tx = connection.transaction().await?;
        api_keys::insert(&tx, ProjectId(project), new.id, key_type, name, &new.key, self.clock.now()).await?;
        tx.commit().await?;
        Ok(new)
    }

    /// Revokes a key. Returns an error if the project has no such active key.
    pub async fn revoke_key(&self, project: Uuid, key: Uuid) -> Result<()> {
        let mut connection = self.connection().await?;
        let tx = connection.transaction().await?;
        if !api_keys::revoke(&tx, ProjectId(project), key, self.clock.now()).await? {
            bail!("project {project} has no active key {key}");
        }
        tx.commit().await?;
        Ok(())
    }
}

/// Writes the mailbox into the channel, in the fields of `PUT /channels`. All other settings are kept.
async fn point_at_mailbox(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    current: &ChannelSettings,
    mailbox: &Mailbox,
    now: jiff::Timestamp,
) -> Result<()> {
    let mut new = current.clone();
    for (field, value) in [
        ("emailProvider", json!("SMTP")),
        ("smtpHost", json!(mailbox.host)),
        ("smtpPort", json!(mailbox.port)),
        ("smtpSecurity", json!("none")),
    ] {
        new.settings.insert(field.into(), value);
    }
    new.settings.entry("mailproviderFromEmail").or_insert(json!(FROM));
    new.settings.entry("emailFromName").or_insert(json!("Rekindle"));
    channels::put(tx, keys, project, Channel::Email, &new, now).await?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum MailPlan {
    /// The channel already holds the mailbox's address.
    UpToDate,
    /// The channel holds an old address of the mailbox, or it is empty and no address was ever recorded for it.
    Set,
    /// A user configured the channel otherwise, so it is kept.
    UserConfigured,
}

fn mail_plan(settings: &Map<String, Value>, before: Option<&Mailbox>, now: &Mailbox) -> MailPlan {
    if settings.is_empty() && before.is_none() {
        return MailPlan::Set;
    }
    let host = settings.get("smtpHost").and_then(Value::as_str);
    let port = settings.get("smtpPort").and_then(Value::as_u64).and_then(|p| u16::try_from(p).ok());
    let set = host.zip(port).map(|(host, port)| Mailbox { host: host.to_owned(), port });
    match set {
        Some(set) if set == *now => MailPlan::UpToDate,
        Some(set) if Some(&set) == before => MailPlan::Set,
        _ => MailPlan::UserConfigured,
    }
}

async fn hash_password(password: &str) -> Result<String> {
    let password = password.to_owned();
    Ok(tokio::task::spawn_blocking(move || ::secrets::password::hash(&password)).await??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mailboxs_own_address_is_replaced() {
        let settings = |host: &str, port: u16| {
            json!({ "smtpHost": host, "smtpPort": port }).as_object().cloned().unwrap_or_default()
        };
        let plan = |settings: Map<String, Value>, before: Option<u16>, now| {
            mail_plan(&settings, before.map(Mailbox::on_loopback).as_ref(), &Mailbox::on_loopback(now))
        };
        assert_eq!(plan(settings("127.0.0.1", 5), Some(5), 5), MailPlan::UpToDate);
        assert_eq!(plan(settings("127.0.0.1", 5), Some(5), 6), MailPlan::Set);
        assert_eq!(plan(settings("127.0.0.1", 5), None, 6), MailPlan::UserConfigured);
        assert_eq!(plan(settings("smtp.example.com", 5), Some(5), 6), MailPlan::UserConfigured);
        // A user cleared the channel; or it was never configured.
        assert_eq!(plan(Map::new(), Some(5), 6), MailPlan::UserConfigured);
        assert_eq!(plan(Map::new(), None, 6), MailPlan::Set);
    }

    #[test]
    fn a_mailbox_is_a_host_and_a_port() {
        assert_eq!("mailbox:2525".parse(), Ok(Mailbox { host: "mailbox".into(), port: 2525 }));
        for wrong in ["", "mailbox", ":25", "mailbox:", "mailbox:0", "mailbox:smtp"] {
            assert!(wrong.parse::<Mailbox>().is_err(), "{wrong}");
        }
    }
}
