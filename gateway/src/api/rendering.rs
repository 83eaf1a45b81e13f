//! Filling in texts while somebody waits. It keeps a processor busy, so few do it at once, and none of the threads that
//! answer everybody else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::context::Context;
use crate::error::ApiError;

/// How many at once.
pub const AT_ONCE: usize = 2;
/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(2);

/// What the work comes to. Its place is free again when it is done, also where nobody waits for it any more.
pub async fn rendered<T: Send + 'static>(
    cx: &Context<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    in_turn(&cx.app.renderings, work).await
}

async fn in_turn<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let Ok(Ok(place)) = tokio::time::timeout(WAIT, places.clone().acquire_owned()).await else {
        return Err(ApiError::Unavailable("as many texts are being rendered as may be at once"));
    };
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await.map_err(|e| ApiError::Internal(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn whoever_finds_no_place_is_told_so_and_a_place_outlives_its_request() {
        let places = Arc::new(Semaphore::new(1));
        assert_eq!(in_turn(&places, || 5).await.unwrap(), 5);
        let (go_on, wait) = mpsc::channel::<()>();
        let long = {
            let places = places.clone();
            tokio::spawn(async move { in_turn(&places, move || wait.recv()).await })
        };
        while places.available_permits() == 1 {
            tokio::task::yield_now().await;
        }
        long.abort();
        let _ = long.await;
        assert!(matches!(in_turn(&places, || 5).await, Err(ApiError::Unavailable(_))));
        go_on.send(()).unwrap();
        assert_eq!(in_turn(&places, || 5).await.unwrap(), 5);
    }
}
