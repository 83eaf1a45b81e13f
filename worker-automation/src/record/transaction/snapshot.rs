//! What a transaction reads before it applies a batch: automations, the conditions of segments, the subscriptions of endpoints, and
//! timezones, as they are now.

use std::sync::Arc;

use database::changes::{self, Topic};
use database::{StoreError, Transaction};
use store_sending::automations;

use super::Recorder;
use crate::automations::matching::{Index, Reading};
use crate::record::endpoints::Asked;
use crate::record::marks::Watches;

/// As of the transaction.
pub(super) struct Snapshot {
    pub index: Arc<Index>,
    pub watches: Arc<Watches>,
    pub asked: Arc<Asked>,
}

impl Recorder {
    /// The automations, what segments look at, what endpoints ask for, and the projects' timezones as they are now:
    /// whatever was saved before an event was accepted is seen by that event.
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
