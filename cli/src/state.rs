//! The persistent state of a run directory: generated once, written before its first use, and kept.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kernel::ids;
use serde::{Deserialize, Serialize};
use store_projects::api_keys::{self, KeyType};
use store_projects::projects::ProjectSecrets;
use uuid::Uuid;

use crate::private_file;
use crate::run_dir::RunDir;

const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    version: u32,
    /// Incremented by every `up`. The supervisor publishes the generation that it has applied.
    pub generation: u64,
    pub first: FirstProject,
    pub ports: Ports,
    /// The mailbox port that this program last wrote into the first project's email channel.
    pub mail_port_in_channel: Option<u16>,
    pub servers: Servers,
}

/// ID, keys and credentials of the first project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstProject {
    pub id: Uuid,
    pub public_key_id: Uuid,
    pub public_key: String,
    pub secret_key_id: Uuid,
    pub secret_key: String,
    pub webhook_secret: String,
    pub identity_secret: String,
    pub admin_id: Uuid,
    pub admin_email: String,
    pub admin_password: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    pub gateway: Option<u16>,
    pub smtp: Option<u16>,
    /// Port of `/readyz`, by process.
    pub admin: BTreeMap<String, u16>,
}

/// URLs of the servers, including passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Servers {
    pub database: String,
    pub nats: String,
    /// Empty if Redis is not used.
    pub redis: String,
}

impl State {
    fn new(now_ms: i64) -> Self {
        let fresh = || ids::fresh(now_ms);
        let secrets = ProjectSecrets::random();
        Self {
            version: VERSION,
            generation: 0,
            first: FirstProject {
                id: fresh(),
                public_key_id: fresh(),
                public_key: api_keys::random_key(KeyType::Public),
                secret_key_id: fresh(),
                secret_key: api_keys::random_key(KeyType::Secret),
                webhook_secret: secrets.webhook,
                identity_secret: secrets.identity,
                admin_id: fresh(),
                admin_email: "admin@rekindle.localhost".into(),
                admin_password: hex(&rand::random::<[u8; 12]>()),
            },
            ports: Ports::default(),
            mail_port_in_channel: None,
            servers: Servers::default(),
        }
    }

    /// Loads the state of a directory, or returns `None` if nothing was ever started there.
    pub fn load(dir: &RunDir) -> Result<Option<Self>> {
        let path = dir.state_file();
        let Some(text) = private_file::read(&path).with_context(|| format!("cannot read {}", path.display()))? else {
            return Ok(None);
        };
        let state: Self = serde_json::from_str(&text).with_context(|| {
            format!("{} is damaged: repair it, or remove {} to start over", path.display(), dir.path().display())
        })?;
        if state.version != VERSION {
            bail!("{} was written by another version of rekindle ({})", path.display(), state.version);
        }
        Ok(Some(state))
    }

    /// Loads the state of a directory, or generates and writes it.
    pub fn load_or_create(dir: &RunDir, now_ms: i64) -> Result<Self> {
        if let Some(state) = Self::load(dir)? {
            return Ok(state);
        }
        let state = Self::new(now_ms);
        state.save(dir)?;
        Ok(state)
    }

    pub fn save(&self, dir: &RunDir) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        private_file::write(&dir.state_file(), &text)
            .with_context(|| format!("cannot write {}", dir.state_file().display()))
    }
}

/// Creates the master key file if it does not exist: 32 random bytes in hexadecimal.
pub fn ensure_master_key(path: &Path) -> Result<()> {
    if !path.exists() {
        private_file::write(path, format!("{}\n", hex(&rand::random::<[u8; 32]>())).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_state_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        assert!(State::load(&dir).unwrap().is_none());
        let mut state = State::load_or_create(&dir, 1).unwrap();
        state.ports.gateway = Some(9000);
        state.ports.admin.insert("gateway".into(), 9001);
        state.save(&dir).unwrap();
        let again = State::load_or_create(&dir, 2).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&state).unwrap());
        assert!(api_keys::has_key_format(&again.first.public_key) && again.first.secret_key.starts_with("sk_live_"));
    }

    #[test]
    fn a_damaged_state_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        std::fs::write(dir.state_file(), "{ half").unwrap();
        assert!(State::load_or_create(&dir, 1).unwrap_err().to_string().contains("damaged"));
        assert_eq!(std::fs::read_to_string(dir.state_file()).unwrap(), "{ half");
    }

    #[test]
    fn master_key_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        ensure_master_key(&dir.master_key_file()).unwrap();
        let key = std::fs::read_to_string(dir.master_key_file()).unwrap();
        assert!(secrets::MasterKeys::parse(&key).is_some());
        ensure_master_key(&dir.master_key_file()).unwrap();
        assert_eq!(std::fs::read_to_string(dir.master_key_file()).unwrap(), key);
    }
}
