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
const FOLD_INTERVAL: Duration = Duration::from_secs(5);
/// Number of rows from which a project is folded in the next round.
const MAX_UNFOLDED_ROWS: u32 = 200;
/// Age from which fewer rows are folded.
const MAX_UNFOLDED_AGE: Duration = Duration::from_secs(30);
/// Maximum number of projects in one transaction.
const MAX_PROJECTS_PER_TRANSACTION: usize = 50;

struct UnfoldedRows {
    rows: u32,
    since: Instant,
}

/// Projects with unfolded counter rows.
#[derive(Default)]
pub struct Totals(Mutex<HashMap<ProjectId, UnfoldedRows>>);

impl Totals {
    /// Records that a transaction has counted events of these projects.
    pub fn add(&self, projects: impl IntoIterator<Item = ProjectId>) {
        let Ok(mut unfolded) = self.0.lock() else { return };
        for project in projects {
            unfolded.entry(project).or_insert_with(|| UnfoldedRows { rows: 0, since: Instant::now() }).rows += 1;
        }
    }

    /// Removes and returns the projects with many or old rows, sorted so that two workers cannot deadlock.
    fn due(&self, now: Instant) -> Vec<ProjectId> {
        let Ok(mut unfolded) = self.0.lock() else { return Vec::new() };
        let is_due = |n: &mut UnfoldedRows| {
            n.rows >= MAX_UNFOLDED_ROWS || now.saturating_duration_since(n.since) >= MAX_UNFOLDED_AGE
        };
        let mut due: Vec<ProjectId> = unfolded.extract_if(|_, n| is_due(n)).map(|(project, _)| project).collect();
        due.sort_unstable();
        due
    }

    /// Folds due projects periodically until shutdown.
    pub async fn run(&self, store: Store, shutdown: Shutdown) {
        let mut has_leftover = false;
        while shutdown.run_until_cancelled(tokio::time::sleep(FOLD_INTERVAL)).await.is_some() {
            if !has_leftover {
                has_leftover = self.add_leftover(&store).await.is_ok();
            }
            let due = self.due(Instant::now());
            for (i, chunk) in due.chunks(MAX_PROJECTS_PER_TRANSACTION).enumerate() {
                if let Err(error) = fold(&store, chunk).await {
                    tracing::debug!(%error, "event totals cannot be folded; retrying");
                    self.add(due.iter().skip(i * MAX_PROJECTS_PER_TRANSACTION).copied());
                    break;
                }
            }
        }
    }

    async fn add_leftover(&self, store: &Store) -> Result<(), StoreError> {
        self.add(counters::projects_to_fold(&store.connection().await?).await?);
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
    fn many_or_old_rows_are_due_once() {
        let totals = Totals::default();
        let [busy, quiet] = [2, 1].map(|n| ProjectId(Uuid::from_u128(n)));
        totals.add([quiet]);
        for _ in 0..MAX_UNFOLDED_ROWS {
            totals.add([busy]);
        }
        let now = Instant::now();
        assert_eq!(totals.due(now), [busy]);
        assert_eq!(totals.due(now), []);
        totals.add([busy]);
        assert_eq!(totals.due(now + MAX_UNFOLDED_AGE * 2), [quiet, busy]);
    }
}
