//! Looking again and again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shared::backoff::Backoff;
use shared::bus::PublishError;
use shared::ids::ProjectId;
use shared::shutdown::Shutdown;
use shared::store::{Connection, StoreError};

use crate::App;

/// Why a tick came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("{0}")]
    Broker(String),
}

/// What one look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Some,
    /// As much as one look takes: there is more.
    More,
}

impl Found {
    /// From how much was taken, and how much may be.
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

/// Projects in one look.
pub const PROJECTS: i64 = 100;

/// A connection for taking what is due. Not while the broker is away: what was taken and cannot be published would only
/// come later.
pub async fn connection(app: &App) -> Result<Connection, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    Ok(app.store.connection().await?)
}

/// Fires what is due of these projects, [`PROJECTS`] at most, one after the other. One whose rows cannot be taken holds up none of
/// the others; where the database or the broker is away, it is the same for all.
pub async fn each<F: Future<Output = Result<Found, TickError>>>(
    projects: Vec<ProjectId>,
    fire: impl Fn(ProjectId) -> F,
) -> Result<Found, TickError> {
    let (mut found, mut failed) = (Found::of(projects.len(), PROJECTS as usize), None);
    for project in projects {
        match fire(project).await {
            Ok(more) => found = found.and(more),
            // A statement that ran out of time is this project's.
            Err(TickError::Store(error)) if error.is_too_slow() || !error.is_unavailable() => {
                failed = failed.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    failed.map_or(Ok(found), |error| Err(error.into()))
}

/// Ticks until the shutdown. A tick that fails is tried again, with a line in the log at first and then now and again.
/// When the database was away and is back, the first tick comes only after `calm`: others have something to write down
/// first that it would take for undone.
pub async fn repeat<F: Future<Output = Result<Found, TickError>>>(
    what: &'static str,
    app: Arc<App>,
    shutdown: Shutdown,
    calm: Duration,
    tick: impl Fn(Arc<App>) -> F,
) {
    let (mut failures, mut was_away) = (0, false);
    while !shutdown.is_cancelled() {
        let pause = match look(&app, was_away, calm, &tick).await {
            Ok(pause) => {
                (failures, was_away) = (0, false);
                pause
            }
            Err(error) => {
                was_away |= matches!(&error, TickError::Store(error) if error.is_unavailable() && !error.is_too_slow());
                failures += 1;
                if failures % 20 == 1 {
                    tracing::warn!(what, %error, "cannot hand over what is due; trying again");
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

/// One tick, or the calm in its place; gives the pause after it.
async fn look<F: Future<Output = Result<Found, TickError>>>(
    app: &Arc<App>,
    was_away: bool,
    calm: Duration,
    tick: impl Fn(Arc<App>) -> F,
) -> Result<Duration, TickError> {
    if was_away && !calm.is_zero() {
        app.store.check().await?;
        return Ok(calm);
    }
    Ok(tick(app.clone()).await?.pause(app))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_look_means_that_there_is_more() {
        assert_eq!([Found::of(0, 5), Found::of(4, 5), Found::of(5, 5)], [Found::Nothing, Found::Some, Found::More]);
        assert_eq!(Found::Nothing.and(Found::More).and(Found::Some), Found::More);
    }
}
