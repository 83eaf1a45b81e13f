//! Imports users from a file.

use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::Serialize;
use store_profiles::user_imports::{self as imports, LineProblem, UserImport};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, ok};
use crate::ingest::import::{self, Format, ImportRequest};
use crate::resources::paging::NumberedPage;
use crate::resources::{idempotency, path_params, time_format};

const NDJSON: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];
const DELIMITERS: [(&str, u8); 4] = [("comma", b','), ("semicolon", b';'), ("tab", b'\t'), ("pipe", b'|')];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImportView {
    id: Uuid,
    status: &'static str,
    format: String,
    /// All lines before this one have been processed.
    next_line: i64,
    imported: i64,
    failed: i64,
    errors: Vec<LineProblem>,
    errors_omitted: i64,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
    #[serde(serialize_with = "time_format::maybe_time")]
    completed_at: Option<Timestamp>,
}

impl ImportView {
    fn new(import: UserImport, now: Timestamp) -> Self {
        Self {
            id: import.id,
            status: import.status(now).as_str(),
            format: import.format,
            next_line: import.next_line,
            imported: import.imported,
            failed: import.failed,
            errors: import.problems,
            errors_omitted: import.problems_omitted,
            created_at: import.created_at,
            updated_at: import.updated_at,
            completed_at: import.completed_at,
        }
    }
}

/// `POST /users/import`
pub async fn run(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let key = idempotency::key(cx)?;
    let from_line = query.integer("fromLine", 1..=i64::from(u32::MAX))?.map(|line| line as u64);
    if from_line.is_some() && key.is_none() {
        return Err(ApiError::invalid("fromLine", "requires the Idempotency-Key of the import to resume"));
    }
    let request = ImportRequest { format: requested_format(cx, &query)?, key, from_line };
    let import = Box::pin(import::run(cx, request)).await?;
    ok(&ImportView::new(import, cx.app.clock.now()))
}

/// Determines the format of the body from `Content-Type`.
fn requested_format(cx: &Context<'_>, query: &Query) -> Result<Format, ApiError> {
    let delimiter = query.choice("delimiter", &DELIMITERS)?;
    let (essence, charset) = match cx.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")) {
        None => (String::new(), None),
        Some(text) => {
            let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
            let essence = parts.next().unwrap_or_default();
            (essence, parts.find_map(|part| Some(part.strip_prefix("charset=")?.trim_matches('"').to_owned())))
        }
    };
    if charset.is_some_and(|charset| charset != "utf-8" && charset != "utf8") {
        return Err(ApiError::UnsupportedMedia("the body must be UTF-8".to_owned()));
    }
    if essence == "text/csv" {
        return Ok(Format::Csv { delimiter: delimiter.unwrap_or(b',') });
    }
    if !NDJSON.contains(&essence.as_str()) {
        return Err(ApiError::UnsupportedMedia("Content-Type must be application/x-ndjson or text/csv".to_owned()));
    }
    if delimiter.is_some() {
        return Err(ApiError::invalid("delimiter", "is allowed for text/csv only"));
    }
    Ok(Format::Ndjson)
}

/// `GET /users/import`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let (mut found, total) = imports::list(&cx.database().await?, cx.project, &page.start, page.rows()).await?;
    let end = page.cut(&mut found, |import| (import.created_at, import.id));
    let now = cx.app.clock.now();
    end.reply("imports", found.into_iter().map(|import| ImportView::new(import, now)), total)
}

/// `GET /users/import/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let candidates = import::candidates(cx.project, &path_params::text(segment, "import")?);
    let found = imports::find(&cx.database().await?, cx.project, &candidates).await?;
    ok(&ImportView::new(found.ok_or_else(|| ApiError::no_such("import"))?, cx.app.clock.now()))
}
