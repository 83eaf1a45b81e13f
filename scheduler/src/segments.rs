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
use store_profiles::segments::person::crowd::Limits;
use store_profiles::segments::{dirty, follow};
use uuid::Uuid;

use crate::App;
use crate::tick::{Found, PROJECTS, TickError};

pub use evaluate::portion as evaluate;
pub use fill::look as look_at;
pub use publish::publish;

/// Number of projects evaluated concurrently, so that a slow one delays few others.
const AT_ONCE: usize = 4;
/// Maximum number of segments in one poll of [`fill()`].
const SEGMENTS: i64 = 20;
/// Time limit of one statement. [`LIMITS`] also limits all statements of one evaluation that count user activity.
const STATEMENT: Duration = Duration::from_secs(5);
const LIMITS: Limits = Limits { statement: STATEMENT, whole: Duration::from_secs(10) };
/// Delay before a segment that failed is processed again.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
const TOO_SLOW: &str = "its rules took too long to evaluate; simplify them";

/// Evaluates marked and due users, and publishes the resulting starts. A failed project delays no other.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let projects = dirty::projects(&app.store.connection().await?, app.now(), PROJECTS).await?;
    let found = Found::of(projects.len(), PROJECTS as usize);
    let turns = stream::iter(projects).map(|project| turn(&app, project)).buffer_unordered(AT_ONCE);
    turns.try_fold(found, |found, more| async move { Ok(found.and(more)) }).await
}

async fn turn(app: &App, project: ProjectId) -> Result<Found, TickError> {
    if app.failing_segments.rests(project) {
        return Ok(Found::Nothing);
    }
    let outcome = match evaluate(app, project).await {
        Ok(evaluated) => publish(app, project).await.map(|published| evaluated.and(published)),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(found) => {
            app.failing_segments.healed(project);
            Ok(found)
        }
        Err(error) if is_of_one(&error) => {
            let rest = app.failing_segments.failed(project, rand::random());
            tracing::warn!(%project, %error, ?rest, "segments of a project cannot be evaluated; retrying later");
            Ok(Found::Nothing)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether an error concerns one project or segment, so that others may succeed. This includes statement
/// timeouts.
fn is_of_one(error: &TickError) -> bool {
    matches!(error, TickError::Store(error) if error.is_too_slow() || !error.is_unavailable())
}

/// Fills segments, finds changes that are not marked, and removes the rows of segments that are no longer followed.
pub async fn fill(app: Arc<App>) -> Result<Found, TickError> {
    let due = follow::due(&app.store.connection().await?, app.now(), SEGMENTS).await?;
    let looks = stream::iter(due).map(|(project, segment)| look_or_put_off(&app, project, segment)).buffer_unordered(2);
    looks.try_fold(Found::Nothing, |found, more| async move { Ok(found.and(more)) }).await
}

/// Processes one segment. On failure it is postponed, so that it does not block the queue.
async fn look_or_put_off(app: &App, project: ProjectId, segment: Uuid) -> Result<Found, TickError> {
    match look_at(app, project, segment).await {
        Err(error) if is_of_one(&error) => {
            tracing::warn!(%project, %segment, %error, "segment cannot be processed; retrying later");
            let now = app.now();
            follow::put_off(&app.store.connection().await?, project, segment, (now, now + RETRY)).await?;
            Ok(Found::Nothing)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use database::StoreError;

    use super::*;

    #[test]
    fn only_what_would_fail_for_everybody_ends_a_look() {
        assert!(is_of_one(&StoreError::Corrupt("the rules of a segment".to_owned()).into()));
        assert!(!is_of_one(&StoreError::Unavailable("no connection".to_owned()).into()));
        assert!(!is_of_one(&TickError::Broker("not connected".to_owned())));
    }
}
