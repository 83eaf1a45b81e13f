//! The segments whose members are stored as rows: those that start active automations. The members of all other
//! segments are computed from the rules on request, and cost nothing otherwise.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::evaluate::{self, Definitions, closure};
use database::StoreError;
use database::changes::{self, Topic};
use kernel::ids::ProjectId;
use rules::change::{self, ChangeKind};
use rules::sql::Membership;

/// State of a followed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    pub segment: Uuid,
    /// False if its rows are being removed.
    pub wanted: bool,
    /// When following began, or the rules were last changed.
    pub since: Timestamp,
    /// Whether all users have been evaluated.
    pub filled: bool,
    /// The last user ID evaluated; users are evaluated in the order of their IDs.
    pub filled_to: Option<Uuid>,
    /// Why its members are currently not stored.
    pub error: Option<String>,
}

impl Follow {
    /// Reports whether the user's previous membership is known.
    pub fn reaches(&self, user: Uuid) -> bool {
        self.filled || self.filled_to.is_some_and(|to| user <= to)
    }

    /// Returns the evaluated share of users, from 0 to 1. User IDs are uniformly distributed.
    pub fn progress(&self) -> f64 {
        let filled_to = self.filled_to.map_or(0, |to| (to.as_u128() >> 96) as u32);
        if self.filled { 1.0 } else { f64::from(filled_to) / f64::from(u32::MAX) }
    }
}

fn from_row(row: &Row) -> Result<Follow, StoreError> {
    Ok(Follow {
        segment: row.try_get("segment_id")?,
        wanted: row.try_get("wanted")?,
        since: row.try_get("since")?,
        filled: row.try_get("filled")?,
        filled_to: row.try_get("filled_to")?,
        error: row.try_get("error")?,
    })
}

/// Returns the project's followed segments, by ID.
pub async fn wanted(db: &impl GenericClient, project: ProjectId) -> Result<BTreeMap<Uuid, Follow>, StoreError> {
    let sql = "SELECT segment_id, wanted, since, filled, filled_to, error FROM segment_follow WHERE project_id = $1 \
               AND wanted";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project]).await?;
    rows.iter().map(|row| from_row(row).map(|follow| (follow.segment, follow))).collect()
}

/// As [`wanted`], and locks the rows against changes until the end of the transaction.
pub async fn wanted_for_share(tx: &Transaction<'_>, project: ProjectId) -> Result<BTreeMap<Uuid, Follow>, StoreError> {
    let sql = "SELECT segment_id, wanted, since, filled, filled_to, error FROM segment_follow WHERE project_id = $1 \
         AND wanted ORDER BY segment_id FOR SHARE";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project]).await?;
    rows.iter().map(|row| from_row(row).map(|follow| (follow.segment, follow))).collect()
}

/// As [`get`], and locks the row until the end of the transaction.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
) -> Result<Option<Follow>, StoreError> {
    let sql = "SELECT segment_id, wanted, since, filled, filled_to, error FROM segment_follow WHERE project_id = $1 \
               AND segment_id = $2 FOR UPDATE";
    tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &segment]).await?.as_ref().map(from_row).transpose()
}

/// Locks all rows of a project, in the same order as [`wanted_for_share`].
async fn lock_all(tx: &Transaction<'_>, project: ProjectId) -> Result<(), StoreError> {
    tx.execute("SELECT FROM segment_follow WHERE project_id = $1 ORDER BY segment_id FOR UPDATE", &[&project]).await?;
    Ok(())
}

/// Returns the state of a segment, even if its rows are being removed.
pub async fn get(db: &impl GenericClient, project: ProjectId, segment: Uuid) -> Result<Option<Follow>, StoreError> {
    let sql = "SELECT segment_id, wanted, since, filled, filled_to, error FROM segment_follow WHERE project_id = $1 \
               AND segment_id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &segment]).await?.as_ref().map(from_row).transpose()
}

/// Follows exactly the segments that start active automations.
///
/// Call it after automations change, in a transaction that has advanced `Topic::Segment` before `Topic::Automation`.
pub async fn refresh(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT DISTINCT s.id FROM automation a JOIN segment s ON s.project_id = $1 \
               AND s.id = (a.definition ->> 'triggerSegmentId')::uuid WHERE a.project_id = $1 AND a.active \
               AND a.deleted_at IS NULL AND a.trigger_type IN ('SEGMENT_ENTER', 'SEGMENT_EXIT')";
    let rows = tx.query(sql, &[&project]).await?;
    let segments: Vec<Uuid> = rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?;
    lock_all(tx, project).await?;
    let sql = "UPDATE segment_follow SET wanted = false, look_at = $3 \
               WHERE project_id = $1 AND wanted AND segment_id <> ALL($2)";
    tx.execute(sql, &[&project, &segments, &now]).await?;
    let sql = "INSERT INTO segment_follow (project_id, segment_id, since, look_at) \
               SELECT $1::uuid, s, $3::timestamptz, $3 FROM unnest($2::uuid[]) AS s \
               ON CONFLICT (project_id, segment_id) DO UPDATE SET wanted = true, since = excluded.since, filled = false, \
               filled_to = NULL, look_at = excluded.look_at, error = NULL, error_at = NULL WHERE NOT segment_follow.wanted";
    tx.execute(sql, &[&project, &segments, &now]).await?;
    watch(tx, project, &segments.into_iter().collect()).await
}

/// Restarts the evaluation of all followed segments that are, or depend on, a segment whose rules changed.
///
/// The transaction must have advanced `Topic::Segment` before.
pub async fn rules_changed(
    tx: &Transaction<'_>,
    project: ProjectId,
    segment: Uuid,
    now: Timestamp,
) -> Result<(), StoreError> {
    lock_all(tx, project).await?;
    let segments: BTreeSet<Uuid> = wanted(tx, project).await?.into_keys().collect();
    if segments.is_empty() {
        return Ok(());
    }
    let definitions = evaluate::definitions(tx, project, &segments).await?;
    let concerned: Vec<Uuid> =
        segments.iter().copied().filter(|of| closure(*of, &definitions).contains(&segment)).collect();
    let sql = "UPDATE segment_follow SET since = $3, filled = false, filled_to = NULL, look_at = $3, error = NULL, \
               error_at = NULL WHERE project_id = $1 AND segment_id = ANY($2)";
    tx.execute(sql, &[&project, &concerned, &now]).await?;
    watch(tx, project, &segments).await
}

/// Returns the kinds of change that a segment depends on, directly or through other segments.
pub fn change_kinds_of(segment: Uuid, definitions: &Definitions) -> BTreeSet<ChangeKind> {
    let mut kinds = BTreeSet::from([ChangeKind::User]);
    for id in closure(segment, definitions) {
        match definitions.get(&id) {
            Some(Membership::Rules(rules)) => kinds.extend(change::change_kinds(rules)),
            _ => _ = kinds.insert(ChangeKind::Segment(id)),
        }
    }
    kinds
}

/// Stores the kinds of change that the recording transaction must mark.
async fn watch(tx: &Transaction<'_>, project: ProjectId, segments: &BTreeSet<Uuid>) -> Result<(), StoreError> {
    let definitions = evaluate::definitions(tx, project, segments).await?;
    let kinds: BTreeSet<ChangeKind> =
        segments.iter().flat_map(|segment| change_kinds_of(*segment, &definitions)).collect();
    if !segments.is_empty() {
        let sql = "INSERT INTO segment_turn (project_id) VALUES ($1) ON CONFLICT DO NOTHING";
        tx.execute(sql, &[&project]).await?;
    }
    let kinds: Vec<String> = kinds.iter().map(ChangeKind::text).collect();
    let before = "SELECT looks_at FROM segment_watch WHERE project_id = $1";
    let before: Option<Vec<String>> =
        tx.query_opt(before, &[&project]).await?.map(|row| row.try_get("looks_at")).transpose()?;
    if before.unwrap_or_default() == kinds {
        return Ok(());
    }
    let seq = changes::next(tx, Topic::Segment).await?;
    let sql = "INSERT INTO segment_watch (project_id, looks_at, changed_seq) VALUES ($1, $2, $3) \
               ON CONFLICT (project_id) DO UPDATE SET looks_at = excluded.looks_at, changed_seq = excluded.changed_seq";
    tx.execute(sql, &[&project, &kinds, &seq]).await?;
    Ok(())
}

/// Returns the kinds of change that each project depends on, where they changed after a sequence of `Topic::Segment`;
/// with -1, those of all projects.
pub async fn watched_after(
    db: &impl GenericClient,
    seq: i64,
) -> Result<Vec<(ProjectId, BTreeSet<ChangeKind>)>, StoreError> {
    let sql = "SELECT project_id, looks_at FROM segment_watch WHERE changed_seq > $1";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&seq]).await?;
    let watched = |row: &Row| {
        let kinds: Vec<String> = row.try_get("looks_at")?;
        Ok((row.try_get("project_id")?, kinds.iter().filter_map(|look| ChangeKind::parse(look)).collect()))
    };
    rows.iter().map(watched).collect()
}

/// Returns up to `max` segments that are due to be evaluated as a whole or removed, longest due first.
pub async fn due(db: &impl GenericClient, now: Timestamp, max: i64) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT project_id, segment_id FROM segment_follow WHERE look_at <= $1 ORDER BY look_at LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&now, &max]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("segment_id")?))).collect()
}

/// A segment and its [`Follow::since`], which identifies the version of its rules.
pub type SegmentVersion = (Uuid, Timestamp);

/// Records the last user ID evaluated, and makes the segment due at `now`, after all segments that are due already.
///
/// Returns false if the segment was changed or is no longer followed; the caller must then discard its results.
pub async fn filled_to(
    tx: &Transaction<'_>,
    project: ProjectId,
    (segment, since): SegmentVersion,
    to: Uuid,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE segment_follow SET filled_to = $4, look_at = $5, error = NULL, error_at = NULL \
               WHERE project_id = $1 AND segment_id = $2 AND wanted AND since = $3";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segment, &since, &to, &now]).await? > 0)
}

/// Records that all users of a segment are evaluated, and when it is due again. Returns false as [`filled_to`] does.
pub async fn filled(
    tx: &Transaction<'_>,
    project: ProjectId,
    (segment, since): SegmentVersion,
    look_at: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let sql = "UPDATE segment_follow SET filled = true, look_at = $4, error = NULL, error_at = NULL \
               WHERE project_id = $1 AND segment_id = $2 AND wanted AND since = $3";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segment, &since, &look_at]).await? > 0)
}

/// Records why a segment's members are not stored; all users are evaluated again later. Returns false as [`filled_to`]
/// does.
pub async fn failed(
    tx: &Transaction<'_>,
    project: ProjectId,
    (segment, since): SegmentVersion,
    error: &str,
    (now, again): (Timestamp, Timestamp),
) -> Result<bool, StoreError> {
    let sql = "UPDATE segment_follow SET filled = false, filled_to = NULL, error = $4, error_at = $5, look_at = $6 \
               WHERE project_id = $1 AND segment_id = $2 AND wanted AND since = $3";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&project, &segment, &since, &error, &now, &again]).await? > 0)
}

/// Postpones a segment that is due.
pub async fn postpone(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
    (now, until): (Timestamp, Timestamp),
) -> Result<(), StoreError> {
    let sql = "UPDATE segment_follow SET look_at = $4 WHERE project_id = $1 AND segment_id = $2 AND look_at <= $3";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &segment, &now, &until]).await?;
    Ok(())
}

/// Deletes the state of a segment that is no longer followed.
pub async fn forget(tx: &Transaction<'_>, project: ProjectId, segment: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM segment_follow WHERE project_id = $1 AND segment_id = $2 AND NOT wanted";
    tx.execute(sql, &[&project, &segment]).await?;
    Ok(())
}

/// The result of trying to lock the evaluation of a project's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationLock {
    /// The project has never followed a segment.
    NeverFollowed,
    /// Another transaction holds the lock.
    Held,
    /// This transaction holds the lock until its end. Contains the number of starts so far.
    Acquired(i64),
}

/// Tries to lock the evaluation of a project's segments, without waiting.
pub async fn try_lock(tx: &Transaction<'_>, project: ProjectId) -> Result<EvaluationLock, StoreError> {
    let sql = "SELECT starts FROM segment_turn WHERE project_id = $1 FOR UPDATE SKIP LOCKED";
    if let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project]).await? {
        return Ok(EvaluationLock::Acquired(row.try_get("starts")?));
    }
    let sql = "SELECT EXISTS (SELECT FROM segment_turn WHERE project_id = $1) AS is_there";
    let exists: bool = tx.query_one(&tx.prepare_cached(sql).await?, &[&project]).await?.try_get("is_there")?;
    Ok(if exists { EvaluationLock::Held } else { EvaluationLock::NeverFollowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_follows_the_ids() {
        let mut follow = Follow {
            segment: Uuid::nil(),
            wanted: true,
            since: Timestamp::UNIX_EPOCH,
            filled: false,
            filled_to: None,
            error: None,
        };
        assert_eq!((follow.progress(), follow.reaches(Uuid::from_u128(1))), (0.0, false));
        let half = Uuid::from_u128(1 << 127);
        follow.filled_to = Some(half);
        assert!((follow.progress() - 0.5).abs() < 1e-6);
        assert!(follow.reaches(half) && !follow.reaches(Uuid::max()));
        follow.filled = true;
        assert!(follow.progress() >= 1.0 && follow.reaches(Uuid::max()));
    }
}
