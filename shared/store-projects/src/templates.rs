//! Message templates.

pub mod source;

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::changes::{self, Topic};
use database::{StoreError, channel};
use domain::message::Channel;
use kernel::ids::ProjectId;

/// A template. Subject and body are sources that were valid when they were saved.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTemplate {
    pub id: Uuid,
    pub name: String,
    pub channel: Channel,
    /// The title, for push and in-app messages.
    pub subject: String,
    pub body: String,
    /// Source of the URL that a push message opens; see [`domain::push_url`]. None for other channels.
    pub url: Option<String>,
    pub tags: Vec<String>,
    /// Whether the template was written by AI, as declared when it was saved.
    pub ai: bool,
    /// Starts at 1 and increases with every change of subject, body or URL; identifies the source of a compiled
    /// template.
    pub version: i32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The compiled form that delivery uses instead of the body, if there is one. Lists omit it.
    pub compiled: Option<String>,
    /// Why the CSS of the body could not be inlined, if it could not. Lists omit it.
    pub not_inlined: Option<String>,
}

fn from_row(row: &Row) -> Result<StoredTemplate, StoreError> {
    Ok(StoredTemplate {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        channel: channel(row.try_get("channel")?)?,
        subject: row.try_get("subject")?,
        body: row.try_get("body")?,
        tags: row.try_get("tags")?,
        ai: row.try_get("ai")?,
        version: row.try_get("version")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        url: row.try_get("url")?,
        compiled: row.try_get("compiled")?,
        not_inlined: row.try_get("not_inlined")?,
    })
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<StoredTemplate>, StoreError> {
    let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, compiled, \
               not_inlined FROM template WHERE project_id = $1 AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<StoredTemplate>, StoreError> {
    let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, compiled, \
               not_inlined FROM template WHERE project_id = $1 AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Filter of a list of templates.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateFilter {
    pub channel: Option<Channel>,
    pub ai: Option<bool>,
}

/// Returns templates with an ID below `before`, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: TemplateFilter,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<StoredTemplate>, StoreError> {
    let (channel, before) = (wanted.channel.map(Channel::as_str), before.unwrap_or(Uuid::max()));
    // Without the compiled forms, which are as large as the bodies and not shown.
    let rows = match (channel, wanted.ai) {
        (None, None) => {
            let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, \
                       NULL::text AS compiled, NULL::text AS not_inlined FROM template WHERE project_id = $1 \
                       AND id < $2 ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?
        }
        (Some(channel), None) => {
            let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, \
                       NULL::text AS compiled, NULL::text AS not_inlined FROM template WHERE project_id = $1 \
                       AND id < $2 AND channel = $4 ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit, &channel]).await?
        }
        (None, Some(ai)) => {
            let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, \
                       NULL::text AS compiled, NULL::text AS not_inlined FROM template WHERE project_id = $1 \
                       AND id < $2 AND ai = $4 ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit, &ai]).await?
        }
        (Some(channel), Some(ai)) => {
            let sql = "SELECT id, name, channel, subject, body, tags, ai, version, created_at, updated_at, url, \
                       NULL::text AS compiled, NULL::text AS not_inlined FROM template WHERE project_id = $1 \
                       AND id < $2 AND channel = $4 AND ai = $5 ORDER BY id DESC LIMIT $3";
            db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit, &channel, &ai]).await?
        }
    };
    rows.iter().map(from_row).collect()
}

/// Returns the channels of those of these templates that exist, locked against deletion until the end of the
/// transaction.
pub async fn channels_of(
    tx: &Transaction<'_>,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Channel>, StoreError> {
    let sql = "SELECT id, channel FROM template WHERE project_id = $1 AND id = ANY($2) ORDER BY id FOR SHARE";
    let rows = tx.query(sql, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, channel(row.try_get("channel")?)?))).collect()
}

pub async fn insert(tx: &Transaction<'_>, project: ProjectId, new: &StoredTemplate) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Template).await?;
    let sql = "INSERT INTO template (project_id, id, name, channel, subject, body, tags, ai, version, created_at, \
               updated_at, url, compiled, not_inlined, changed_seq) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    let t = new;
    tx.execute(
        sql,
        &[
            &project,
            &t.id,
            &t.name,
            &t.channel.as_str(),
            &t.subject,
            &t.body,
            &t.tags,
            &t.ai,
            &t.version,
            &t.created_at,
            &t.updated_at,
            &t.url,
            &t.compiled,
            &t.not_inlined,
            &seq,
        ],
    )
    .await?;
    Ok(())
}

/// Writes a changed template that was read by [`get_for_update`]. The channel cannot change.
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &StoredTemplate) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Template).await?;
    let sql = "UPDATE template SET name = $3, subject = $4, body = $5, tags = $6, ai = $7, version = $8, updated_at = $9, \
               url = $10, compiled = $11, not_inlined = $12, changed_seq = $13 WHERE project_id = $1 AND id = $2";
    let t = changed;
    tx.execute(
        sql,
        &[
            &project,
            &t.id,
            &t.name,
            &t.subject,
            &t.body,
            &t.tags,
            &t.ai,
            &t.version,
            &t.updated_at,
            &t.url,
            &t.compiled,
            &t.not_inlined,
            &seq,
        ],
    )
    .await?;
    Ok(())
}

pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    changes::next(tx, Topic::Template).await?;
    tx.execute("DELETE FROM template WHERE project_id = $1 AND id = $2", &[&project, &id]).await?;
    Ok(())
}
