//! Finding who is in a segment while somebody waits: bounded in time and in number, so that a slow one never keeps
//! the others from being answered.

use std::time::{Duration, Instant};

use database::{StoreError, Transaction};
use serde::Serialize;
use store_profiles::segments::evaluate::{self, members};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::limits::permits::Permit;

/// Evaluations at once in one gateway: they must leave other requests connections and processors.
pub const AT_ONCE: usize = 3;
/// Evaluations at once for the projects of one owner.
pub const AT_ONCE_PER_OWNER: usize = 2;
/// How long the statements of one request may take.
pub const AT_MOST: Duration = Duration::from_secs(10);
/// How long one of many segments may take.
const EACH_AT_MOST: Duration = Duration::from_secs(5);
const TOO_SLOW: &str = "took too long to count; its rules ask for too much at once";

/// How many people a segment has, or why that is not known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    user_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_count_error: Option<&'static str>,
}

/// Waits for a permit to evaluate. Few run at once: each may keep a processor and a connection busy.
pub async fn evaluation_permit(cx: &Context<'_>) -> Result<Permit, ApiError> {
    let permit = cx.app.evaluations.acquire(cx.owner, AT_MOST).await;
    permit.ok_or(ApiError::Unavailable("too many segment evaluations are running"))
}

/// Begins to evaluate rules, in a transaction whose statements are bounded.
pub async fn bound(tx: &Transaction<'_>) -> Result<(), ApiError> {
    Ok(evaluate::bound(tx, AT_MOST).await?)
}

/// A failure of the database, where a statement ran into its limit said so.
pub fn failed(error: StoreError) -> ApiError {
    if error.is_too_slow() {
        return ApiError::Unavailable("the rules took longer than 10 s to evaluate, ask for less at once");
    }
    error.into()
}

/// The number of a segment's people now.
pub async fn count_of(cx: &Context<'_>, segment: Uuid) -> Result<Count, ApiError> {
    let _permit = evaluation_permit(cx).await?;
    counted(cx, segment, AT_MOST).await
}

/// The same of several, one after the other; those that come too late are not counted.
pub async fn counts_of(cx: &Context<'_>, segments: &[Uuid]) -> Result<Vec<Count>, ApiError> {
    let _permit = evaluation_permit(cx).await?;
    let began = Instant::now();
    let mut counts = Vec::with_capacity(segments.len());
    for segment in segments {
        let left = AT_MOST.saturating_sub(began.elapsed());
        counts.push(if left.is_zero() {
            let why = "not counted, for others of this list took too long; read the segment by itself";
            Count { user_count: None, user_count_error: Some(why) }
        } else {
            counted(cx, *segment, left.min(EACH_AT_MOST)).await?
        });
    }
    Ok(counts)
}

async fn counted(cx: &Context<'_>, segment: Uuid, at_most: Duration) -> Result<Count, ApiError> {
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    evaluate::bound(&tx, at_most).await?;
    let people = members(&tx, cx.project, segment, cx.app.clock.now()).await?;
    match evaluate::count(&tx, &people).await {
        Ok(count) => Ok(Count { user_count: Some(count), user_count_error: None }),
        Err(error) if error.is_too_slow() => Ok(Count { user_count: None, user_count_error: Some(TOO_SLOW) }),
        Err(error) => Err(error.into()),
    }
}
