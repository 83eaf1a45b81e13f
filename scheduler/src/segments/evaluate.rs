//! Evaluates a project's marked users, and those whose membership is due for evaluation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::rules::change::ChangeKind;
use database::{StoreError, Transaction};
use jiff::{SignedDuration, Timestamp};
use kernel::ids::ProjectId;
use store_profiles::segments::evaluate::{self as rules, Definitions};
use store_profiles::segments::follow::{self, EvaluationLock, Follow, SegmentVersion};
use store_profiles::segments::user_facts::batch::{self, Pair};
use store_profiles::segments::{dirty, membership};
use store_profiles::users::read;
use uuid::Uuid;

use super::settle::{Settling, settle};
use super::{LIMITS, STATEMENT_TIMEOUT, TOO_SLOW};
use crate::App;
use crate::tick::{PollResult, TickError};

/// Maximum number of marked users, and of due memberships, in one transaction.
const MAX_USERS: usize = 2_000;
/// Delay before a segment that was too slow is retried.
const SLOW_RETRY_DELAY: SignedDuration = SignedDuration::from_mins(10);

/// Evaluates some of a project's users.
pub async fn evaluate_batch(app: &App, project: ProjectId) -> Result<PollResult, TickError> {
    let mut connection = app.store.connection().await?;
    let mut tx = connection.transaction().await.map_err(StoreError::from)?;
    begin(&tx).await?;
    let starts = match follow::try_lock(&tx, project).await? {
        EvaluationLock::Acquired(starts) => starts,
        EvaluationLock::Held => return Ok(PollResult::Busy),
        EvaluationLock::NeverFollowed => {
            dirty::clear(&tx, project).await?;
            tx.commit().await.map_err(StoreError::from)?;
            return Ok(PollResult::Idle);
        }
    };
    let now = app.now();
    let marks = dirty::take(&tx, project, MAX_USERS as i64).await?;
    let due = membership::due(&tx, project, now, MAX_USERS as i64).await?;
    if marks.is_empty() && due.is_empty() {
        return Ok(PollResult::Idle);
    }
    let marked: usize = marks.iter().map(|(_, users)| users.len()).sum();
    let found = if marked.max(due.len()) < MAX_USERS { PollResult::Busy } else { PollResult::HasMore };

    let follows = follow::wanted(&tx, project).await?;
    let definitions = rules::definitions(&tx, project, &follows.keys().copied().collect()).await?;
    let suspects = affected(marks, &due, &follows, &definitions);
    let candidates = follow_merges(&tx, project, suspects).await?;
    let candidates = with_known_membership(&tx, project, candidates, &follows).await?;
    let verdicts = batch::evaluate(&mut tx, project, &candidates, &definitions, (now, LIMITS)).await?;
    // Locked only now, because changes of rules wait for this lock, and other transactions wait for those.
    let still = follow::wanted_for_share(&tx, project).await?;
    if candidates.keys().any(|segment| still.get(segment) != follows.get(segment)) {
        // The rules have changed in the meantime: these results are outdated.
        tx.rollback().await.map_err(StoreError::from)?;
        return Ok(PollResult::Busy);
    }
    let slow = verdicts.timed_out.iter().filter_map(|id| follows.get(id)).map(|follow| (follow.segment, follow.since));
    for slow in slow {
        suspend(&tx, project, slow, now).await?;
    }
    // The remaining due pairs belong to segments that are being filled or removed.
    let left: Vec<Pair> = due.into_iter().filter(|pair| !verdicts.by_pair.contains_key(pair)).collect();
    membership::clear_due(&tx, project, &left).await?;
    let settling = Settling { now, partitions: app.ingest_stream.partitions, starts: Some(starts) };
    settle(&tx, project, &verdicts, settling).await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(found)
}

/// Configures a transaction for evaluation.
pub(super) async fn begin(tx: &Transaction<'_>) -> Result<(), StoreError> {
    rules::set_timeout(tx, STATEMENT_TIMEOUT).await?;
    batch::for_lookups(tx).await
}

/// Suspends a segment that was too slow. Returns `false` if it was changed in the meantime.
pub(super) async fn suspend(
    tx: &Transaction<'_>,
    project: ProjectId,
    of: SegmentVersion,
    now: Timestamp,
) -> Result<bool, StoreError> {
    tracing::warn!(%project, segment = %of.0, "segment took too long to evaluate; suspended for 10 minutes");
    follow::failed(tx, project, of, TOO_SLOW, (now, now + SLOW_RETRY_DELAY)).await
}

/// Users whose membership may have changed, by segment.
type Candidates = BTreeMap<Uuid, BTreeSet<Uuid>>;

fn affected(
    marks: Vec<(String, Vec<Uuid>)>,
    due: &[Pair],
    follows: &BTreeMap<Uuid, Follow>,
    definitions: &Definitions,
) -> Candidates {
    let change_kinds: Vec<(Uuid, BTreeSet<ChangeKind>)> =
        follows.keys().map(|segment| (*segment, follow::change_kinds_of(*segment, definitions))).collect();
    let mut candidates = Candidates::new();
    for (segment, user) in due {
        if follows.contains_key(segment) {
            candidates.entry(*segment).or_default().insert(*user);
        }
    }
    for (change_kind, users) in marks {
        let change_kind = ChangeKind::parse(&change_kind).unwrap_or(ChangeKind::User);
        for (segment, change_kinds) in &change_kinds {
            if change_kinds.contains(&change_kind) || change_kind == ChangeKind::Segment(*segment) {
                candidates.entry(*segment).or_default().extend(&users);
            }
        }
    }
    candidates
}

/// Replaces merged users with the users they became, and moves their memberships. Deletes the memberships of users who
/// no longer exist.
async fn follow_merges(
    tx: &Transaction<'_>,
    project: ProjectId,
    candidates: Candidates,
) -> Result<Candidates, StoreError> {
    let all: BTreeSet<Uuid> = candidates.values().flatten().copied().collect();
    let all: Vec<Uuid> = all.into_iter().collect();
    let last: HashMap<Uuid, Uuid> = read::resolve_all(tx, project, &all).await?;
    let gone: Vec<Uuid> = all.iter().filter(|id| !last.contains_key(id)).copied().collect();
    membership::remove_users(tx, project, &gone).await?;
    let merges = all.iter().filter_map(|id| Some((*id, *last.get(id)?))).filter(|(from, into)| from != into);
    membership::merge(tx, project, &merges.collect::<Vec<_>>()).await?;
    let followed = |users: BTreeSet<Uuid>| users.iter().filter_map(|id| last.get(id)).copied().collect();
    Ok(candidates.into_iter().map(|(segment, users)| (segment, followed(users))).collect())
}

/// Drops users whose previous membership is unknown; filling evaluates them later.
///
/// Users created since following began were not members before, so they are kept. All users of a segment with an error
/// are dropped.
async fn with_known_membership(
    tx: &Transaction<'_>,
    project: ProjectId,
    mut candidates: Candidates,
    follows: &BTreeMap<Uuid, Follow>,
) -> Result<Candidates, StoreError> {
    let mut unknown: BTreeSet<Uuid> = BTreeSet::new();
    for (segment, users) in &candidates {
        let Some(follow) = follows.get(segment).filter(|follow| !follow.filled && follow.error.is_none()) else {
            continue;
        };
        unknown.extend(users.iter().filter(|user| !follow.reaches(**user)));
    }
    let unknown: Vec<Uuid> = unknown.into_iter().collect();
    let made: HashMap<Uuid, Timestamp> = if unknown.is_empty() {
        HashMap::new()
    } else {
        read::get_all(tx, project, &unknown).await?.into_iter().map(|user| (user.id, user.created_at)).collect()
    };
    for (segment, users) in &mut candidates {
        let Some(follow) = follows.get(segment) else { continue };
        let is_new = |user: &Uuid| made.get(user).is_some_and(|made| *made >= follow.since);
        users.retain(|user| follow.error.is_none() && (follow.reaches(*user) || is_new(user)));
    }
    candidates.retain(|_, users| !users.is_empty());
    Ok(candidates)
}
