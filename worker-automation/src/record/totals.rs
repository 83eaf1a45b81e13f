//! Folds event counters into totals, so that reading the totals stays cheap.
//!
//! The worker knows which projects have unfolded rows from what it has recorded, and reads those of earlier workers at
//! the start. Correctness does not depend on folding: the totals are exact before and after.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use database::{Store, StoreError};
use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;
use store_profiles::events::counters;
use tokio::time::Instant;

/// Interval between rounds.
const ROUND: Duration = Duration::from_secs(5);
/// Number of rows from which a project is folded in the next round.
const MANY: u32 = 200;
/// Age from which fewer rows are folded.
const LONG: Duration = Duration::from_secs(30);
/// Maximum number of projects in one transaction.
const TOGETHER: usize = 50;

struct Noted {
    rows: u32,
    since: Instant,
}

/// Projects with unfolded counter rows.
#[derive(Default)]
pub struct Totals(Mutex<HashMap<ProjectId, Noted>>);

impl Totals {
    /// Records that a transaction has counted events of these projects.
    pub fn note(&self, projects: impl IntoIterator<Item = ProjectId>) {
        let Ok(mut noted) = self.0.lock() else { return };
        for project in projects {
            noted.entry(project).or_insert_with(|| Noted { rows: 0, since: Instant::now() }).rows += 1;
        }
    }

    /// Removes and returns the projects with many or old rows, sorted so that two workers cannot deadlock.
    fn due(&self, now: Instant) -> Vec<ProjectId> {
        let Ok(mut noted) = self.0.lock() else { return Vec::new() };
        let is_due = |n: &mut Noted| n.rows >= MANY || now.saturating_duration_since(n.since) >= LONG;
        let mut due: Vec<ProjectId> = noted.extract_if(|_, n| is_due(n)).map(|(project, _)| project).collect();
        due.sort_unstable();
        due
    }

    /// Folds due projects periodically until shutdown.
    pub async fn run(&self, store: Store, shutdown: Shutdown) {
        let mut looked = false;
        while shutdown.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_some() {
            if !looked {
                looked = self.note_left(&store).await.is_ok();
            }
            let due = self.due(Instant::now());
            for (i, together) in due.chunks(TOGETHER).enumerate() {
                if let Err(error) = fold(&store, together).await {
                    tracing::debug!(%error, "event totals cannot be folded; retrying");
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
