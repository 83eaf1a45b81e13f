//! Segments: users who satisfy rules, or users on a manual list.
//!
//! The members are computed from the rules on each request ([`evaluate`]), so counts are exact and time windows slide.
//! The members of segments that start automations ([`follow`]) are also stored in rows ([`membership`]); those rows are
//! updated for users who were marked ([`dirty`]).

pub mod dirty;
pub mod evaluate;
pub mod follow;
pub mod members;
pub mod membership;
pub mod starts;
pub mod user_facts;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::changes::{self, Topic};
use kernel::ids::ProjectId;
use rules::Rule;

/// How the members of a segment are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentType {
    /// Users who satisfy the rules; all users if there are none.
    Rules,
    /// Users on the segment's list.
    Manual,
}

impl SegmentType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "RULES",
            Self::Manual => "MANUAL",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Rules, Self::Manual].into_iter().find(|t| t.as_str() == text)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub segment_type: SegmentType,
    /// As submitted; [`rules::parse`] accepted them when they were saved.
    pub rules: Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Segment {
    pub fn parsed_rules(&self) -> Result<Vec<Rule>, StoreError> {
        parsed(self.id, &self.rules)
    }

    fn depends_on(&self) -> Result<Vec<Uuid>, StoreError> {
        Ok(rules::segments(&self.parsed_rules()?).into_iter().collect())
    }
}

fn parsed(id: Uuid, rules: &Value) -> Result<Vec<Rule>, StoreError> {
    rules::parse(rules, "rules").map_err(|problems| {
        let first = problems.first().map(|p| format!("{} {}", p.path, p.message)).unwrap_or_default();
        StoreError::Corrupt(format!("the rules of segment {id}: {first}"))
    })
}

fn from_row(row: &Row) -> Result<Segment, StoreError> {
    Ok(Segment {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        segment_type: segment_type(row.try_get("type")?)?,
        rules: row.try_get("rules")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

fn segment_type(text: &str) -> Result<SegmentType, StoreError> {
    SegmentType::parse(text).ok_or_else(|| StoreError::Corrupt(format!("segment type {text:?}")))
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Segment>, StoreError> {
    let sql = "SELECT id, name, description, type, rules, created_at, updated_at FROM segment WHERE project_id = $1 \
               AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Returns segments with an ID below `before`, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Segment>, StoreError> {
    let sql = "SELECT id, name, description, type, rules, created_at, updated_at FROM segment WHERE project_id = $1 \
               AND id < $2 ORDER BY id DESC LIMIT $3";
    let before = before.unwrap_or(Uuid::max());
    db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?.iter().map(from_row).collect()
}

/// Starts a change of segments. Such transactions run one at a time, so that their checks on other segments remain
/// valid.
pub async fn begin_change(tx: &Transaction<'_>) -> Result<(), StoreError> {
    changes::next(tx, Topic::Segment).await?;
    Ok(())
}

/// Returns those of these segments that exist, locked against deletion until the end of the transaction.
pub async fn existing(tx: &Transaction<'_>, project: ProjectId, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM segment WHERE project_id = $1 AND id = ANY($2) ORDER BY id FOR SHARE";
    tx.query(sql, &[&project, &ids]).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<Option<Segment>, StoreError> {
    let sql = "SELECT id, name, description, type, rules, created_at, updated_at FROM segment WHERE project_id = $1 \
               AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Returns the ID and name of another segment whose rules refer to this one.
pub async fn find_dependent(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, name FROM segment WHERE project_id = $1 AND rests_on @> ARRAY[$2::uuid] ORDER BY id LIMIT 1";
    let row = db.query_opt(sql, &[&project, &id]).await?;
    row.map(|row| Ok((row.try_get("id")?, row.try_get("name")?))).transpose()
}

pub async fn insert(tx: &Transaction<'_>, project: ProjectId, new: &Segment) -> Result<(), StoreError> {
    let sql = "INSERT INTO segment (project_id, id, name, description, type, rules, rests_on, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let (s, kind) = (new, new.segment_type.as_str());
    let depends_on = s.depends_on()?;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
        [&project, &s.id, &s.name, &s.description, &kind, &s.rules, &depends_on, &s.created_at, &s.updated_at];
    tx.execute(sql, &params).await?;
    Ok(())
}

/// Writes a changed segment that was read by [`get_for_update`].
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &Segment) -> Result<(), StoreError> {
    let sql = "UPDATE segment SET name = $3, description = $4, type = $5, rules = $6, rests_on = $7, updated_at = $8 \
               WHERE project_id = $1 AND id = $2";
    let (s, kind) = (changed, changed.segment_type.as_str());
    let depends_on = s.depends_on()?;
    tx.execute(sql, &[&project, &s.id, &s.name, &s.description, &kind, &s.rules, &depends_on, &s.updated_at]).await?;
    Ok(())
}

/// Deletes a segment with its list and its daily counts.
pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    tx.execute("DELETE FROM segment_member WHERE project_id = $1 AND segment_id = $2", &[&project, &id]).await?;
    tx.execute("DELETE FROM segment_count WHERE project_id = $1 AND segment_id = $2", &[&project, &id]).await?;
    tx.execute("DELETE FROM segment WHERE project_id = $1 AND id = $2", &[&project, &id]).await?;
    Ok(())
}
