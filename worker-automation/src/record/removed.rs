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
struct AsOf {
    seq: Option<i64>,
    projects: HashSet<ProjectId>,
}

#[derive(Default)]
pub struct Removed(ArcSwap<AsOf>);

impl Removed {
    /// Reloads the deleted projects if `seq`, the number of the newest project change, has changed.
    pub async fn follow(&self, tx: &Transaction<'_>, seq: i64) -> Result<(), StoreError> {
        if self.0.load().seq != Some(seq) {
            let projects = project_removals::all(tx).await?;
            self.0.store(Arc::new(AsOf { seq: Some(seq), projects }));
        }
        Ok(())
    }

    /// Drops and counts the items of deleted projects.
    pub fn leave_out(&self, items: &mut Vec<(usize, &Item)>) {
        let removed = self.0.load();
        if removed.projects.is_empty() {
            return;
        }
        let before = items.len();
        items.retain(|(_, item)| !removed.projects.contains(&item.project));
        let dropped = (before - items.len()) as u64;
        if dropped > 0 {
            tracing::debug!(dropped, "dropped items of deleted projects");
            metrics::counter!(Metric::DroppedOfDeleted, "what" => "item").increment(dropped);
        }
    }
}
