//! Processes followed segments as a whole.
//!
//! Fills new and changed segments slice by slice; only users created since then count as having entered. Finds
//! membership changes that are not marked. Removes the rows of segments that are no longer followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ::rules::look::{Look, needs_sweeps};
use ::rules::sql::{self, Membership};
use database::{StoreError, Transaction};
use jiff::{SignedDuration, Timestamp};
use kernel::ids::ProjectId;
use store_profiles::segments::dirty;
use store_profiles::segments::evaluate::{self as rules, Definitions};
use store_profiles::segments::follow::{self, Follow, Since, Turn};
use store_profiles::segments::membership;
use store_profiles::segments::person::crowd::{self, Pair, Verdict, Verdicts};
use store_profiles::users::read;
use store_profiles::users::removals::outlast;
use uuid::Uuid;

use super::LIMITS;
use super::evaluate::{begin, give_up};
use super::settle::{Settling, settle};
use crate::App;
use crate::tick::{Found, TickError};

/// Maximum number of users filled, and of rows removed, in one transaction.
const SLICE: usize = 2_000;
/// Time limit for finding users whose stored membership is wrong.
const SWEEP: Duration = Duration::from_secs(10);
/// Minimum pause between sweeps. [`RESTS`] is the minimum pause as a multiple of the sweep's duration.
const REST: SignedDuration = SignedDuration::from_secs(20);
const RESTS: i32 = 20;
/// Maximum number of users found in one sweep.
const DIFFERING: i64 = 20_000;

/// Processes a segment that is due.
pub async fn look(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let Some(found) = follow::get(&app.store.connection().await?, project, segment).await? else {
        return Ok(Found::Nothing);
    };
    match found {
        Follow { wanted: false, .. } => clear(app, project, segment).await,
        Follow { filled: true, .. } => sweep(app, project, &found).await,
        Follow { filled_to, since, .. } => {
            if filled_to.is_none() {
                // Recording transactions that began before the segment was followed mark no users for it.
                outlast(&app.store.connection().await?).await?;
            }
            slice(app, project, (segment, since)).await
        }
    }
}

/// Fills the next slice of a segment.
///
/// Does nothing if it was changed after `since`: recording transactions that mark no users for it may then still be in
/// flight.
async fn slice(app: &App, project: ProjectId, (segment, since): Since) -> Result<Found, TickError> {
    let mut connection = app.store.connection().await?;
    let mut tx = connection.transaction().await.map_err(StoreError::from)?;
    begin(&tx).await?;
    let Turn::Ours(starts) = follow::take_turn(&tx, project).await? else { return Ok(Found::Some) };
    let now = app.now();
    // Read again under the lock.
    let current = follow::get(&tx, project, segment).await?;
    let current = current.filter(|follow| follow.wanted && !follow.filled && follow.since == since);
    let Some(Follow { filled_to: after, .. }) = current else { return Ok(Found::Some) };
    // Read after the segment: if the rules have changed since then, `since` no longer matches and the transaction is
    // rolled back.
    let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
    let people = read::ids_after(&tx, project, after, SLICE as i64).await?;
    let to = (people.len() == SLICE).then(|| people.last().copied()).flatten();
    let noted = membership::people_between(&tx, project, segment, (after, to)).await?;
    let people: BTreeSet<Uuid> = people.into_iter().collect();
    let gone: Vec<Pair> = noted.into_iter().filter(|id| !people.contains(id)).map(|id| (segment, id)).collect();
    membership::remove(&tx, project, &gone).await?;
    let asked = BTreeMap::from([(segment, people)]);
    let verdicts = crowd::evaluate(&mut tx, project, &asked, &definitions, (now, LIMITS)).await?;
    let settling = Settling { now, partitions: app.ingest_stream.partitions, starts: Some(starts) };
    let stands = if verdicts.too_slow.is_empty() {
        settle_slice(&tx, project, since, verdicts, settling).await?;
        match to {
            Some(to) => follow::filled_to(&tx, project, (segment, since), to, now).await?,
            None => {
                let next = sweeps(&definitions).then(|| now + REST);
                follow::filled(&tx, project, (segment, since), next).await?
            }
        }
    } else {
        give_up(&tx, project, (segment, since), now).await?
    };
    if !stands {
        tx.rollback().await.map_err(StoreError::from)?;
        return Ok(Found::Some);
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::More)
}

/// Stores the initial members without emitting events. Users created since following began count as having entered.
async fn settle_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    since: Timestamp,
    verdicts: Verdicts,
    settling: Settling,
) -> Result<(), StoreError> {
    let Verdicts { by_pair, people, .. } = verdicts;
    let is_new = |person: &Uuid| people.get(person).is_some_and(|user| user.created_at >= since);
    let (new, known): (BTreeMap<Pair, Verdict>, BTreeMap<Pair, Verdict>) =
        by_pair.into_iter().partition(|((_, person), _)| is_new(person));
    let known = Verdicts { by_pair: known, ..Verdicts::default() };
    settle(tx, project, &known, Settling { starts: None, ..settling }).await?;
    if new.is_empty() {
        return Ok(());
    }
    let new = Verdicts { by_pair: new, people, ..Verdicts::default() };
    settle(tx, project, &new, settling).await
}

/// Returns whether the rules depend on changes that are not marked.
fn sweeps(definitions: &Definitions) -> bool {
    definitions.values().any(|of| matches!(of, Membership::Rules(rules) if needs_sweeps(rules)))
}

/// Marks users whose stored membership differs from the rules, so that they are evaluated.
async fn sweep(app: &App, project: ProjectId, follow: &Follow) -> Result<Found, TickError> {
    let (now, began, segment) = (app.now(), Instant::now(), follow.segment);
    let mut connection = app.store.connection().await?;
    let found = {
        let tx = connection.transaction().await.map_err(StoreError::from)?;
        rules::bound(&tx, SWEEP).await?;
        let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
        let people = sql::members(project, segment, &definitions, now);
        rules::differing(&tx, segment, &people, DIFFERING).await
    };
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    if follow::get_for_update(&tx, project, segment).await?.as_ref() != Some(follow) {
        // The segment was changed in the meantime and will be filled again, which emits no events for existing users.
        return Ok(Found::Some);
    }
    match found {
        Ok(people) => {
            dirty::mark(&tx, project, &Look::Segment(segment), &people, now).await?;
            let took = SignedDuration::try_from(began.elapsed()).unwrap_or(REST);
            let next = now + REST.max(took * RESTS);
            follow::filled(&tx, project, (segment, follow.since), Some(next)).await?;
        }
        Err(error) if error.is_too_slow() => {
            give_up(&tx, project, (segment, follow.since), now).await?;
        }
        Err(error) => return Err(error.into()),
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::Some)
}

async fn clear(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let mut connection = app.store.connection().await?;
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    if !matches!(follow::take_turn(&tx, project).await?, Turn::Ours(_)) {
        return Ok(Found::Some);
    }
    let still = follow::get(&tx, project, segment).await?.is_some_and(|follow| !follow.wanted);
    if still && membership::clear(&tx, project, segment, SLICE as i64).await? == 0 {
        follow::forget(&tx, project, segment).await?;
    } else if still {
        // Moves it to the end of the queue.
        let now = app.now();
        follow::put_off(&tx, project, segment, (now, now)).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::More)
}
