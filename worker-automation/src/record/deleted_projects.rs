//! Drops items that were accepted for projects deleted since.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use database::{StoreError, Transaction};
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use store_projects::project_removals;

use crate::ingest::item::Item;

/// Deleted projects, as of a change sequence number.
#[derive(Debug, Default)]
struct DeletedSet {
    seq: Option<i64>,
    projects: HashSet<ProjectId>,
}

#[derive(Default)]
pub struct DeletedProjects(ArcSwap<DeletedSet>);

impl DeletedProjects {
    /// Reloads the deleted projects if `seq`, the number of the newest project change, has changed.
    pub async fn refresh(&self, tx: &Transaction<'_>, seq: i64) -> Result<(), StoreError> {
        if self.0.load().seq != Some(seq) {
            let projects = project_removals::all(tx).await?;
            self.0.store(Arc::new(DeletedSet { seq: Some(seq), projects }));
        }
        Ok(())
    }

    /// Drops and counts the items of deleted projects.
    pub fn drop_items(&self, items: &mut Vec<(usize, &Item)>) {
        let deleted = self.0.load();
        if deleted.projects.is_empty() {
            return;
        }
        let before = items.len();
        items.retain(|(_, item)| !deleted.projects.contains(&item.project));
        let dropped = (before - items.len()) as u64;
        if dropped > 0 {
            tracing::debug!(dropped, "dropped items of deleted projects");
            metrics::counter!(Metric::DroppedForDeletedProjects, "what" => "item").increment(dropped);
        }
    }
}
