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
use store_sending::webhook_deliveries::tell::{self, MessageNews, RunNews};

/// The subscribed types of each project, as of a change sequence number.
#[derive(Debug, Default)]
pub struct Asked {
    seq: i64,
    projects: HashMap<ProjectId, HashSet<String>>,
}

impl Asked {
    pub fn is_empty(&self) -> bool {
        self.projects.is_empty()
    }

    pub fn asks(&self, project: ProjectId, kind: &str) -> bool {
        self.projects.get(&project).is_some_and(|types| types.contains(ALL_TYPES) || types.contains(kind))
    }

    /// Inserts notifications for the endpoints that subscribe to them.
    ///
    /// Filters `runs` by subscription; the caller has already filtered `messages`.
    pub async fn tell(
        &self,
        tx: &Transaction<'_>,
        messages: &BTreeMap<ProjectId, Vec<MessageNews>>,
        runs: &[RunNews],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        for (project, news) in messages {
            tell::of_messages(tx, *project, news, now).await?;
        }
        let asked: Vec<&RunNews> = runs.iter().filter(|news| self.asks(news.project, news.kind)).collect();
        tell::of_runs(tx, &asked, now).await?;
        Ok(())
    }
}

/// Cache of the current subscriptions.
pub struct Endpoints(ArcSwap<Asked>);

impl Default for Endpoints {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Asked { seq: -1, projects: HashMap::default() }))
    }
}

impl Endpoints {
    /// Returns the current subscriptions; `seq` is the number of the newest change.
    ///
    /// Reads all endpoints on a change: there are few, and they seldom change.
    pub async fn follow(&self, tx: &Transaction<'_>, seq: i64) -> Result<Arc<Asked>, StoreError> {
        let known = self.0.load_full();
        if known.seq == seq {
            return Ok(known);
        }
        let now = Arc::new(Asked { seq, projects: webhook_endpoints::subscribed(tx).await? });
        self.0.store(now.clone());
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_what_is_asked_for_is_told() {
        let [one, all, none] = [1, 2, 3].map(|n| ProjectId(Uuid::from_u128(n)));
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        let projects = HashMap::from([(one, types(&["message.opened"])), (all, types(&["*"]))]);
        let asked = Asked { seq: 0, projects };
        for (project, kind, asks) in [
            (one, "message.opened", true),
            (one, "message.clicked", false),
            (all, "message.clicked", true),
            (none, "message.opened", false),
        ] {
            assert_eq!(asked.asks(project, kind), asks, "{project} {kind}");
        }
    }
}
