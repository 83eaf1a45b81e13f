//! Caches the owners of projects, between whom slots are shared. A project's owner never changes.

use std::collections::{BTreeSet, HashMap};

use database::{Store, StoreError};
use kernel::ids::{OwnerId, ProjectId};
use quick_cache::sync::Cache;
use store_projects::projects::creators;

const MAX_CACHED_OWNERS: usize = 10_000;

pub struct Owners(Cache<ProjectId, OwnerId>);

impl Default for Owners {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_OWNERS))
    }
}

impl Owners {
    pub async fn of(&self, store: &Store, project: ProjectId) -> Result<OwnerId, StoreError> {
        let owners = self.of_all(store, &BTreeSet::from([project])).await?;
        Ok(owners.get(&project).copied().unwrap_or_else(|| project.into()))
    }

    /// Returns a project's owner if it is cached.
    pub fn cached(&self, project: ProjectId) -> Option<OwnerId> {
        self.0.get(&project)
    }

    /// Returns the owner of each project.
    pub async fn of_all(
        &self,
        store: &Store,
        projects: &BTreeSet<ProjectId>,
    ) -> Result<HashMap<ProjectId, OwnerId>, StoreError> {
        let mut owners: HashMap<ProjectId, OwnerId> =
            projects.iter().filter_map(|project| Some((*project, self.0.get(project)?))).collect();
        let unknown: Vec<ProjectId> = projects.iter().filter(|p| !owners.contains_key(p)).copied().collect();
        if !unknown.is_empty() {
            let found = creators::owners(&store.connection().await?, &unknown).await?;
            for project in unknown {
                let owner = found.get(&project).copied().unwrap_or_else(|| project.into());
                self.0.insert(project, owner);
                owners.insert(project, owner);
            }
        }
        Ok(owners)
    }
}
