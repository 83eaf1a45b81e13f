//! Reads the configuration that a transaction needs before it applies a batch: automations, segment conditions,
//! endpoint subscriptions and timezones.

use std::sync::Arc;

use database::changes::{self, Topic};
use database::{StoreError, Transaction};
use store_sending::automations;

use super::Recorder;
use crate::automations::matching::{Index, IndexBuilder};
use crate::record::endpoints::EventSubscriptions;
use crate::record::marks::SegmentDependencies;

/// The configuration as of the transaction.
pub(super) struct Snapshot {
    pub index: Arc<Index>,
    pub dependencies: Arc<SegmentDependencies>,
    pub subscriptions: Arc<EventSubscriptions>,
}

impl Recorder {
    /// Returns the current configuration, and refreshes timezones and removed projects.
    ///
    /// An event sees everything that was saved before it was accepted.
    pub(super) async fn snapshot(&self, tx: &Transaction<'_>) -> Result<Snapshot, StoreError> {
        let topics = [Topic::Automation, Topic::Project, Topic::Segment, Topic::Webhook];
        let [automations, projects, segments, webhooks] = changes::current(tx, &topics).await?[..] else {
            return Err(StoreError::Corrupt("topics are missing".to_owned()));
        };
        self.timezones.refresh(tx, projects).await?;
        self.deleted_projects.refresh(tx, projects).await?;
        let dependencies = self.dependencies.refresh(tx, segments).await?;
        let subscriptions = self.endpoints.refresh(tx, webhooks).await?;
        Ok(Snapshot { index: self.fresh_index(tx, automations).await?, dependencies, subscriptions })
    }

    async fn fresh_index(&self, tx: &Transaction<'_>, current: i64) -> Result<Arc<Index>, StoreError> {
        let cached = self.index.load_full();
        if cached.seq == current {
            return Ok(cached);
        }
        let index = if cached.seq < 0 || cached.seq > current {
            let (mut builder, mut cursor) = (IndexBuilder::default(), None);
            loop {
                cursor = builder.add_page(automations::load_followed(tx, cursor).await?);
                if cursor.is_none() {
                    break builder.build(current);
                }
            }
        } else {
            cached.with_changes(current, automations::changed_after(tx, cached.seq).await?)
        };
        let index = Arc::new(index);
        self.index.store(index.clone());
        Ok(index)
    }
}
