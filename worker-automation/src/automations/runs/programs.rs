//! Caches compiled automation versions. A version never changes.

use std::sync::Arc;

use automation::journey::Program;
use database::{StoreError, Transaction};
use kernel::ids::ProjectId;
use store_sending::automations;
use uuid::Uuid;

pub struct Programs(quick_cache::sync::Cache<(ProjectId, Uuid, i32), Arc<Program>>);

impl Default for Programs {
    fn default() -> Self {
        Self(quick_cache::sync::Cache::new(1_000))
    }
}

impl Programs {
    /// Returns the compiled version.
    ///
    /// `None` if it does not exist or cannot be compiled: then its runs end with a reason, and the batch continues.
    pub async fn get(
        &self,
        tx: &Transaction<'_>,
        project: ProjectId,
        automation: Uuid,
        version: i32,
    ) -> Result<Option<Arc<Program>>, StoreError> {
        let key = (project, automation, version);
        if let Some(program) = self.0.get(&key) {
            return Ok(Some(program));
        }
        let compiled = match automations::get_version(tx, project, automation, version).await {
            Ok(None) => return Ok(None),
            Ok(Some(definition)) => Program::compile(&definition),
            Err(StoreError::Corrupt(why)) => Err(why),
            Err(error) => return Err(error),
        };
        match compiled {
            Ok(program) => {
                let program = Arc::new(program);
                self.0.insert(key, program.clone());
                Ok(Some(program))
            }
            Err(why) => {
                tracing::error!(%project, %automation, version, error = why, "automation version is invalid; its runs end");
                Ok(None)
            }
        }
    }
}
