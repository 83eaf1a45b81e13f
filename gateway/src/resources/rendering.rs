//! Renders templates while a client waits. Rendering is CPU-bound, so it is limited in number and runs on blocking
//! threads, apart from those that serve requests.

use std::time::Duration;

use kernel::ids::OwnerId;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::limits::permits::Permits;

/// Maximum number of concurrent renderings per gateway.
pub const MAX_CONCURRENT: usize = 3;
/// Maximum number of concurrent renderings per owner, over all of the owner's projects.
pub const MAX_CONCURRENT_PER_OWNER: usize = 2;
/// How long a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `work` and returns its result. The permit is released when the work ends, even if the request has been
/// cancelled by then.
pub async fn rendered<T: Send + 'static>(
    cx: &Context<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    permitted(&cx.app.renderings, cx.owner, work).await
}

async fn permitted<T: Send + 'static>(
    permits: &Permits,
    owner: OwnerId,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let Some(permit) = permits.acquire(owner, PERMIT_TIMEOUT).await else {
        return Err(ApiError::Unavailable("this gateway has reached its limit of concurrent renderings"));
    };
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    done.await.map_err(|e| ApiError::Internal(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn permit_is_held_until_the_work_ends() {
        let owner = OwnerId(Uuid::from_u128(1));
        let permits = Arc::new(Permits::new(1, 1));
        assert_eq!(permitted(&permits, owner, || 5).await.unwrap(), 5);
        let (go_on, wait) = mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let long = {
            let permits = permits.clone();
            let work = move || {
                let _ = begun.send(());
                wait.recv()
            };
            tokio::spawn(async move { permitted(&permits, owner, work).await })
        };
        begins.await.unwrap();
        long.abort();
        let _ = long.await;
        assert!(matches!(permitted(&permits, owner, || 5).await, Err(ApiError::Unavailable(_))));
        go_on.send(()).unwrap();
        assert_eq!(permitted(&permits, owner, || 5).await.unwrap(), 5);
    }
}
