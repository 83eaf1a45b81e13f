//! `rekindle setup`: prepares a migrated database and an empty broker for the processes.

use std::path::Path;

use anyhow::{Result, bail};
use database::config::DatabaseConfig;
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::shutdown;
use runtime::config::public_base_url;
use runtime::startup;
use secrets::MasterKeys;

use crate::args::SetupArgs;
use crate::provision::Provision;
use crate::run_dir::RunDir;
use crate::state::{self, State};
use crate::up::{Credentials, write_credentials};

/// Runs the setup. Every step can be repeated after a crash.
pub async fn run(args: &SetupArgs) -> Result<()> {
    let env = Env::from_process();
    runtime::telemetry::start_logging(&env)?;
    let origin = public_base_url(&env, "http://127.0.0.1:8080")?;
    let dir = RunDir::create(&args.dir.run_dir)?;
    let _lock = dir.lock()?;
    // This also creates the streams.
    startup::connect(&env, "setup", &shutdown::on_signal()?).await?;

    let provision = Provision::new(&DatabaseConfig::from_env(&env)?.url)?;
    let has_projects = provision.has_projects().await?;
    let keys = master_keys(&env, has_projects)?;
    if !dir.state_file().exists() && has_projects {
        println!("The database already has projects; no first project is created.");
        return Ok(());
    }
    let state = State::load_or_create(&dir, Clock::system().now_ms())?;
    let uses_mailbox = provision.first_project(&keys, &state.first, None, args.mailbox.as_ref()).await?;
    if let Some(mailbox) = args.mailbox.as_ref().filter(|_| uses_mailbox) {
        println!("The first project's mail goes to the mailbox at {}:{}.", mailbox.host, mailbox.port);
    }

    let is_new = !dir.credentials_file().exists();
    let credentials = Credentials::at(&origin, state.first, args.mailbox_dir.as_deref().unwrap_or(dir.path()));
    write_credentials(&dir, &credentials)?;
    let file = dir.credentials_file();
    if is_new {
        print!("{}", text(&credentials, &file));
    } else {
        println!("{}", existing_text(&file));
    }
    Ok(())
}

/// Returns the keys of the environment. Creates the key file if it is configured but missing.
///
/// If projects exist, a missing file is an error instead: their secrets open only under the original key, and secrets
/// sealed under a new key would be lost once the original is restored.
fn master_keys(env: &Env, has_projects: bool) -> Result<MasterKeys> {
    if let (None, Some(file)) = (env.get("MASTER_KEY"), env.get("MASTER_KEY_FILE")) {
        let file = Path::new(file);
        if has_projects && !file.exists() {
            bail!(
                "the database has projects, but {} (MASTER_KEY_FILE) with the key that encrypts their secrets is missing: \
                 restore it, or set MASTER_KEY",
                file.display()
            );
        }
        state::ensure_master_key(file)?;
    }
    Ok(MasterKeys::from_env(env)?)
}

fn existing_text(file: &Path) -> String {
    format!("The first project already exists. Its credentials are in {}.", file.display())
}

fn text(credentials: &Credentials, file: &Path) -> String {
    let Credentials {
        base_url, dashboard_url, project_id, public_key, secret_key, admin_email, admin_password, ..
    } = credentials;
    format!(
        "
The first project is created. Its credentials are shown only once:

  project      {project_id}
  public key   {public_key}
  secret key   {secret_key}
  dashboard    {dashboard_url}
  admin        {admin_email}, password {admin_password}
  API          {base_url}
  all values   {}

",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn master_key_is_created_only_if_none_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("master.key");
        let path = file.display().to_string();
        let given = "00".repeat(32);
        let both = Env::from_pairs([("MASTER_KEY", given.as_str()), ("MASTER_KEY_FILE", path.as_str())]);
        master_keys(&both, false).unwrap();
        assert!(!file.exists());
        let env = Env::from_pairs([("MASTER_KEY", ""), ("MASTER_KEY_FILE", path.as_str())]);
        let why = master_keys(&env, true).err().unwrap().to_string();
        assert!(why.contains("MASTER_KEY_FILE") && !file.exists(), "{why}");
        let made = master_keys(&env, false).unwrap().sealing_id();
        assert_eq!(master_keys(&env, true).unwrap().sealing_id(), made);
        assert!(master_keys(&Env::default(), false).is_err());
    }
}
