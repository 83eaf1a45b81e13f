//! Evaluates segments while a client waits, with limits on time and concurrency, so that slow segments do not block
//! other requests.

use std::time::{Duration, Instant};

use database::{StoreError, Transaction};
use serde::Serialize;
use store_profiles::segments::evaluate::{self, members};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::limits::permits::Permit;

/// Maximum number of concurrent evaluations per gateway, which leaves connections and CPUs for other requests.
pub const MAX_CONCURRENT: usize = 3;
/// Maximum number of concurrent evaluations per owner, over all of the owner's projects.
pub const MAX_CONCURRENT_PER_OWNER: usize = 2;
/// Time limit for the statements of one request, and for acquiring a permit.
pub const EVALUATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for each of several segments.
const PER_SEGMENT_TIMEOUT: Duration = Duration::from_secs(5);
const TOO_SLOW: &str = "counting took too long; simplify the rules";

/// Number of users in a segment, or the reason why it is unknown.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    user_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_count_error: Option<&'static str>,
}

/// Waits for a permit to evaluate. Permits are few, since each evaluation may use a CPU and a connection.
pub async fn evaluation_permit(cx: &Context<'_>) -> Result<Permit, ApiError> {
    let permit = cx.app.evaluations.acquire(cx.owner, EVALUATION_TIMEOUT).await;
    permit.ok_or(ApiError::Unavailable("too many segment evaluations are running"))
}

/// Limits the statement time of a transaction that evaluates rules.
pub async fn limit_statements(tx: &Transaction<'_>) -> Result<(), ApiError> {
    Ok(evaluate::configure_search(tx, EVALUATION_TIMEOUT).await?)
}

/// Converts a database error, mapping a statement timeout to 503.
pub fn evaluation_error(error: StoreError) -> ApiError {
    if error.is_statement_timeout() {
        return ApiError::Unavailable("evaluating the rules took longer than 10 s; simplify them");
    }
    error.into()
}

/// Counts the current users of a segment.
pub async fn count_of(cx: &Context<'_>, segment: Uuid) -> Result<Count, ApiError> {
    let _permit = evaluation_permit(cx).await?;
    counted(cx, segment, EVALUATION_TIMEOUT).await
}

/// Counts the users of several segments, one after the other. Segments not reached within the time limit are not
/// counted.
pub async fn counts_of(cx: &Context<'_>, segments: &[Uuid]) -> Result<Vec<Count>, ApiError> {
    let _permit = evaluation_permit(cx).await?;
    let began = Instant::now();
    let mut counts = Vec::with_capacity(segments.len());
    for segment in segments {
        let left = EVALUATION_TIMEOUT.saturating_sub(began.elapsed());
        counts.push(if left.is_zero() {
            let why = "not counted, because other segments in this list took too long; retrieve it individually";
            Count { user_count: None, user_count_error: Some(why) }
        } else {
            counted(cx, *segment, left.min(PER_SEGMENT_TIMEOUT)).await?
        });
    }
    Ok(counts)
}

async fn counted(cx: &Context<'_>, segment: Uuid, timeout: Duration) -> Result<Count, ApiError> {
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    evaluate::configure_search(&tx, timeout).await?;
    let users = members(&tx, cx.project, segment, cx.app.clock.now()).await?;
    match evaluate::count(&tx, &users).await {
        Ok(count) => Ok(Count { user_count: Some(count), user_count_error: None }),
        Err(error) if error.is_statement_timeout() => Ok(Count { user_count: None, user_count_error: Some(TOO_SLOW) }),
        Err(error) => Err(error.into()),
    }
}
