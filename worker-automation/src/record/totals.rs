//! Adds up what recording has counted, so that reading the totals stays cheap.
//!
//! Which projects have rows to be added up is known from what this worker has recorded; what earlier workers left is
//! looked for at the start. Nothing depends on its being done: the totals are exact before and after.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use database::{Store, StoreError};
use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;
use store_profiles::events::counters;
use tokio::time::Instant;

/// How often to look for what is worth adding up.
const ROUND: Duration = Duration::from_secs(5);
/// Rows of a project that are added up at the next look,
const MANY: u32 = 200;
/// and for how long fewer may lie.
const LONG: Duration = Duration::from_secs(30);
/// Projects in one transaction.
const TOGETHER: usize = 50;

struct Noted {
    rows: u32,
    since: Instant,
}

/// What waits to be added up.
#[derive(Default)]
pub struct Totals(Mutex<HashMap<ProjectId, Noted>>);

impl Totals {
    /// A transaction has counted events of these projects.
    pub fn note(&self, projects: impl IntoIterator<Item = ProjectId>) {
        let Ok(mut noted) = self.0.lock() else { return };
        for project in projects {
            noted.entry(project).or_insert_with(|| Noted { rows: 0, since: Instant::now() }).rows += 1;
        }
    }

    /// Projects whose rows are many or old, in order, so that two workers do not wait for each other in a circle.
    fn due(&self, now: Instant) -> Vec<ProjectId> {
        let Ok(mut noted) = self.0.lock() else { return Vec::new() };
        let is_due = |n: &mut Noted| n.rows >= MANY || now.saturating_duration_since(n.since) >= LONG;
        let mut due: Vec<ProjectId> = noted.extract_if(|_, n| is_due(n)).map(|(project, _)| project).collect();
        due.sort_unstable();
        due
    }

    /// Runs until the shutdown.
    pub async fn run(&self, store: Store, shutdown: Shutdown) {
        let mut looked = false;
        while shutdown.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_some() {
            if !looked {
                looked = self.note_left(&store).await.is_ok();
            }
            let due = self.due(Instant::now());
            for (i, together) in due.chunks(TOGETHER).enumerate() {
                if let Err(error) = fold(&store, together).await {
                    tracing::debug!(%error, "cannot add up the totals; trying again");
                    self.note(due.iter().skip(i * TOGETHER).copied());
                    break;
                }
            }
        }
    }

    async fn note_left(&self, store: &Store) -> Result<(), StoreError> {
        self.note(counters::unfolded(&store.connection().await?).await?);
        Ok(())
    }
}

async fn fold(store: &Store, projects: &[ProjectId]) -> Result<(), StoreError> {
    let mut connection = store.connection().await?;
    let tx = connection.transaction().await?;
    for project in projects {
        counters::fold(&tx, *project).await?;
    }
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_much_or_old_is_due_once() {
        let totals = Totals::default();
        let [busy, quiet] = [2, 1].map(|n| ProjectId(Uuid::from_u128(n)));
        totals.note([quiet]);
        for _ in 0..MANY {
            totals.note([busy]);
        }
        let now = Instant::now();
        assert_eq!(totals.due(now), [busy]);
        assert_eq!(totals.due(now), []);
        totals.note([busy]);
        assert_eq!(totals.due(now + LONG * 2), [quiet, busy]);
    }
}
