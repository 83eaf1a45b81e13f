//! Caches compiled templates, each in its current version.

use std::collections::HashMap;
use std::sync::Arc;

use database::StoreError;
use deadpool_postgres::GenericClient;
use kernel::ids::ProjectId;
use quick_cache::sync::Cache;
use store_projects::templates::source;
use template::ParseError;
use uuid::Uuid;

use crate::render::Compiled;

/// Maximum compiled templates in the cache.
const MAX_CACHED_TEMPLATES: usize = 512;

/// A compiled template, or the error in it.
pub type CompiledTemplate = Result<Arc<Compiled>, ParseError>;

pub struct Templates(Cache<(ProjectId, Uuid), Arc<Compiled>>);

impl Default for Templates {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_TEMPLATES))
    }
}

impl Templates {
    /// Returns the templates with these IDs, without deleted ones. Reads only texts that are not cached.
    pub async fn load(
        &self,
        db: &impl GenericClient,
        project: ProjectId,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, CompiledTemplate>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let cached: HashMap<Uuid, Arc<Compiled>> =
            ids.iter().filter_map(|id| Some((*id, self.0.get(&(project, *id))?))).collect();
        let wanted: Vec<(Uuid, i32)> = ids.iter().map(|id| (*id, cached.get(id).map_or(0, |c| c.version))).collect();
        let mut found = HashMap::with_capacity(ids.len());
        for template in source::newest(db, project, &wanted).await? {
            let compiled = match (&template.text, cached.get(&template.id)) {
                (Some(text), _) => Compiled::new(template.version, &text.subject, &text.body)
                    .and_then(|compiled| compiled.with_url(text.url.as_deref()))
                    .map(Arc::new),
                (None, Some(cached)) => Ok(cached.clone()),
                (None, None) => continue,
            };
            if let Ok(compiled) = &compiled {
                self.0.insert((project, template.id), compiled.clone());
            }
            found.insert(template.id, compiled);
        }
        Ok(found)
    }
}
