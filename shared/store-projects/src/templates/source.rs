//! Current versions of templates for delivery, without reading a cached text again.

use deadpool_postgres::GenericClient;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

/// A template's version and, unless the caller has that version, its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSource {
    pub id: Uuid,
    pub version: i32,
    pub text: Option<SourceText>,
}

/// The text of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    pub subject: String,
    /// The compiled form, or the body if there is none.
    pub body: String,
    /// The URL that a push message opens, if any.
    pub url: Option<String>,
}

/// Returns the templates in `wanted`, which holds IDs, each with the version that the caller has, or 0. Deleted
/// templates are omitted.
pub async fn newest(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
) -> Result<Vec<TemplateSource>, StoreError> {
    let (ids, known): (Vec<Uuid>, Vec<i32>) = wanted.iter().copied().unzip();
    let sql = "SELECT t.id, t.version, CASE WHEN t.version <> k.version THEN t.subject END AS subject, \
               CASE WHEN t.version <> k.version THEN coalesce(t.compiled, t.body) END AS body, \
               CASE WHEN t.version <> k.version THEN t.url END AS url \
               FROM unnest($2::uuid[], $3::int[]) AS k (id, version) JOIN template t ON t.id = k.id WHERE t.project_id = $1";
    let statement = db.prepare_cached(sql).await?;
    let mut sources = Vec::with_capacity(wanted.len());
    for row in db.query(&statement, &[&project, &ids, &known]).await? {
        let (subject, body): (Option<String>, Option<String>) = (row.try_get("subject")?, row.try_get("body")?);
        let url: Option<String> = row.try_get("url")?;
        let text = subject.zip(body).map(|(subject, body)| SourceText { subject, body, url });
        sources.push(TemplateSource { id: row.try_get("id")?, version: row.try_get("version")?, text });
    }
    Ok(sources)
}
