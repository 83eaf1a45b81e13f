//! Reads the configuration that a transaction needs before it applies a batch: automations, segment conditions,
//! endpoint subscriptions and timezones.

use std::sync::Arc;

use database::changes::{self, Topic};
use database::{StoreError, Transaction};
use store_sending::automations;

use super::Recorder;
use crate::automations::matching::{Index, Reading};
use crate::record::endpoints::Asked;
use crate::record::marks::Watches;

/// The configuration as of the transaction.
pub(super) struct Snapshot {
    pub index: Arc<Index>,
    pub watches: Arc<Watches>,
    pub asked: Arc<Asked>,
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
        self.days.follow(tx, projects).await?;
        self.removed.follow(tx, projects).await?;
        let watches = self.watching.follow(tx, segments).await?;
        let asked = self.endpoints.follow(tx, webhooks).await?;
        Ok(Snapshot { index: self.fresh_index(tx, automations).await?, watches, asked })
    }

    async fn fresh_index(&self, tx: &Transaction<'_>, current: i64) -> Result<Arc<Index>, StoreError> {
        let known = self.index.load_full();
        if known.seq == current {
            return Ok(known);
        }
        let index = if known.seq < 0 || known.seq > current {
            let (mut reading, mut behind) = (Reading::default(), None);
            loop {
                behind = reading.take(automations::load_followed(tx, behind).await?);
                if behind.is_none() {
                    break reading.finish(current);
                }
            }
        } else {
            known.changed(current, automations::changed_after(tx, known.seq).await?)
        };
        let index = Arc::new(index);
        self.index.store(index.clone());
        Ok(index)
    }
}
