//! Which projects have endpoints of other systems, and what those ask to be told: known in memory, so that whoever has none
//! pays nothing. Telling them is rows of the recording transaction; delivery sends them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use database::{StoreError, Transaction};
use domain::webhook::ALL_TYPES;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use store_projects::webhook_endpoints;
use store_sending::webhook_deliveries::tell::{self, MessageNews, RunNews};

/// What projects ask for, as of a sequence of changes.
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

    /// Tells those who ask. What is told of runs is looked through here.
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

/// Follows what is asked for.
pub struct Endpoints(ArcSwap<Asked>);

impl Default for Endpoints {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Asked { seq: -1, projects: HashMap::default() }))
    }
}

impl Endpoints {
    /// As it is now, where the newest change is `seq`. There are few endpoints, and they seldom change: all are read.
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
