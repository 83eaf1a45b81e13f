//! Caches which event types each project's webhook endpoints subscribe to, so that projects without endpoints cost
//! nothing.
//!
//! The recording transaction inserts the notifications as rows; the delivery worker sends them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use database::{StoreError, Transaction};
use domain::webhook::ALL_TYPES;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use store_projects::webhook_endpoints;
use store_sending::webhook_deliveries::enqueue::{self, MessageEvent, RunEvent};

/// The subscribed types of each project, as of a change sequence number.
#[derive(Debug, Default)]
pub struct EventSubscriptions {
    seq: i64,
    projects: HashMap<ProjectId, HashSet<String>>,
}

impl EventSubscriptions {
    pub fn is_empty(&self) -> bool {
        self.projects.is_empty()
    }

    pub fn includes(&self, project: ProjectId, kind: &str) -> bool {
        self.projects.get(&project).is_some_and(|types| types.contains(ALL_TYPES) || types.contains(kind))
    }

    /// Inserts notifications for the endpoints that subscribe to them.
    ///
    /// Filters `runs` by subscription; the caller has already filtered `messages`.
    pub async fn notify(
        &self,
        tx: &Transaction<'_>,
        messages: &BTreeMap<ProjectId, Vec<MessageEvent>>,
        runs: &[RunEvent],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        for (project, news) in messages {
            enqueue::for_messages(tx, *project, news, now).await?;
        }
        let subscribed: Vec<&RunEvent> = runs.iter().filter(|news| self.includes(news.project, news.kind)).collect();
        enqueue::for_runs(tx, &subscribed, now).await?;
        Ok(())
    }
}

/// Cache of the current subscriptions.
pub struct EndpointCache(ArcSwap<EventSubscriptions>);

impl Default for EndpointCache {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(EventSubscriptions { seq: -1, projects: HashMap::default() }))
    }
}

impl EndpointCache {
    /// Returns the current subscriptions; `seq` is the number of the newest change.
    ///
    /// Reads all endpoints on a change: there are few, and they seldom change.
    pub async fn refresh(&self, tx: &Transaction<'_>, seq: i64) -> Result<Arc<EventSubscriptions>, StoreError> {
        let cached = self.0.load_full();
        if cached.seq == seq {
            return Ok(cached);
        }
        let now = Arc::new(EventSubscriptions { seq, projects: webhook_endpoints::subscribed(tx).await? });
        self.0.store(now.clone());
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_subscribed_types_are_included() {
        let [one, all, none] = [1, 2, 3].map(|n| ProjectId(Uuid::from_u128(n)));
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        let projects = HashMap::from([(one, types(&["message.opened"])), (all, types(&["*"]))]);
        let subscriptions = EventSubscriptions { seq: 0, projects };
        for (project, kind, includes) in [
            (one, "message.opened", true),
            (one, "message.clicked", false),
            (all, "message.clicked", true),
            (none, "message.opened", false),
        ] {
            assert_eq!(subscriptions.includes(project, kind), includes, "{project} {kind}");
        }
    }
}
