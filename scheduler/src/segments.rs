//! Evaluates followed segments, for users marked by recording and for users whose membership may change with time.
//!
//! Users who enter or leave start the automations that wait for it. A scheduler evaluates a project's segments under a
//! row lock, and reads user data only after it has the lock, so that no older result replaces a newer one.

mod evaluate;
mod fill;
mod publish;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use kernel::ids::ProjectId;
use store_profiles::segments::user_facts::batch::TimeLimits;
use store_profiles::segments::{dirty, follow};
use uuid::Uuid;

use crate::App;
use crate::tick::{MAX_PROJECTS, PollResult, TickError};

pub use evaluate::evaluate_batch as evaluate;
pub use fill::process as process_segment;
pub use publish::publish;

/// Number of projects evaluated concurrently, so that a slow one delays few others.
const MAX_CONCURRENT: usize = 4;
/// Maximum number of segments in one poll of [`fill()`].
const MAX_SEGMENTS: i64 = 20;
/// Time limit of one statement. [`LIMITS`] also limits all statements of one evaluation that count user activity.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
const LIMITS: TimeLimits = TimeLimits { statement: STATEMENT_TIMEOUT, whole: Duration::from_secs(10) };
/// Delay before a segment that failed is processed again.
const RETRY_DELAY: SignedDuration = SignedDuration::from_mins(1);
const TOO_SLOW: &str = "its rules took too long to evaluate; simplify them";

/// Evaluates marked and due users, and publishes the resulting starts. A failed project delays no other.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let projects = dirty::projects(&app.store.connection().await?, app.now(), MAX_PROJECTS).await?;
    let found = PollResult::from_count(projects.len(), MAX_PROJECTS as usize);
    let results = stream::iter(projects).map(|project| process_project(&app, project)).buffer_unordered(MAX_CONCURRENT);
    results.try_fold(found, |found, more| async move { Ok(found.and(more)) }).await
}

async fn process_project(app: &App, project: ProjectId) -> Result<PollResult, TickError> {
    if app.segment_backoff.is_backed_off(project) {
        return Ok(PollResult::Idle);
    }
    let outcome = match evaluate(app, project).await {
        Ok(evaluated) => publish(app, project).await.map(|published| evaluated.and(published)),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(found) => {
            app.segment_backoff.succeeded(project);
            Ok(found)
        }
        Err(error) if is_isolated(&error) => {
            let delay = app.segment_backoff.failed(project, rand::random());
            tracing::warn!(%project, %error, ?delay, "segments of a project cannot be evaluated; retrying later");
            Ok(PollResult::Idle)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether an error concerns one project or segment, so that others may succeed. This includes statement
/// timeouts.
fn is_isolated(error: &TickError) -> bool {
    matches!(error, TickError::Store(error) if error.is_statement_timeout() || !error.is_unavailable())
}

/// Fills segments, finds changes that are not marked, and removes the rows of segments that are no longer followed.
pub async fn fill(app: Arc<App>) -> Result<PollResult, TickError> {
    let due = follow::due(&app.store.connection().await?, app.now(), MAX_SEGMENTS).await?;
    let results =
        stream::iter(due).map(|(project, segment)| process_or_defer(&app, project, segment)).buffer_unordered(2);
    results.try_fold(PollResult::Idle, |found, more| async move { Ok(found.and(more)) }).await
}

/// Processes one segment. On failure it is postponed, so that it does not block the queue.
async fn process_or_defer(app: &App, project: ProjectId, segment: Uuid) -> Result<PollResult, TickError> {
    match process_segment(app, project, segment).await {
        Err(error) if is_isolated(&error) => {
            tracing::warn!(%project, %segment, %error, "segment cannot be processed; retrying later");
            let now = app.now();
            follow::postpone(&app.store.connection().await?, project, segment, (now, now + RETRY_DELAY)).await?;
            Ok(PollResult::Idle)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use database::StoreError;

    use super::*;

    #[test]
    fn only_global_errors_abort_a_poll() {
        assert!(is_isolated(&StoreError::Corrupt("the rules of a segment".to_owned()).into()));
        assert!(!is_isolated(&StoreError::Unavailable("no connection".to_owned()).into()));
        assert!(!is_isolated(&TickError::Broker("not connected".to_owned())));
    }
}
