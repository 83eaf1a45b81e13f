//! Repeats polls until shutdown.

pub mod failing;

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
use crate::tick::failing::Failing;

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
pub enum Found {
    Nothing,
    Some,
    /// The maximum of one poll: there may be more.
    More,
}

impl Found {
    /// Compares the number of rows taken with the maximum.
    pub fn of(taken: usize, most: usize) -> Self {
        match taken {
            0 => Self::Nothing,
            n if n < most => Self::Some,
            _ => Self::More,
        }
    }

    pub fn and(self, other: Self) -> Self {
        if self as u8 >= other as u8 { self } else { other }
    }

    fn pause(self, app: &App) -> Duration {
        match self {
            Self::Nothing => app.config.idle,
            Self::Some => app.config.busy,
            Self::More => Duration::ZERO,
        }
    }
}

/// Projects in one poll. High enough for one poll to serve every project with due rows: were it lower, projects with a
/// long backlog could fill every poll and starve the rest.
pub const PROJECTS: i64 = 10_000;
/// Projects served at the same time, so that a slow one delays no other.
const CONCURRENT: usize = 4;

/// Returns a connection for claiming due rows.
///
/// Fails while the broker is unavailable: rows that were claimed but cannot be published would only be delayed.
pub async fn connection(app: &App) -> Result<Connection, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    Ok(app.store.connection().await?)
}

/// Runs `fire` for each of these projects (at most [`PROJECTS`]), a few concurrently, in order.
///
/// A project whose rows cannot be taken is logged and backed off, and delays no other. Returns an error if all
/// attempted projects failed, or if the database or the broker is unavailable, which affects all projects.
pub async fn each<F: Future<Output = Result<Found, TickError>>>(
    failing: &Failing,
    projects: Vec<ProjectId>,
    fire: impl Fn(ProjectId) -> F,
) -> Result<Found, TickError> {
    let all = Found::of(projects.len(), PROJECTS as usize);
    let (mut found, mut failed) = (None, None);
    let fired = projects.into_iter().filter(|project| !failing.rests(*project));
    let fired = fired.map(|project| {
        let firing = fire(project);
        async move { (project, firing.await) }
    });
    let mut fired = stream::iter(fired).buffer_unordered(CONCURRENT);
    while let Some((project, outcome)) = fired.next().await {
        match outcome {
            Ok(more) => {
                failing.healed(project);
                found = Some(found.unwrap_or(all).and(more));
            }
            // A statement timeout concerns only this project.
            Err(TickError::Store(error)) if error.is_too_slow() || !error.is_unavailable() => {
                let rest = failing.failed(project, rand::random());
                tracing::warn!(%project, %error, ?rest, "due rows of a project cannot be processed; retrying later");
                failed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (found, failed) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error.into()),
        // No projects, or all of them are backed off.
        (None, None) => Ok(Found::Nothing),
    }
}

/// Ticks until shutdown. A failed tick is retried after a backoff; the first failure and every 20th after it are
/// logged.
pub async fn repeat<F: Future<Output = Result<Found, TickError>>>(
    what: &'static str,
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
                    tracing::warn!(what, %error, "tick failed; retrying");
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
    fn a_full_look_means_that_there_is_more() {
        assert_eq!([Found::of(0, 5), Found::of(4, 5), Found::of(5, 5)], [Found::Nothing, Found::Some, Found::More]);
        assert_eq!(Found::Nothing.and(Found::More).and(Found::Some), Found::More);
    }

    fn corrupt() -> TickError {
        StoreError::Corrupt("on purpose".to_owned()).into()
    }

    #[tokio::test]
    async fn a_project_that_fails_holds_up_none_of_the_others() {
        let [one, two, three] = [1, 2, 3].map(|n| ProjectId(Uuid::from_u128(n)));
        let (failing, fired) = (Failing::default(), RefCell::new(Vec::new()));
        let fire = |project| {
            fired.borrow_mut().push(project);
            std::future::ready(if project == two { Err(corrupt()) } else { Ok(Found::Some) })
        };
        let all = vec![one, two, three];
        assert_eq!(each(&failing, all.clone(), &fire).await.unwrap(), Found::Some);
        // It is backed off, and so is not tried at once.
        assert_eq!(each(&failing, all, &fire).await.unwrap(), Found::Some);
        assert_eq!(*fired.borrow(), [one, two, three, one, three]);
        assert_eq!(each(&failing, vec![two], &fire).await.unwrap(), Found::Nothing);
    }

    #[tokio::test]
    async fn a_project_that_hangs_holds_up_none_of_the_others() {
        let projects: Vec<ProjectId> = (0..9).map(|n| ProjectId(Uuid::from_u128(n))).collect();
        let others = tokio::sync::Semaphore::new(0);
        let fire = async |project: ProjectId| {
            if project.0.is_nil() {
                // It ends only once all others were served.
                let _all = others.acquire_many(8).await.unwrap();
            } else {
                others.add_permits(1);
            }
            Ok(Found::Some)
        };
        let failing = Failing::default();
        let all = each(&failing, projects, fire);
        let found = tokio::time::timeout(Duration::from_secs(10), all).await.expect("no project is delayed");
        assert_eq!(found.unwrap(), Found::Some);
    }

    #[tokio::test]
    async fn where_all_fail_or_the_database_is_away_the_tick_fails() {
        let [one, two] = [1, 2].map(|n| ProjectId(Uuid::from_u128(n)));
        let all = || vec![one, two];
        let error = each(&Failing::default(), all(), |_| std::future::ready(Err(corrupt()))).await;
        assert!(matches!(error, Err(TickError::Store(StoreError::Corrupt(_)))), "{error:?}");
        let (failing, tried) = (Failing::default(), RefCell::new(0));
        let away = |_| {
            *tried.borrow_mut() += 1;
            std::future::ready(Err(StoreError::Unavailable("on purpose".to_owned()).into()))
        };
        assert!(each(&failing, all(), away).await.is_err());
        assert!(*tried.borrow() <= CONCURRENT && !failing.rests(one));
        assert_eq!(each(&failing, Vec::new(), away).await.unwrap(), Found::Nothing);
    }

    #[tokio::test]
    async fn a_full_look_of_which_something_came_means_that_there_is_more() {
        let projects = (0..PROJECTS as u128).map(|n| ProjectId(Uuid::from_u128(n))).collect();
        let fire = |project: ProjectId| {
            std::future::ready(if project.0.is_nil() { Err(corrupt()) } else { Ok(Found::Nothing) })
        };
        assert_eq!(each(&Failing::default(), projects, fire).await.unwrap(), Found::More);
    }
}
