//! Caches the secrets of each project that proofs of user IDs are made with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use database::{Store, StoreError};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use quick_cache::sync::Cache;
use secrets::MasterKeys;
use sha2::{Digest, Sha256};
use store_projects::projects::{self, IdentitySecrets};

/// Identity secrets of projects, loaded on first use. A rotation removes the project's entry ([`crate::auth::watch`]).
pub struct SecretCache {
    loaded: Cache<ProjectId, Arc<IdentitySecrets>>,
    /// Counts removals: a load that began before a removal is not cached after it.
    removals: AtomicU64,
}

impl Default for SecretCache {
    fn default() -> Self {
        Self { loaded: Cache::new(10_000), removals: AtomicU64::new(0) }
    }
}

impl SecretCache {
    /// Returns a project's secrets, or `None` if the project does not exist.
    pub async fn get(
        &self,
        store: &Store,
        keys: &MasterKeys,
        project: ProjectId,
    ) -> Result<Option<Arc<IdentitySecrets>>, StoreError> {
        if let Some(secrets) = self.loaded.get(&project) {
            return Ok(Some(secrets));
        }
        let before = self.removals.load(Ordering::SeqCst);
        let Some(secrets) = projects::secrets(&store.connection().await?, keys, project).await? else {
            return Ok(None);
        };
        let secrets = Arc::new(secrets.identity_secrets());
        self.loaded.insert(project, secrets.clone());
        if self.removals.load(Ordering::SeqCst) != before {
            self.loaded.remove(&project);
        }
        Ok(Some(secrets))
    }

    /// Removes changed projects.
    pub fn remove(&self, projects: impl IntoIterator<Item = ProjectId>) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        for project in projects {
            self.loaded.remove(&project);
        }
    }

    pub fn clear(&self) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.loaded.clear();
    }
}

/// SHA-256 of an identity secret.
pub type SecretHash = [u8; 32];

pub(super) fn secret_hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns whether a secret is still accepted.
pub fn is_accepted(secrets: &IdentitySecrets, secret: &SecretHash, now: Timestamp) -> bool {
    secrets.accepted(now).any(|accepted| secret_hash(accepted) == *secret)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store_projects::projects::PreviousSecret;

    use super::*;

    #[test]
    fn previous_secret_is_accepted_until_its_overlap_ends() {
        let until = Timestamp::UNIX_EPOCH;
        let previous = Some(PreviousSecret { secret: "old".to_owned(), until });
        let secrets = IdentitySecrets { current: "new".to_owned(), previous };
        let second = Duration::from_secs(1);
        for (secret, now, accepted) in [
            ("new", until + second, true),
            ("old", until - second, true),
            ("old", until, false),
            ("other", until - second, false),
        ] {
            assert_eq!(is_accepted(&secrets, &secret_hash(secret), now), accepted, "{secret} at {now}");
        }
    }
}
