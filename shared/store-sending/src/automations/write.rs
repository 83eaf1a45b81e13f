//! Saves automations. All functions run in the caller's transaction, under the topic's lock.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Automation, from_row};
use automation::Definition;
use automation::journey::Program;
use database::StoreError;
use database::changes::{self, Topic};
use kernel::ids::ProjectId;
use store_profiles::segments::follow;

/// Like [`super::get`], but locks the row until the transaction ends, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<Automation>, StoreError> {
    let sql = "SELECT id, name, active, version, definition, created_at, updated_at FROM automation WHERE project_id = $1 \
         AND id = $2 AND deleted_at IS NULL FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Advances the topic. If segments trigger automations, advances theirs first, because the set of tracked segments may
/// change.
async fn begin(tx: &Transaction<'_>, by_segments: bool) -> Result<i64, StoreError> {
    if by_segments {
        changes::next(tx, Topic::Segment).await?;
    }
    changes::next(tx, Topic::Automation).await
}

/// Locks one automation, or all of the project's, until the transaction ends. Returns whether a segment triggers any of
/// them, or `None` if there is none.
async fn lock(tx: &Transaction<'_>, project: ProjectId, id: Option<Uuid>) -> Result<Option<bool>, StoreError> {
    let sql = "SELECT trigger_type IN ('SEGMENT_ENTER', 'SEGMENT_EXIT') AS by_segment FROM automation \
               WHERE project_id = $1 AND ($2::uuid IS NULL OR id = $2) AND deleted_at IS NULL ORDER BY id FOR UPDATE";
    let rows = tx.query(sql, &[&project, &id]).await?;
    let by_segment: Vec<bool> = rows.iter().map(|row| row.try_get("by_segment")).collect::<Result<_, _>>()?;
    Ok((!by_segment.is_empty()).then(|| by_segment.contains(&true)))
}

/// Inserts a new automation and its first version.
pub async fn insert(tx: &Transaction<'_>, project: ProjectId, new: &Automation) -> Result<(), StoreError> {
    let by_segment = new.definition.trigger_type.is_of_segment();
    let seq = begin(tx, by_segment).await?;
    let definition = new.definition.encode();
    let sql = "INSERT INTO automation (project_id, id, name, trigger_type, trigger_event, active, version, definition, \
               created_at, updated_at, changed_seq, hears, dates_since) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
               CASE WHEN $6 AND $4 = 'DATE_PROPERTY' THEN $10::timestamptz END)";
    let trigger = new.definition.trigger_type.as_str();
    let event = &new.definition.trigger_event;
    tx.execute(
        sql,
        &[
            &project,
            &new.id,
            &new.name,
            &trigger,
            event,
            &new.active,
            &new.version,
            &definition,
            &new.created_at,
            &new.updated_at,
            &seq,
            &listened_events(&new.definition)?,
        ],
    )
    .await?;
    insert_version(tx, project, new).await?;
    if by_segment { follow::refresh(tx, project, new.updated_at).await } else { Ok(()) }
}

/// Writes a head that was read by [`get_for_update`] and changed. Inserts its version if that number does not exist.
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &Automation) -> Result<(), StoreError> {
    let was_by_segment = lock(tx, project, Some(changed.id)).await?.unwrap_or(false);
    let by_segment = was_by_segment || changed.definition.trigger_type.is_of_segment();
    let seq = begin(tx, by_segment).await?;
    let definition = changed.definition.encode();
    // The right-hand sides see the old column values. If an active automation changes while the dates of its users are
    // still being recorded, `dates_since` moves back by a microsecond: no date is skipped, and the running pass sees
    // that it must start again.
    let sql = "UPDATE automation SET name = $3, trigger_type = $4, trigger_event = $5, active = $6, version = $7, \
               definition = $8, updated_at = $9, changed_seq = $10, dates_since = \
               CASE WHEN 'DATE_PROPERTY' IN (trigger_type, $4) AND (active <> $6 OR active AND version <> $7) THEN \
               CASE WHEN trigger_type = 'DATE_PROPERTY' AND $4 = 'DATE_PROPERTY' AND active \
               AND $6 THEN coalesce(dates_since - interval '1 microsecond', $9) ELSE $9 END ELSE dates_since END, \
               dates_to = CASE WHEN 'DATE_PROPERTY' IN (trigger_type, $4) AND (active <> $6 OR active \
               AND version <> $7) THEN NULL ELSE dates_to END, hears = (SELECT coalesce(array_agg(DISTINCT e), '{}') \
               FROM unnest(hears || $11::text[]) AS e) WHERE project_id = $1 AND id = $2";
    let trigger = changed.definition.trigger_type.as_str();
    let event = &changed.definition.trigger_event;
    tx.execute(
        sql,
        &[
            &project,
            &changed.id,
            &changed.name,
            &trigger,
            event,
            &changed.active,
            &changed.version,
            &definition,
            &changed.updated_at,
            &seq,
            &listened_events(&changed.definition)?,
        ],
    )
    .await?;
    insert_version(tx, project, changed).await?;
    if by_segment { follow::refresh(tx, project, changed.updated_at).await } else { Ok(()) }
}

fn listened_events(definition: &Definition) -> Result<Vec<String>, StoreError> {
    let program = Program::compile(definition).map_err(StoreError::Corrupt)?;
    Ok(program.possible_events().into_iter().collect())
}

async fn insert_version(tx: &Transaction<'_>, project: ProjectId, of: &Automation) -> Result<(), StoreError> {
    let sql = "INSERT INTO automation_version (project_id, automation_id, version, definition, created_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let definition = of.definition.encode();
    tx.execute(sql, &[&project, &of.id, &of.version, &definition, &of.updated_at]).await?;
    Ok(())
}

/// Deletes an automation. Returns false if there is none. The scheduler ends its runs in progress; a timer that fires
/// before that finds the automation inactive.
pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    // Locked until the end, because its trigger may be changing concurrently.
    let Some(by_segment) = lock(tx, project, Some(id)).await? else { return Ok(false) };
    let seq = begin(tx, by_segment).await?;
    let sql = "UPDATE automation SET active = false, deleted_at = $3, updated_at = $3, changed_seq = $4, dates_to = NULL, \
               dates_since = CASE WHEN dates_since IS NOT NULL OR active AND trigger_type = 'DATE_PROPERTY' THEN $3::timestamptz END \
               WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL";
    let deleted = tx.execute(sql, &[&project, &id, &now, &seq]).await? > 0;
    if by_segment {
        follow::refresh(tx, project, now).await?;
    }
    Ok(deleted)
}

/// Deletes all automations of a project.
pub async fn delete_all(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let by_segments = lock(tx, project, None).await?.unwrap_or(false);
    let seq = begin(tx, by_segments).await?;
    let sql = "UPDATE automation SET active = false, deleted_at = $2, updated_at = $2, changed_seq = $3 \
               WHERE project_id = $1 AND deleted_at IS NULL";
    tx.execute(sql, &[&project, &now, &seq]).await?;
    if by_segments { follow::refresh(tx, project, now).await } else { Ok(()) }
}
