//! Repeats polls until shutdown.

pub mod project_backoff;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bus::PublishError;
use database::{Connection, StoreError};
use futures_util::{StreamExt, stream};
use kernel::backoff::Backoff;
use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;

use crate::App;
use crate::tick::project_backoff::ProjectBackoff;

/// Reason for a failed tick.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("{0}")]
    Broker(String),
}

/// How much one poll found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    Idle,
    Busy,
    /// The maximum of one poll: there may be more.
    HasMore,
}

impl PollResult {
    /// Compares the number of rows taken with the maximum.
    pub fn from_count(taken: usize, most: usize) -> Self {
        match taken {
            0 => Self::Idle,
            n if n < most => Self::Busy,
            _ => Self::HasMore,
        }
    }

    pub fn and(self, other: Self) -> Self {
        if self as u8 >= other as u8 { self } else { other }
    }

    fn pause(self, app: &App) -> Duration {
        match self {
            Self::Idle => app.config.idle,
            Self::Busy => app.config.busy,
            Self::HasMore => Duration::ZERO,
        }
    }
}

/// Projects in one poll. High enough for one poll to serve every project with due rows: were it lower, projects with a
/// long backlog could fill every poll and starve the rest.
pub const MAX_PROJECTS: i64 = 10_000;
/// Projects served at the same time, so that a slow one delays no other.
const MAX_CONCURRENT: usize = 4;

/// Returns a connection for claiming due rows.
///
/// Fails while the broker is unavailable: rows that were claimed but cannot be published would only be delayed.
pub async fn connection(app: &App) -> Result<Connection, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    Ok(app.store.connection().await?)
}

/// Runs `fire` for each of these projects (at most [`MAX_PROJECTS`]), a few concurrently, in order.
///
/// A project whose rows cannot be taken is logged and backed off, and delays no other. Returns an error if all
/// attempted projects failed, or if the database or the broker is unavailable, which affects all projects.
pub async fn for_each_project<F: Future<Output = Result<PollResult, TickError>>>(
    backoff: &ProjectBackoff,
    projects: Vec<ProjectId>,
    fire: impl Fn(ProjectId) -> F,
) -> Result<PollResult, TickError> {
    let all = PollResult::from_count(projects.len(), MAX_PROJECTS as usize);
    let (mut found, mut failed) = (None, None);
    let fired = projects.into_iter().filter(|project| !backoff.is_backed_off(*project));
    let fired = fired.map(|project| {
        let firing = fire(project);
        async move { (project, firing.await) }
    });
    let mut fired = stream::iter(fired).buffer_unordered(MAX_CONCURRENT);
    while let Some((project, outcome)) = fired.next().await {
        match outcome {
            Ok(more) => {
                backoff.succeeded(project);
                found = Some(found.unwrap_or(all).and(more));
            }
            // A statement timeout concerns only this project.
            Err(TickError::Store(error)) if error.is_statement_timeout() || !error.is_unavailable() => {
                let delay = backoff.failed(project, rand::random());
                tracing::warn!(%project, %error, ?delay, "due rows of a project cannot be processed; retrying later");
                failed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (found, failed) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error.into()),
        // No projects, or all of them are backed off.
        (None, None) => Ok(PollResult::Idle),
    }
}

/// Ticks until shutdown. A failed tick is retried after a backoff; the first failure and every 20th after it are
/// logged.
pub async fn repeat<F: Future<Output = Result<PollResult, TickError>>>(
    task: &'static str,
    app: Arc<App>,
    shutdown: Shutdown,
    tick: impl Fn(Arc<App>) -> F,
) {
    let mut failures = 0;
    while !shutdown.is_cancelled() {
        let pause = match tick(app.clone()).await {
            Ok(found) => {
                failures = 0;
                found.pause(&app)
            }
            Err(error) => {
                failures += 1;
                if failures % 20 == 1 {
                    tracing::warn!(task, %error, "tick failed; retrying");
                }
                Backoff::CONNECT.delay(failures, rand::random())
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn full_poll_has_more() {
        assert_eq!(
            [PollResult::from_count(0, 5), PollResult::from_count(4, 5), PollResult::from_count(5, 5)],
            [PollResult::Idle, PollResult::Busy, PollResult::HasMore]
        );
        assert_eq!(PollResult::Idle.and(PollResult::HasMore).and(PollResult::Busy), PollResult::HasMore);
    }

    fn corrupt() -> TickError {
        StoreError::Corrupt("on purpose".to_owned()).into()
    }

    #[tokio::test]
    async fn failing_project_delays_no_other() {
        let [one, two, three] = [1, 2, 3].map(|n| ProjectId(Uuid::from_u128(n)));
        let (backoff, fired) = (ProjectBackoff::default(), RefCell::new(Vec::new()));
        let fire = |project| {
            fired.borrow_mut().push(project);
            std::future::ready(if project == two { Err(corrupt()) } else { Ok(PollResult::Busy) })
        };
        let all = vec![one, two, three];
        assert_eq!(for_each_project(&backoff, all.clone(), &fire).await.unwrap(), PollResult::Busy);
        // It is backed off, and so is not tried at once.
        assert_eq!(for_each_project(&backoff, all, &fire).await.unwrap(), PollResult::Busy);
        assert_eq!(*fired.borrow(), [one, two, three, one, three]);
        assert_eq!(for_each_project(&backoff, vec![two], &fire).await.unwrap(), PollResult::Idle);
    }

    #[tokio::test]
    async fn hanging_project_delays_no_other() {
        let projects: Vec<ProjectId> = (0..9).map(|n| ProjectId(Uuid::from_u128(n))).collect();
        let others = tokio::sync::Semaphore::new(0);
        let fire = async |project: ProjectId| {
            if project.0.is_nil() {
                // It ends only once all others were served.
                let _all = others.acquire_many(8).await.unwrap();
            } else {
                others.add_permits(1);
            }
            Ok(PollResult::Busy)
        };
        let backoff = ProjectBackoff::default();
        let all = for_each_project(&backoff, projects, fire);
        let found = tokio::time::timeout(Duration::from_secs(10), all).await.expect("no project is delayed");
        assert_eq!(found.unwrap(), PollResult::Busy);
    }

    #[tokio::test]
    async fn tick_fails_if_all_projects_fail_or_database_is_unavailable() {
        let [one, two] = [1, 2].map(|n| ProjectId(Uuid::from_u128(n)));
        let all = || vec![one, two];
        let error = for_each_project(&ProjectBackoff::default(), all(), |_| std::future::ready(Err(corrupt()))).await;
        assert!(matches!(error, Err(TickError::Store(StoreError::Corrupt(_)))), "{error:?}");
        let (backoff, tried) = (ProjectBackoff::default(), RefCell::new(0));
        let unavailable = |_| {
            *tried.borrow_mut() += 1;
            std::future::ready(Err(StoreError::Unavailable("on purpose".to_owned()).into()))
        };
        assert!(for_each_project(&backoff, all(), unavailable).await.is_err());
        assert!(*tried.borrow() <= MAX_CONCURRENT && !backoff.is_backed_off(one));
        assert_eq!(for_each_project(&backoff, Vec::new(), unavailable).await.unwrap(), PollResult::Idle);
    }

    #[tokio::test]
    async fn full_poll_with_a_failure_has_more() {
        let projects = (0..MAX_PROJECTS as u128).map(|n| ProjectId(Uuid::from_u128(n))).collect();
        let fire = |project: ProjectId| {
            std::future::ready(if project.0.is_nil() { Err(corrupt()) } else { Ok(PollResult::Idle) })
        };
        assert_eq!(for_each_project(&ProjectBackoff::default(), projects, fire).await.unwrap(), PollResult::HasMore);
    }
}
