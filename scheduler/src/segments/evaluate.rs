//! Evaluates a project's marked users, and those whose membership is due for evaluation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::rules::look::Look;
use database::{StoreError, Transaction};
use jiff::{SignedDuration, Timestamp};
use kernel::ids::ProjectId;
use store_profiles::segments::evaluate::{self as rules, Definitions};
use store_profiles::segments::follow::{self, Follow, Since, Turn};
use store_profiles::segments::person::crowd::{self, Pair};
use store_profiles::segments::{dirty, membership};
use store_profiles::users::read;
use uuid::Uuid;

use super::settle::{Settling, settle};
use super::{LIMITS, STATEMENT, TOO_SLOW};
use crate::App;
use crate::tick::{Found, TickError};

/// Maximum number of marked users, and of due memberships, in one transaction.
const PEOPLE: usize = 2_000;
/// Delay before a segment that was too slow is retried.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Evaluates some of a project's users.
pub async fn portion(app: &App, project: ProjectId) -> Result<Found, TickError> {
    let mut connection = app.store.connection().await?;
    let mut tx = connection.transaction().await.map_err(StoreError::from)?;
    begin(&tx).await?;
    let starts = match follow::take_turn(&tx, project).await? {
        Turn::Ours(starts) => starts,
        Turn::Others => return Ok(Found::Some),
        Turn::Nobodys => {
            dirty::clear(&tx, project).await?;
            tx.commit().await.map_err(StoreError::from)?;
            return Ok(Found::Nothing);
        }
    };
    let now = app.now();
    let marks = dirty::take(&tx, project, PEOPLE as i64).await?;
    let due = membership::due(&tx, project, now, PEOPLE as i64).await?;
    if marks.is_empty() && due.is_empty() {
        return Ok(Found::Nothing);
    }
    let marked: usize = marks.iter().map(|(_, people)| people.len()).sum();
    let found = if marked.max(due.len()) < PEOPLE { Found::Some } else { Found::More };

    let follows = follow::wanted(&tx, project).await?;
    let definitions = rules::definitions(&tx, project, &follows.keys().copied().collect()).await?;
    let suspects = concerned(marks, &due, &follows, &definitions);
    let asked = last_ids(&tx, project, suspects).await?;
    let asked = known_before(&tx, project, asked, &follows).await?;
    let verdicts = crowd::evaluate(&mut tx, project, &asked, &definitions, (now, LIMITS)).await?;
    // Locked only now, because changes of rules wait for this lock, and other transactions wait for those.
    let still = follow::wanted_for_share(&tx, project).await?;
    if asked.keys().any(|segment| still.get(segment) != follows.get(segment)) {
        // The rules have changed in the meantime: these results are outdated.
        tx.rollback().await.map_err(StoreError::from)?;
        return Ok(Found::Some);
    }
    let slow = verdicts.too_slow.iter().filter_map(|id| follows.get(id)).map(|follow| (follow.segment, follow.since));
    for slow in slow {
        give_up(&tx, project, slow, now).await?;
    }
    // The remaining due pairs belong to segments that are being filled or removed.
    let left: Vec<Pair> = due.into_iter().filter(|pair| !verdicts.by_pair.contains_key(pair)).collect();
    membership::forget_due(&tx, project, &left).await?;
    let settling = Settling { now, partitions: app.ingest_stream.partitions, starts: Some(starts) };
    settle(&tx, project, &verdicts, settling).await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(found)
}

/// Configures a transaction for evaluation.
pub(super) async fn begin(tx: &Transaction<'_>) -> Result<(), StoreError> {
    rules::limit(tx, STATEMENT).await?;
    crowd::for_lookups(tx).await
}

/// Suspends a segment that was too slow. Returns `false` if it was changed in the meantime.
pub(super) async fn give_up(
    tx: &Transaction<'_>,
    project: ProjectId,
    of: Since,
    now: Timestamp,
) -> Result<bool, StoreError> {
    tracing::warn!(%project, segment = %of.0, "segment took too long to evaluate; suspended for 10 minutes");
    follow::failed(tx, project, of, TOO_SLOW, (now, now + AGAIN)).await
}

/// Users whose membership may have changed, by segment.
type Asked = BTreeMap<Uuid, BTreeSet<Uuid>>;

fn concerned(
    marks: Vec<(String, Vec<Uuid>)>,
    due: &[Pair],
    follows: &BTreeMap<Uuid, Follow>,
    definitions: &Definitions,
) -> Asked {
    let looks: Vec<(Uuid, BTreeSet<Look>)> =
        follows.keys().map(|segment| (*segment, follow::looks_of(*segment, definitions))).collect();
    let mut asked = Asked::new();
    for (segment, person) in due {
        if follows.contains_key(segment) {
            asked.entry(*segment).or_default().insert(*person);
        }
    }
    for (look, people) in marks {
        let look = Look::parse(&look).unwrap_or(Look::Person);
        for (segment, looks) in &looks {
            if looks.contains(&look) || look == Look::Segment(*segment) {
                asked.entry(*segment).or_default().extend(&people);
            }
        }
    }
    asked
}

/// Replaces merged users with the users they became, and moves their memberships. Deletes the memberships of users who
/// no longer exist.
async fn last_ids(tx: &Transaction<'_>, project: ProjectId, asked: Asked) -> Result<Asked, StoreError> {
    let all: BTreeSet<Uuid> = asked.values().flatten().copied().collect();
    let all: Vec<Uuid> = all.into_iter().collect();
    let last: HashMap<Uuid, Uuid> = read::resolve_all(tx, project, &all).await?;
    let gone: Vec<Uuid> = all.iter().filter(|id| !last.contains_key(id)).copied().collect();
    membership::forget_people(tx, project, &gone).await?;
    let merges = all.iter().filter_map(|id| Some((*id, *last.get(id)?))).filter(|(from, into)| from != into);
    membership::merge(tx, project, &merges.collect::<Vec<_>>()).await?;
    let followed = |people: BTreeSet<Uuid>| people.iter().filter_map(|id| last.get(id)).copied().collect();
    Ok(asked.into_iter().map(|(segment, people)| (segment, followed(people))).collect())
}

/// Drops users whose previous membership is unknown; filling evaluates them later.
///
/// Users created since following began were not members before, so they are kept. All users of a segment with an error
/// are dropped.
async fn known_before(
    tx: &Transaction<'_>,
    project: ProjectId,
    mut asked: Asked,
    follows: &BTreeMap<Uuid, Follow>,
) -> Result<Asked, StoreError> {
    let mut unknown: BTreeSet<Uuid> = BTreeSet::new();
    for (segment, people) in &asked {
        let Some(follow) = follows.get(segment).filter(|follow| !follow.filled && follow.error.is_none()) else {
            continue;
        };
        unknown.extend(people.iter().filter(|person| !follow.reaches(**person)));
    }
    let unknown: Vec<Uuid> = unknown.into_iter().collect();
    let made: HashMap<Uuid, Timestamp> = if unknown.is_empty() {
        HashMap::new()
    } else {
        read::get_all(tx, project, &unknown).await?.into_iter().map(|user| (user.id, user.created_at)).collect()
    };
    for (segment, people) in &mut asked {
        let Some(follow) = follows.get(segment) else { continue };
        let is_new = |person: &Uuid| made.get(person).is_some_and(|made| *made >= follow.since);
        people.retain(|person| follow.error.is_none() && (follow.reaches(*person) || is_new(person)));
    }
    asked.retain(|_, people| !people.is_empty());
    Ok(asked)
}
