//! Followed segments: who was marked by recording is evaluated, and so is whose verdict can change by the passing of time;
//! whoever enters or leaves starts what waits for that.
//!
//! Whoever works on a project's segments holds its turn, a row lock, and reads what people are only then: so no verdict
//! is overtaken by an older one, however many schedulers there are.

mod evaluate;
mod fill;
mod publish;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use shared::ids::ProjectId;
use shared::store::segments::{dirty, follow};

use crate::App;
use crate::tick::{Found, TickError};

pub use evaluate::portion as evaluate;
pub use fill::look as look_at;
pub use publish::publish;

/// Projects in one look, and how many of them are worked on at once, so that a slow one holds up few.
const PROJECTS: i64 = 100;
const AT_ONCE: usize = 4;
/// Segments looked at as a whole in one look.
const SEGMENTS: i64 = 20;
/// How long one statement may take.
const STATEMENT: Duration = Duration::from_secs(5);
const TOO_SLOW: &str = "its rules took too long to evaluate; they ask for too much at once";

/// Evaluates who is marked or due, and publishes what that starts.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let projects = dirty::projects(&app.store.connection().await?, app.clock.now(), PROJECTS).await?;
    let found = Found::of(projects.len(), PROJECTS as usize);
    let turns = stream::iter(projects).map(|project| turn(&app, project)).buffer_unordered(AT_ONCE);
    turns.try_fold(found, |found, more| async move { Ok(found.and(more)) }).await
}

async fn turn(app: &App, project: ProjectId) -> Result<Found, TickError> {
    let evaluated = evaluate(app, project).await?;
    Ok(evaluated.and(publish(app, project).await?))
}

/// Goes on filling segments, looks for changes that nobody marks, and clears away what is followed no more.
pub async fn fill(app: Arc<App>) -> Result<Found, TickError> {
    let due = follow::due(&app.store.connection().await?, app.clock.now(), SEGMENTS).await?;
    let looks = stream::iter(due).map(|(project, segment)| look_at(&app, project, segment)).buffer_unordered(2);
    looks.try_fold(Found::Nothing, |found, more| async move { Ok(found.and(more)) }).await
}
