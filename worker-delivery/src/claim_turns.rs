//! One claim at a time of each project and lane in this process, but for accounts with a limit, which have an order of their own.
//!
//! While one is made, the permits of calls that end add up, and the next takes as many as it has messages for: a busy project's
//! claims grow by themselves, and one that is not busy waits for nobody. If each permit were claimed for by itself, the database would
//! be busy with little else. A claim that takes long keeps nobody waiting.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared::ids::ProjectId;
use shared::send::Lane;
use tokio::sync::OwnedMutexGuard;

/// So many turns are kept at least before those are forgotten that nobody has or waits for.
const KEPT: usize = 1_024;
/// A claim that waits for a lock or a hanging connection holds its turn no longer.
const LONGEST: Duration = Duration::from_millis(100);

type Turns = HashMap<(ProjectId, Lane), Arc<tokio::sync::Mutex<()>>>;

#[derive(Debug, Default)]
pub struct ClaimTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turns: Turns,
    /// As many as there were when they were last looked through.
    kept: usize,
}

/// It is over when this is dropped.
pub type ClaimTurn = OwnedMutexGuard<()>;

/// Does what somebody has a turn for; others may when it is done or has taken long.
pub async fn in_turn<T>(turn: Option<impl Sized>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(turn) = turn {
        if let Ok(done) = tokio::time::timeout(LONGEST, &mut work).await {
            return done;
        }
        drop(turn);
    }
    work.await
}

impl ClaimTurns {
    /// Waits until no other claim of the project and the lane is being made or waits for its permits. Those who wait have their turns in
    /// the order in which they came.
    pub async fn next(&self, project: ProjectId, lane: Lane) -> ClaimTurn {
        let turn = self.state().turn(project, lane);
        turn.lock_owned().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn turn(&mut self, project: ProjectId, lane: Lane) -> Arc<tokio::sync::Mutex<()>> {
        if self.turns.len() >= KEPT.max(2 * self.kept) {
            self.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            self.kept = self.turns.len();
        }
        self.turns.entry((project, lane)).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn project(n: u128) -> ProjectId {
        ProjectId(Uuid::from_u128(n))
    }

    #[tokio::test]
    async fn one_claim_of_a_project_and_lane_is_made_at_a_time() {
        let turns = ClaimTurns::default();
        let first = turns.next(project(1), Lane::Direct).await;
        let mut second = pin!(turns.next(project(1), Lane::Direct));
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut second).await.is_err());
        // Neither another project nor another lane waits for it.
        let _others = (turns.next(project(2), Lane::Direct).await, turns.next(project(1), Lane::Campaign).await);
        drop(first);
        drop(second.await);
    }

    #[tokio::test]
    async fn a_claim_that_takes_long_keeps_nobody_waiting() {
        let turns = ClaimTurns::default();
        let turn = turns.next(project(1), Lane::Direct).await;
        let (made, claim) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(in_turn(Some(turn), claim));
        let second = turns.next(project(1), Lane::Direct).await;
        assert_eq!(in_turn(Some(second), async { 2 }).await, 2);
        made.send(1).unwrap();
        assert_eq!(first.await.unwrap(), Ok(1));
    }

    #[tokio::test]
    async fn who_waits_no_more_is_passed_by() {
        let turns = ClaimTurns::default();
        let first = turns.next(project(1), Lane::Direct).await;
        assert!(tokio::time::timeout(Duration::from_millis(5), turns.next(project(1), Lane::Direct)).await.is_err());
        drop(first);
        turns.next(project(1), Lane::Direct).await;
    }

    #[tokio::test]
    async fn turns_that_nobody_has_are_forgotten() {
        let turns = ClaimTurns::default();
        let held = turns.next(project(0), Lane::Direct).await;
        for n in 1..10 * KEPT as u128 {
            turns.next(project(n), Lane::Direct).await;
        }
        assert!(turns.state().turns.len() <= KEPT);
        assert!(turns.state().turns.contains_key(&(project(0), Lane::Direct)));
        drop(held);
    }
}
