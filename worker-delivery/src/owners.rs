//! The owners of projects, by which slots for calls are shared. Cached: a project's owner never changes.

use quick_cache::sync::Cache;
use shared::ids::{OwnerId, ProjectId};
use shared::store::projects::creators;
use shared::store::{Store, StoreError};

const CACHED: usize = 10_000;

pub struct Owners(Cache<ProjectId, OwnerId>);

impl Default for Owners {
    fn default() -> Self {
        Self(Cache::new(CACHED))
    }
}

impl Owners {
    pub async fn of(&self, store: &Store, project: ProjectId) -> Result<OwnerId, StoreError> {
        if let Some(owner) = self.0.get(&project) {
            return Ok(owner);
        }
        let owners = creators::owners(&store.connection().await?, &[project]).await?;
        let owner = owners.get(&project).copied().unwrap_or_else(|| project.into());
        self.0.insert(project, owner);
        Ok(owner)
    }
}
