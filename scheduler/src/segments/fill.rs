//! Processes followed segments as a whole.
//!
//! Fills new and changed segments slice by slice; only users created since then count as having entered. Finds
//! membership changes that are not marked. Removes the rows of segments that are no longer followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ::rules::change::{ChangeKind, needs_sweeps};
use ::rules::sql::{self, Membership};
use database::{StoreError, Transaction};
use jiff::{SignedDuration, Timestamp};
use kernel::ids::ProjectId;
use store_profiles::segments::dirty;
use store_profiles::segments::evaluate::{self as rules, Definitions};
use store_profiles::segments::follow::{self, EvaluationLock, Follow, SegmentVersion};
use store_profiles::segments::membership;
use store_profiles::segments::user_facts::batch::{self, Evaluation, Evaluations, Pair};
use store_profiles::users::read;
use store_profiles::users::removals::wait_for_recorders;
use uuid::Uuid;

use super::LIMITS;
use super::evaluate::{begin, suspend};
use super::settle::{Settling, settle};
use crate::App;
use crate::tick::{PollResult, TickError};

/// Maximum number of users filled, and of rows removed, in one transaction.
const SLICE: usize = 2_000;
/// Time limit for finding users whose stored membership is wrong.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum pause between sweeps. [`SWEEP_PAUSE_FACTOR`] is the minimum pause as a multiple of the sweep's duration.
const MIN_SWEEP_PAUSE: SignedDuration = SignedDuration::from_secs(20);
const SWEEP_PAUSE_FACTOR: i32 = 20;
/// Maximum number of users found in one sweep.
const MAX_DIFFERING: i64 = 20_000;

/// Processes a segment that is due.
pub async fn process(app: &App, project: ProjectId, segment: Uuid) -> Result<PollResult, TickError> {
    let Some(found) = follow::get(&app.store.connection().await?, project, segment).await? else {
        return Ok(PollResult::Idle);
    };
    match found {
        Follow { wanted: false, .. } => clear(app, project, segment).await,
        Follow { filled: true, .. } => sweep(app, project, &found).await,
        Follow { filled_to, since, .. } => {
            if filled_to.is_none() {
                // Recording transactions that began before the segment was followed mark no users for it.
                wait_for_recorders(&app.store.connection().await?).await?;
            }
            slice(app, project, (segment, since)).await
        }
    }
}

/// Fills the next slice of a segment.
///
/// Does nothing if it was changed after `since`: recording transactions that mark no users for it may then still be in
/// flight.
async fn slice(app: &App, project: ProjectId, (segment, since): SegmentVersion) -> Result<PollResult, TickError> {
    let mut connection = app.store.connection().await?;
    let mut tx = connection.transaction().await.map_err(StoreError::from)?;
    begin(&tx).await?;
    let EvaluationLock::Acquired(starts) = follow::try_lock(&tx, project).await? else { return Ok(PollResult::Busy) };
    let now = app.now();
    // Read again under the lock.
    let current = follow::get(&tx, project, segment).await?;
    let current = current.filter(|follow| follow.wanted && !follow.filled && follow.since == since);
    let Some(Follow { filled_to: after, .. }) = current else { return Ok(PollResult::Busy) };
    // Read after the segment: if the rules have changed since then, `since` no longer matches and the transaction is
    // rolled back.
    let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
    let users = read::ids_after(&tx, project, after, SLICE as i64).await?;
    let to = (users.len() == SLICE).then(|| users.last().copied()).flatten();
    let stored = membership::users_between(&tx, project, segment, (after, to)).await?;
    let users: BTreeSet<Uuid> = users.into_iter().collect();
    let gone: Vec<Pair> = stored.into_iter().filter(|id| !users.contains(id)).map(|id| (segment, id)).collect();
    membership::remove(&tx, project, &gone).await?;
    let candidates = BTreeMap::from([(segment, users)]);
    let verdicts = batch::evaluate(&mut tx, project, &candidates, &definitions, (now, LIMITS)).await?;
    let settling = Settling { now, partitions: app.ingest_stream.partitions, starts: Some(starts) };
    let is_current = if verdicts.timed_out.is_empty() {
        settle_slice(&tx, project, since, verdicts, settling).await?;
        match to {
            Some(to) => follow::filled_to(&tx, project, (segment, since), to, now).await?,
            None => {
                let next = sweeps(&definitions).then(|| now + MIN_SWEEP_PAUSE);
                follow::filled(&tx, project, (segment, since), next).await?
            }
        }
    } else {
        suspend(&tx, project, (segment, since), now).await?
    };
    if !is_current {
        tx.rollback().await.map_err(StoreError::from)?;
        return Ok(PollResult::Busy);
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(PollResult::HasMore)
}

/// Stores the initial members without emitting events. Users created since following began count as having entered.
async fn settle_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    since: Timestamp,
    verdicts: Evaluations,
    settling: Settling,
) -> Result<(), StoreError> {
    let Evaluations { by_pair, users: people, .. } = verdicts;
    let is_new = |user_id: &Uuid| people.get(user_id).is_some_and(|user| user.created_at >= since);
    let (new, known): (BTreeMap<Pair, Evaluation>, BTreeMap<Pair, Evaluation>) =
        by_pair.into_iter().partition(|((_, user_id), _)| is_new(user_id));
    let known = Evaluations { by_pair: known, ..Evaluations::default() };
    settle(tx, project, &known, Settling { starts: None, ..settling }).await?;
    if new.is_empty() {
        return Ok(());
    }
    let new = Evaluations { by_pair: new, users: people, ..Evaluations::default() };
    settle(tx, project, &new, settling).await
}

/// Returns whether the rules depend on changes that are not marked.
fn sweeps(definitions: &Definitions) -> bool {
    definitions.values().any(|of| matches!(of, Membership::Rules(rules) if needs_sweeps(rules)))
}

/// Marks users whose stored membership differs from the rules, so that they are evaluated.
async fn sweep(app: &App, project: ProjectId, follow: &Follow) -> Result<PollResult, TickError> {
    let (now, began, segment) = (app.now(), Instant::now(), follow.segment);
    let mut connection = app.store.connection().await?;
    let found = {
        let tx = connection.transaction().await.map_err(StoreError::from)?;
        rules::configure_search(&tx, SWEEP_TIMEOUT).await?;
        let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
        let users = sql::members(project, segment, &definitions, now);
        rules::differing(&tx, segment, &users, MAX_DIFFERING).await
    };
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    if follow::get_for_update(&tx, project, segment).await?.as_ref() != Some(follow) {
        // The segment was changed in the meantime and will be filled again, which emits no events for existing users.
        return Ok(PollResult::Busy);
    }
    match found {
        Ok(users) => {
            dirty::mark(&tx, project, &ChangeKind::Segment(segment), &users, now).await?;
            let took = SignedDuration::try_from(began.elapsed()).unwrap_or(MIN_SWEEP_PAUSE);
            let next = now + MIN_SWEEP_PAUSE.max(took * SWEEP_PAUSE_FACTOR);
            follow::filled(&tx, project, (segment, follow.since), Some(next)).await?;
        }
        Err(error) if error.is_statement_timeout() => {
            suspend(&tx, project, (segment, follow.since), now).await?;
        }
        Err(error) => return Err(error.into()),
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(PollResult::Busy)
}

async fn clear(app: &App, project: ProjectId, segment: Uuid) -> Result<PollResult, TickError> {
    let mut connection = app.store.connection().await?;
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    if !matches!(follow::try_lock(&tx, project).await?, EvaluationLock::Acquired(_)) {
        return Ok(PollResult::Busy);
    }
    let still = follow::get(&tx, project, segment).await?.is_some_and(|follow| !follow.wanted);
    if still && membership::clear(&tx, project, segment, SLICE as i64).await? == 0 {
        follow::forget(&tx, project, segment).await?;
    } else if still {
        // Moves it to the end of the queue.
        let now = app.now();
        follow::postpone(&tx, project, segment, (now, now)).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(PollResult::HasMore)
}
