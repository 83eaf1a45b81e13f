//! Looking at followed segments as a whole: filling those that are new or were changed, slice by slice and unheard; finding
//! what changes without being marked; and clearing away what is followed no more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use shared::ids::ProjectId;
use shared::rule::look::{Look, needs_sweeps};
use shared::rule::sql::{self, Membership};
use shared::store::segments::dirty;
use shared::store::segments::evaluate::{self as rules, Definitions};
use shared::store::segments::follow::{self, Follow};
use shared::store::segments::membership;
use shared::store::segments::person::crowd::{self, Pair, Verdicts};
use shared::store::users::{read, record};
use shared::store::{StoreError, Transaction};
use uuid::Uuid;

use super::evaluate::{begin, give_up};
use super::settle::settle;
use crate::App;
use crate::tick::{Found, TickError};

/// People filled in one transaction, and rows cleared away.
const SLICE: usize = 2_000;
/// How long finding out who differs may take,
const SWEEP: Duration = Duration::from_secs(10);
/// how long it rests at least, and how many times as long as it took,
const REST: SignedDuration = SignedDuration::from_secs(20);
const RESTS: i32 = 20;
/// and how many people it finds at once.
const DIFFERING: i64 = 20_000;

/// Looks at one that is due.
pub async fn look(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let Some(found) = follow::get(&app.store.connection().await?, project, segment).await? else {
        return Ok(Found::Nothing);
    };
    match found {
        Follow { wanted: false, .. } => clear(app, project, segment).await,
        Follow { filled: true, .. } => sweep(app, project, segment).await,
        Follow { filled_to, .. } => {
            if filled_to.is_none() {
                outlast_recording(app).await?;
            }
            slice(app, project, segment).await
        }
    }
}

/// A recording transaction that began before the segment came to be followed marks nobody for it.
async fn outlast_recording(app: &App) -> Result<(), StoreError> {
    let mut connection = app.store.connection().await?;
    let tx = connection.transaction().await?;
    record::outlast_recording(&tx).await?;
    Ok(tx.commit().await?)
}

async fn slice(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let mut connection = app.store.connection().await?;
    let mut tx = connection.transaction().await.map_err(StoreError::from)?;
    begin(&tx).await?;
    if follow::lock_turn(&tx, project, false).await?.is_none() {
        return Ok(Found::Some);
    }
    let now = app.clock.now();
    // As it stands now that it is our turn.
    let current = follow::get(&tx, project, segment).await?.filter(|follow| follow.wanted && !follow.filled);
    let Some(Follow { filled_to: after, .. }) = current else { return Ok(Found::Some) };
    let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
    let people = read::ids_after(&tx, project, after, SLICE as i64).await?;
    let to = (people.len() == SLICE).then(|| people.last().copied()).flatten();
    let noted = membership::people_between(&tx, project, segment, (after, to)).await?;
    let people: BTreeSet<Uuid> = people.into_iter().collect();
    let gone: Vec<Pair> = noted.into_iter().filter(|id| !people.contains(id)).map(|id| (segment, id)).collect();
    membership::remove(&tx, project, &gone).await?;
    let verdicts = crowd::evaluate(&mut tx, project, &BTreeMap::from([(segment, people)]), &definitions, now).await?;
    if verdicts.too_slow.is_empty() {
        finish_slice(&tx, project, segment, (&verdicts, &definitions), (now, to)).await?;
    } else {
        give_up(&tx, project, &verdicts, now).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::More)
}

async fn finish_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
    (verdicts, definitions): (&Verdicts, &Definitions),
    (now, to): (Timestamp, Option<Uuid>),
) -> Result<(), StoreError> {
    settle(tx, project, verdicts, (now, 1), None).await?;
    let sweeps = definitions.values().any(|of| matches!(of, Membership::Rules(rules) if needs_sweeps(rules)));
    match to {
        Some(to) => follow::filled_to(tx, project, segment, to).await,
        None => follow::filled(tx, project, segment, sweeps.then(|| now + REST)).await,
    }
}

/// Marks those who are in a segment and not noted so, or the other way round, to be evaluated like any other.
async fn sweep(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let (now, began) = (app.clock.now(), Instant::now());
    let mut connection = app.store.connection().await?;
    let found = {
        let tx = connection.transaction().await.map_err(StoreError::from)?;
        rules::bound(&tx, SWEEP).await?;
        let definitions = rules::definitions(&tx, project, &BTreeSet::from([segment])).await?;
        let people = sql::members(project, segment, &definitions, now);
        rules::differing(&tx, segment, &people, DIFFERING).await
    };
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    match found {
        Ok(people) => {
            dirty::mark(&tx, project, &Look::Segment(segment), &people, now).await?;
            let took = SignedDuration::try_from(began.elapsed()).unwrap_or(REST);
            follow::filled(&tx, project, segment, Some(now + REST.max(took * RESTS))).await?;
        }
        Err(error) if error.is_too_slow() => {
            give_up(&tx, project, &Verdicts { too_slow: BTreeSet::from([segment]), ..Verdicts::default() }, now)
                .await?;
        }
        Err(error) => return Err(error.into()),
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::Some)
}

async fn clear(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    let mut connection = app.store.connection().await?;
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    if follow::lock_turn(&tx, project, false).await?.is_none() {
        return Ok(Found::Some);
    }
    let still = follow::get(&tx, project, segment).await?.is_some_and(|follow| !follow.wanted);
    if still && membership::clear(&tx, project, segment, SLICE as i64).await? == 0 {
        follow::forget(&tx, project, segment).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::More)
}
