//! `rekindle migrate`, `project`, `key`, `account`, `invite`, `dead-letters`, `clock` and `secrets`: operator commands
//! on a database.

use anyhow::{Context, Result};
use domain::message::Channel;
use kernel::clock::rfc3339;
use kernel::env::Env;
use kernel::ids::ProjectId;
use runtime::config::public_base_url;
use secrets::MasterKeys;
use store_projects::api_keys::KeyType;
use store_projects::members::Role;
use store_sending::dead_letters::DeadFilter;

use crate::args::{
    AccountCommand, ClockCommand, DatabaseArgs, DeadLetterFilter, DeadLettersCommand, InviteCommand, KeyCommand,
    KeyKind, MigrateArgs, ProjectCommand, RoleName, SecretsCommand,
};
use crate::provision::Provision;
use crate::run_dir::RunDir;
use crate::state::State;
use crate::{services, up};

/// The database that a command works on, and the source of its master key.
struct Target {
    provision: Provision,
    /// Set if the database belongs to a run directory.
    dir: Option<RunDir>,
}

impl Target {
    fn of(args: &DatabaseArgs) -> Result<Self> {
        let named = args.database_url.as_deref().map(str::trim).filter(|u| !u.is_empty());
        if let Some(url) = named {
            return Ok(Self { provision: Provision::new(url)?, dir: None });
        }
        let dir = RunDir::existing(&args.dir.run_dir)?;
        let found = dir.and_then(|dir| up::attached_database(&dir).ok().map(|url| (dir, url)));
        let (dir, url) = found.with_context(|| {
            format!(
                "no database: set DATABASE_URL, or start a system with `rekindle up` (none is running in {})",
                args.dir.run_dir.display()
            )
        })?;
        Ok(Self { provision: Provision::new(&url)?, dir: Some(dir) })
    }

    /// Returns the gateway's public URL.
    fn public_base_url(&self) -> Result<String> {
        match &self.dir {
            Some(dir) => {
                let state = State::load(dir)?.context("the run directory has no state: run `rekindle up`")?;
                Ok(services::origin(&state))
            }
            None => {
                let env = Env::from_process();
                // A default would print a link that leads nowhere, and would invalidate the previous link.
                env.get("PUBLIC_BASE_URL")
                    .context("set PUBLIC_BASE_URL to the gateway's public URL: the link points there")?;
                Ok(public_base_url(&env, "")?)
            }
        }
    }

    fn master_keys(&self) -> Result<MasterKeys> {
        match &self.dir {
            Some(dir) => up::master_keys(dir),
            None => Ok(MasterKeys::from_env(&Env::from_process())?),
        }
    }
}

pub async fn migrate(args: &MigrateArgs) -> Result<()> {
    let provision = Target::of(&args.database)?.provision;
    let applied = provision.migrate().await?;
    if applied.is_empty() {
        println!("The schema is up to date.");
    }
    for migration in applied {
        println!("applied {migration}");
    }
    if args.citus {
        match provision.distribute(args.shards, |table| println!("distributed {table}")).await? {
            0 => println!("All tables are distributed."),
            count => println!("Distributed {count} tables. Restart the programs."),
        }
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
            eprintln!("The key cannot be shown again: only its hash is stored.");
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
            eprintln!("The password cannot be shown again: only its hash is stored.");
            println!("email     {email}\npassword  {password}");
        }
        AccountCommand::ResetPassword { email, database } => {
            let password = Target::of(database)?.provision.reset_password(email).await?;
            eprintln!("The password cannot be shown again: only its hash is stored.");
            println!("email     {email}\npassword  {password}");
        }
        AccountCommand::Verify { email, database } => {
            Target::of(database)?.provision.verify(email).await?;
            println!("{email} is verified");
        }
        AccountCommand::Join { email, project, role, database } => {
            Target::of(database)?.provision.join(email, *project, role_of(*role)).await?;
            println!("{email} is {} of {project}", role_of(*role).as_str());
        }
    }
    Ok(())
}

pub async fn invite(command: &InviteCommand) -> Result<()> {
    let InviteCommand::Link { project, email, database } = command;
    let target = Target::of(database)?;
    let origin = target.public_base_url()?;
    let link = target.provision.invite_link(*project, email, &origin).await?;
    eprintln!("Anyone who opens this link can join the project as {email}. Send it to that person only.");
    println!("{link}");
    Ok(())
}

pub async fn dead_letters(command: &DeadLettersCommand) -> Result<()> {
    match command {
        DeadLettersCommand::List { filter, limit, database } => {
            let provision = Target::of(database)?.provision;
            let found = provision.dead_letters(ProjectId(filter.project), &filter_of(filter), *limit).await?;
            if found.is_empty() {
                eprintln!("There are no matching dead letters.");
            }
            for letter in found {
                let what = letter.channel.map(Channel::as_str).or(letter.name.as_deref()).unwrap_or("item");
                println!("{}  {}  {what}  {}", letter.id, rfc3339(letter.died_at), letter.reason);
            }
        }
        DeadLettersCommand::Replay { filter, database } => {
            let provision = Target::of(database)?.provision;
            let replayed = provision.replay_dead_letters(ProjectId(filter.project), &filter_of(filter)).await?;
            println!("messages  {}\nitems     {}", replayed.messages, replayed.items);
        }
    }
    Ok(())
}

fn filter_of(filter: &DeadLetterFilter) -> DeadFilter {
    let ids = (!filter.ids.is_empty()).then(|| filter.ids.clone());
    DeadFilter { ids, kind: None, channel: filter.channel, reason: filter.reason.clone() }
}

pub async fn clock(command: &ClockCommand) -> Result<()> {
    match command {
        ClockCommand::Status { database } => match Target::of(database)?.provision.clock_jump().await? {
            Some(jump) => {
                let (minutes, at) = (jump.ahead_ms / 60_000, rfc3339(jump.jumped_at));
                println!(
                    "The clock jumped ahead by {minutes} minutes, to {at}: work that became due by the jump is held."
                );
            }
            None => println!("Nothing is held."),
        },
        ClockCommand::Accept { database } => {
            let held = Target::of(database)?.provision.accept_clock().await?;
            println!("{}", if held { "The held work is due now." } else { "Nothing is held." });
        }
    }
    Ok(())
}

/// Returns `false` if something remains to be done.
pub async fn secrets(command: &SecretsCommand) -> Result<bool> {
    match command {
        SecretsCommand::NewKey => println!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()),
        SecretsCommand::Status { database } => {
            let target = Target::of(database)?;
            for (table, count) in target.provision.count_outdated_secrets(&target.master_keys()?).await? {
                println!("{table:12} {count}");
            }
        }
        SecretsCommand::Rotate { database } => {
            let target = Target::of(database)?;
            let keys = target.master_keys()?;
            let rotated = target.provision.rotate_secrets(&keys).await?;
            println!("sealed anew  {}", rotated.resealed);
            for (table, (project, key)) in &rotated.unreadable {
                eprintln!("{table} of project {project} {key}: no key of MASTER_KEY decrypts it");
            }
            if !rotated.unreadable.is_empty() {
                eprintln!(
                    "Add the key that they were encrypted under to the end of MASTER_KEY, and run this command again."
                );
                return Ok(false);
            }
            if keys.count() > 1 {
                eprintln!("Everything is encrypted under the first key: the others can be removed from MASTER_KEY.");
            }
        }
    }
    Ok(true)
}

fn role_of(name: RoleName) -> Role {
    match name {
        RoleName::Admin => Role::Admin,
        RoleName::Member => Role::Member,
    }
}
