//! Dead letters and their replay.

use anyhow::Result;
use database::filter::PageStart;
use kernel::ids::{self, ProjectId};
use serde_json::json;
use store_projects::audit::{self, Actor, Change};
use store_sending::dead_letters::{self, DeadFilter, DeadLetter, Replayed};

use super::{Provision, accounts};

/// Maximum dead letters per transaction.
const BATCH_SIZE: i64 = 10_000;

impl Provision {
    /// Returns the newest dead letters.
    pub async fn dead_letters(&self, project: ProjectId, which: &DeadFilter, limit: i64) -> Result<Vec<DeadLetter>> {
        let mut connection = self.connection().await?;
        accounts::check_project(&connection, project.0).await?;
        Ok(dead_letters::list(&mut connection, project, which, &PageStart::Offset(0), limit).await?)
    }

    /// Replays all matching dead letters.
    pub async fn replay_dead_letters(&self, project: ProjectId, which: &DeadFilter) -> Result<Replayed> {
        let mut connection = self.connection().await?;
        accounts::check_project(&connection, project.0).await?;
        let mut all = Replayed::default();
        loop {
            let now = self.clock.now();
            let tx = connection.transaction().await?;
            let some = dead_letters::replay(&tx, project, which, BATCH_SIZE, now).await?;
            if some.sum() > 0 {
                let change = Change {
                    action: "dead_letters.replayed",
                    resource_id: None,
                    resource_name: None,
                    details: json!({ "messages": some.messages, "items": some.items }),
                    request_id: None,
                };
                let line = ids::fresh(now.as_millisecond());
                audit::insert(&tx, project, line, &Actor::Operator, &change, now).await?;
            }
            tx.commit().await?;
            (all.messages, all.items) = (all.messages + some.messages, all.items + some.items);
            if some.messages < BATCH_SIZE.unsigned_abs() && some.items < BATCH_SIZE.unsigned_abs() {
                return Ok(all);
            }
        }
    }
}
