//! Marks of users whose segments may have changed, by kind of change.
//!
//! Marks are written in the transaction of the change and removed in the one that evaluates them. A row holds the marks
//! of one transaction and kind of change, and large changes take several rows, so that a mark costs 16 bytes and no
//! index entry.

use std::collections::BTreeSet;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;

use crate::users::record::ProjectUserId;
use database::StoreError;
use kernel::ids::{self, ProjectId};
use rules::change::ChangeKind;

/// Marks users. `marks` holds pairs of a [`ChangeKind`]'s text and a user, without duplicates; `id` is the transaction's.
pub async fn insert(tx: &Transaction<'_>, id: Uuid, marks: &[(&str, ProjectUserId)]) -> Result<(), StoreError> {
    if marks.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = marks.iter().map(|(_, user)| user.0).collect();
    let users: Vec<Uuid> = marks.iter().map(|(_, user)| user.1).collect();
    let kinds: Vec<&str> = marks.iter().map(|(kind, _)| *kind).collect();
    let sql = "INSERT INTO segment_dirty (project_id, id, look, people) \
               SELECT p, $1, l, array_agg(u) FROM unnest($2::uuid[], $3::text[], $4::uuid[]) AS v(p, l, u) GROUP BY p, l";
    tx.execute(&tx.prepare_cached(sql).await?, &[&id, &projects, &kinds, &users]).await?;
    Ok(())
}

/// Maximum number of users that [`mark`] and [`mark_messages`] store in a row, because [`take`] returns whole rows.
const MAX_USERS_PER_ROW: usize = 2_000;

/// Marks users of one project for one kind of change.
pub async fn mark(
    tx: &Transaction<'_>,
    project: ProjectId,
    kind: &ChangeKind,
    users: &[Uuid],
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO segment_dirty (project_id, id, look, people) VALUES ($1, $2, $3, $4)";
    for users in users.chunks(MAX_USERS_PER_ROW) {
        let id = ids::fresh(now.as_millisecond());
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &id, &kind.text(), &users]).await?;
    }
    Ok(())
}

/// Marks users whose message status changed, if a followed segment of the project depends on messages.
///
/// The statement checks this itself: message status changes outside the recording transaction, which knows what
/// segments depend on.
pub async fn mark_messages(
    tx: &impl GenericClient,
    project: ProjectId,
    users: &[Uuid],
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO segment_dirty (project_id, id, look, people) SELECT $1, $2, $3, $4 WHERE EXISTS \
               (SELECT FROM segment_watch WHERE project_id = $1 AND looks_at @> ARRAY[$3::text])";
    let statement = tx.prepare_cached(sql).await?;
    for users in users.chunks(MAX_USERS_PER_ROW) {
        let id = ids::fresh(now.as_millisecond());
        tx.execute(&statement, &[&project, &id, &ChangeKind::Messages.text(), &users]).await?;
    }
    Ok(())
}

/// Removes and returns a project's oldest marks, for about `user_count` users, and at least one row of marks.
pub async fn take(
    tx: &Transaction<'_>,
    project: ProjectId,
    user_count: i64,
) -> Result<Vec<(String, Vec<Uuid>)>, StoreError> {
    let sql = "WITH oldest AS (SELECT id, look, sum(cardinality(people)) OVER (ORDER BY id, look) \
               - cardinality(people) AS before FROM (SELECT * FROM segment_dirty WHERE project_id = $1 \
               ORDER BY id, look LIMIT 1000) AS first) \
               DELETE FROM segment_dirty d USING oldest o WHERE d.project_id = $1 AND d.id = o.id AND d.look = o.look \
               AND o.before < $2 RETURNING d.look, d.people";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &user_count]).await?;
    rows.iter().map(|row| Ok((row.try_get("look")?, row.try_get("people")?))).collect()
}

/// Rows of each table that one poll reads before it checks each project.
const WINDOW: i64 = 2_000;

/// Returns up to `max` projects with marks, with users whose evaluation is due, or with starts to be published. Takes
/// no locks: Citus refuses locks across projects.
///
/// Reads the first rows of each table. If a table may have more, it also checks the indexes once for each project, so
/// that one project's backlog hides no other project.
pub async fn projects(db: &impl GenericClient, now: Timestamp, max: i64) -> Result<Vec<ProjectId>, StoreError> {
    let sql = "SELECT project_id, max(count) AS most FROM (\
               SELECT project_id, count(*) FROM (SELECT project_id FROM segment_dirty ORDER BY id LIMIT $2) AS marked \
               GROUP BY project_id UNION ALL \
               SELECT project_id, count(*) FROM (SELECT project_id FROM segment_membership WHERE due_at <= $1 ORDER BY due_at LIMIT $2) AS due \
               GROUP BY project_id UNION ALL \
               SELECT project_id, count(*) FROM (SELECT project_id FROM segment_start LIMIT $2) AS started \
               GROUP BY project_id) AS found GROUP BY project_id";
    let (mut found, mut read) = (BTreeSet::new(), 0);
    for row in db.query(&db.prepare_cached(sql).await?, &[&now, &WINDOW]).await? {
        found.insert(row.try_get("project_id")?);
        read += row.try_get::<_, i64>("most")?;
    }
    // If the sum of the highest counts is lower, no table has more rows than were read.
    if read >= WINDOW {
        let sql = "SELECT p.project_id FROM project p \
                   LEFT JOIN LATERAL (SELECT true AS found FROM segment_dirty d WHERE d.project_id = p.project_id LIMIT 1) AS marked ON true \
                   LEFT JOIN LATERAL (SELECT true AS found FROM segment_membership m WHERE m.project_id = p.project_id \
                   AND m.due_at <= $1 LIMIT 1) AS due ON true \
                   LEFT JOIN LATERAL (SELECT true AS found FROM segment_start s WHERE s.project_id = p.project_id LIMIT 1) AS started ON true \
                   WHERE coalesce(marked.found, due.found, started.found, false)";
        for row in db.query(&db.prepare_cached(sql).await?, &[&now]).await? {
            found.insert(row.try_get("project_id")?);
        }
    }
    Ok(found.into_iter().take(usize::try_from(max).unwrap_or(usize::MAX)).collect())
}

/// Removes the marks of a project that follows no segment.
pub async fn clear(tx: &Transaction<'_>, project: ProjectId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM segment_dirty WHERE project_id = $1", &[&project]).await?;
    Ok(())
}
