//! `rekindle migrate`, `project`, `key` and `account`: what an operator does to a database.

use anyhow::{Context, Result};
use shared::env::Env;
use shared::secrets::MasterKeys;
use shared::store::api_keys::KeyType;
use shared::store::members::Role;

use crate::args::{AccountCommand, DatabaseArgs, KeyCommand, KeyKind, ProjectCommand, RoleName};
use crate::provision::Provision;
use crate::run_dir::RunDir;
use crate::up;

/// Which database a command works on, and where the master key for it is.
struct Target {
    provision: Provision,
    /// Set when the database is the one of a run directory.
    dir: Option<RunDir>,
}

impl Target {
    fn of(args: &DatabaseArgs) -> Result<Self> {
        let named = args.database_url.as_deref().map(str::trim).filter(|u| !u.is_empty());
        if let Some(url) = named {
            return Ok(Self { provision: Provision::new(url)?, dir: None });
        }
        let dir = RunDir::existing(&args.place.run_dir)?;
        let found = dir.and_then(|dir| up::attached_database(&dir).ok().map(|url| (dir, url)));
        let (dir, url) = found.with_context(|| {
            format!(
                "no database: set DATABASE_URL, or start a system with `rekindle up` (none runs in {})",
                args.place.run_dir.display()
            )
        })?;
        Ok(Self { provision: Provision::new(&url)?, dir: Some(dir) })
    }

    fn master_keys(&self) -> Result<MasterKeys> {
        match &self.dir {
            Some(dir) => up::master_keys(dir),
            None => Ok(MasterKeys::from_env(&Env::from_process())?),
        }
    }
}

pub async fn migrate(args: &DatabaseArgs) -> Result<()> {
    let applied = Target::of(args)?.provision.migrate().await?;
    if applied.is_empty() {
        println!("The schema is up to date.");
    }
    for migration in applied {
        println!("applied {migration}");
    }
    Ok(())
}

pub async fn project(command: &ProjectCommand) -> Result<()> {
    let ProjectCommand::Create { name, database } = command;
    let target = Target::of(database)?;
    let id = target.provision.create_project(&target.master_keys()?, name).await?;
    println!("{id}");
    Ok(())
}

pub async fn key(command: &KeyCommand) -> Result<()> {
    match command {
        KeyCommand::Create { project, kind, name, database } => {
            let key_type = match kind {
                KeyKind::Secret => KeyType::Secret,
                KeyKind::Public => KeyType::Public,
            };
            let new = Target::of(database)?.provision.create_key(*project, key_type, name).await?;
            eprintln!("The key is shown this once; only its hash is kept.");
            println!("id   {}\nkey  {}", new.id, new.key);
        }
        KeyCommand::Revoke { project, key, database } => {
            Target::of(database)?.provision.revoke_key(*project, *key).await?;
            println!("revoked {key}");
        }
    }
    Ok(())
}

pub async fn account(command: &AccountCommand) -> Result<()> {
    match command {
        AccountCommand::Create { email, name, project, role, database } => {
            let joins = project.map(|project| (project, role_of(*role)));
            let password = Target::of(database)?.provision.create_account(email, name, joins).await?;
            eprintln!("The password is shown this once; only its hash is kept.");
            println!("email     {email}\npassword  {password}");
        }
        AccountCommand::ResetPassword { email, database } => {
            let password = Target::of(database)?.provision.reset_password(email).await?;
            eprintln!("The password is shown this once; only its hash is kept.");
            println!("email     {email}\npassword  {password}");
        }
        AccountCommand::Join { email, project, role, database } => {
            Target::of(database)?.provision.join(email, *project, role_of(*role)).await?;
            println!("{email} is {} of {project}", role_of(*role).as_str());
        }
    }
    Ok(())
}

fn role_of(name: RoleName) -> Role {
    match name {
        RoleName::Admin => Role::Admin,
        RoleName::Member => Role::Member,
    }
}
